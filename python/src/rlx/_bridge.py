"""The process `rlxrun bridge`, and the requests to it. The Go package internal/bridge documents the frames."""

from __future__ import annotations

import array
import atexit
import itertools
import json
import math
import mmap
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from typing import Any, Callable

import numpy as np

from ._programs import program
from .errors import BackendError, error

INLINE_MAX = 64 << 10  # bytes of tensors that a frame may carry
_ALIGNMENT = 64
_HEAD = struct.Struct("<II")
_REQUEST = struct.Struct("<IIQ16s")  # with the id and the name of the call
# json.dumps and json.loads would look for their options in each call, and for the encoding
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().decode


def aligned(n: int) -> int:
    return -(-n // _ALIGNMENT) * _ALIGNMENT


class Region:
    """Memory that is shared with the bridge."""

    def __init__(self, bridge: Bridge, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        fd = _anonymous_file(self.size)
        try:
            self.memory = np.frombuffer(mmap.mmap(fd, self.size), np.uint8)
            self.id = bridge.call("region", {"size": self.size}, file=fd)["object"]
        finally:
            os.close(fd)


def _anonymous_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("rlx", os.MFD_CLOEXEC)
    else:
        fd, path = tempfile.mkstemp(prefix="rlx")
        os.unlink(path)
    os.ftruncate(fd, size)
    return fd


class Call:
    """A request without its answer. Frames that have arrived are in a queue."""

    def __init__(self, bridge: Bridge, id: int) -> None:
        self.bridge, self.id, self.frames = bridge, id, deque()

    def next(self) -> tuple[dict[str, Any], bytes]:
        """Return the next frame, and its payload. An error of the call is raised."""
        try:
            frame, payload = self.bridge.wait(self)
        except BaseException:  # such as KeyboardInterrupt
            self.cancel()
            raise
        if "event" not in frame:
            self.bridge.calls.pop(self.id, None)
        if "error" in frame:
            raise error(**frame["error"])
        return frame, payload

    def cancel(self) -> None:
        """End the call if it has not ended. What still arrives of it is dropped."""
        if self.bridge.calls.pop(self.id, None):
            self.bridge.send("cancel", {"call": self.id})


class Bridge:
    """A process `rlxrun bridge`. Threads may use it concurrently."""

    def __init__(self) -> None:
        if not hasattr(socket, "AF_UNIX"):  # Python for Windows
            raise error("RLX5113", "rlx.load", "rlx.load: Python has no Unix sockets on this system, which it needs to "
                        "reach the process that runs models", "use rlxrun, or Python in WSL; rlx.compile works here")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self.process = _start(theirs)
        self.pid = os.getpid()
        self.socket = ours
        self.input = ours.makefile("rb", buffering=1 << 16)
        self.numbers = itertools.count(1)
        self.calls: dict[int, Call] = {}
        self.sending = threading.Lock()
        # One of the threads that wait reads frames for all of them.
        self.changed = threading.Condition()
        self.reading = False
        self.lost: BackendError | None = None
        self.regions: deque[Region] = deque()
        self.closed: deque[int] = deque()

    def start(self, name: str, args: dict[str, Any], payload: bytes = b"", file: int = -1) -> Call:
        """Send a request whose answer is wanted."""
        if self.lost:
            raise self.lost
        call = Call(self, next(self.numbers))
        self.calls[call.id] = call
        self.send(name, args, payload, file, call.id)
        return call

    def call(self, name: str, args: dict[str, Any], payload: bytes = b"", file: int = -1) -> dict[str, Any]:
        """Send a request and return its result."""
        return self.start(name, args, payload, file).next()[0]["result"]

    def send(self, name: str, args: dict[str, Any], payload: bytes = b"", file: int = -1, id: int = 0) -> None:
        body = _encode(args).encode()
        frame = b"".join((_REQUEST.pack(len(body), len(payload), id, name.encode()), body, payload))
        try:
            with self.sending:
                if file < 0:
                    self.socket.sendall(frame)
                    return
                control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
                sent = self.socket.sendmsg([frame], control)
                self.socket.sendall(frame[sent:])
        except OSError:
            raise self._lose() from None

    def wait(self, call: Call) -> tuple[dict[str, Any], bytes]:
        """Return the next frame of a call. Meanwhile, frames of other calls go to their queues."""
        with self.changed:
            while True:
                if call.frames:
                    return call.frames.popleft()
                if self.lost:
                    raise self.lost
                if not self.reading:
                    self.reading = True
                    break
                self.changed.wait()
        try:
            while True:
                frame, payload = self._receive()
                if frame["id"] == call.id:
                    return frame, payload
                if other := self.calls.get(frame["id"]):
                    with self.changed:
                        other.frames.append((frame, payload))
                        self.changed.notify_all()
        finally:
            with self.changed:
                self.reading = False
                self.changed.notify_all()

    def _receive(self) -> tuple[dict[str, Any], bytes]:
        try:
            head = self.input.read(_HEAD.size)
            if len(head) == _HEAD.size:
                object, payload = _HEAD.unpack(head)
                body = self.input.read(object + payload)
                if len(body) == object + payload:
                    return _decode(body[:object].decode()), body[object:]
        except OSError:
            pass
        raise self._lose()

    def _lose(self) -> BackendError:
        """Mark the process as lost."""
        if not self.lost:
            try:
                status = self.process.wait(1)
                self.lost = BackendError(f"rlxrun bridge has ended with status {status}; load the model again")
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.lost = BackendError("rlxrun bridge has closed its socket; load the model again")
        return self.lost

    # Regions that no call uses are kept, because pages of a new one must be cleared first.

    def borrow(self, size: int) -> Region:
        """Return a region of at least size bytes. release returns it."""
        try:
            region = self.regions.pop()
        except IndexError:
            return Region(self, size)
        if region.size >= size:
            return region
        self.call("close", {"object": region.id})
        return Region(self, max(size, region.size + region.size // 2))

    def release(self, region: Region) -> None:
        self.regions.append(region)

    def close_later(self, id: int) -> None:
        """Have the next call close an object. The garbage collector may call it in any thread."""
        self.closed.append(id)

    def sweep(self) -> None:
        """Close the objects that nobody uses any more."""
        while self.closed:
            self.send("close", {"object": self.closed.popleft()})

    def shut(self) -> None:
        """End the process."""
        if self.pid == os.getpid():
            self.socket.close()
            self.input.close()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def _start(end: socket.socket) -> subprocess.Popen[bytes]:
    """Start the process with the socket. A Ctrl-C in a terminal does not reach it."""
    fd = end.fileno()
    return subprocess.Popen([program("rlxrun"), "bridge", f"--fd={fd}"], pass_fds=(fd,), stdin=subprocess.DEVNULL,
                            start_new_session=True)


_bridge: Bridge | None = None
_lock = threading.Lock()


def bridge() -> Bridge:
    """Return the process that all models share. It is started when the first one is loaded, and again if it is lost."""
    global _bridge
    with _lock:
        if _bridge is None or _bridge.lost or _bridge.pid != os.getpid():
            _bridge = Bridge()
            atexit.register(_bridge.shut)
        return _bridge


class Object:
    """An object of the bridge. It is closed when nothing refers to it."""

    def __init__(self, bridge: Bridge, id: int) -> None:
        self._bridge, self._id = bridge, id
        self._finalizer: Callable[[], Any] = weakref.finalize(self, bridge.close_later, id)
        self._finalizer.atexit = False  # type: ignore[attr-defined]

    def close(self) -> None:
        """Free what belongs to it. It cannot be used any more."""
        if self._finalizer.detach():  # type: ignore[attr-defined]
            self._bridge.call("close", {"object": self._id})

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def place(b: Bridge, name: str, args: dict[str, Any], inputs: dict[str, np.ndarray],
          ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Do a call whose arguments, results or both have tensors.

    args gets the descriptions of inputs under the key "inputs". Returns the result, and its tensors.
    """
    if b.closed:
        b.sweep()
    described, at = {}, 0
    for key, x in inputs.items():
        described[key] = {"dtype": dtype_name(x.dtype), "shape": x.shape, "offset": at}
        at += aligned(x.nbytes)
    args["inputs"] = described
    if at <= INLINE_MAX:
        payload = bytearray(at)
        for key, x in inputs.items():
            offset = described[key]["offset"]
            payload[offset:offset + x.nbytes] = x.tobytes()
        frame, answer = b.start(name, args, payload).next()
        result = frame["result"]
        if "grow" not in result:
            return result, _arrays(result, answer)
        region = b.borrow(result["grow"])
    else:
        region = b.borrow(at)
        for key, x in inputs.items():
            offset = described[key]["offset"]
            np.copyto(region.memory[offset:offset + x.nbytes].view(x.dtype).reshape(x.shape), x)
        args["region"], args["space"] = region.id, 0
        try:
            frame, answer = b.start(name, args).next()
        except BaseException as e:
            if not isinstance(e, KeyboardInterrupt):  # an interrupted call may still use the region
                b.release(region)
            raise
        result = frame["result"]
    if "grow" in result:
        if region.size < result["grow"]:
            b.release(region)
            region = b.borrow(result["grow"])
        frame, answer = b.start("collect", {"result": result["result"], "region": region.id, "space": 0}).next()
        result = {**result, **frame["result"]}
    tensors = _arrays(result, answer if result.get("inline") else region.memory)
    b.release(region)
    return result, tensors


def _arrays(result: dict[str, Any], memory: Any) -> dict[str, np.ndarray]:
    out = {}
    for key, t in result.get("tensors", {}).items():
        dtype = numpy_dtype(t["dtype"])
        shape = t["shape"]
        out[key] = np.frombuffer(memory, dtype, math.prod(shape), t["offset"]).reshape(shape).copy()
    return out


_names = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
          "i64": np.int64, "u8": np.uint8, "u32": np.uint32, "bool": np.bool_}
_dtypes = {name: np.dtype(t) for name, t in _names.items()}
_by_dtype = {t: name for name, t in _dtypes.items()}
if sys.byteorder != "little":
    raise ImportError("rlx needs a little-endian processor")


def numpy_dtype(name: str) -> np.dtype:
    """Return the NumPy type of an element type. bf16 needs the package ml_dtypes."""
    if name == "bf16":
        try:
            import ml_dtypes
        except ImportError:
            raise error("RLX2001", "bf16", "NumPy has no bfloat16", "pip install ml_dtypes") from None
        return np.dtype(ml_dtypes.bfloat16)
    return _dtypes[name]


def dtype_name(t: np.dtype) -> str:
    """Return the name of a NumPy type, such as "f32"."""
    if name := _by_dtype.get(t):  # first, because NumPy computes t.name anew each time
        return name
    if t.name == "bfloat16":
        return "bf16"
    raise error("RLX3001", str(t), f"arrays of {t} are not supported; supported are {', '.join(_names)}, bf16")
