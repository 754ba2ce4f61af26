"""The calls of the protocol: spec/protocol.md. serve.py gives them to gRPC."""

from __future__ import annotations

import hashlib
import queue
import socket
import struct
import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import numpy as np
from google.protobuf.message import DecodeError

from . import messages
from .errors import BadInput, Cancelled, OutOfMemory, Panicked, Refused, RlxError, Unavailable, Unsupported
from .kernels import Backend
from .program import Program
from .region import Region, aligned, map_weights, read_weights
from .run import MAX_LISTED, Executable, Execution, check_header

MAX_MESSAGE, MAX_CHUNK, MAX_PROGRAM, MAX_STREAMED = 4 << 20, 64 << 10, 384 << 20, 4 << 30
MAX_LOADED, MAX_STATES = 64, 1024
_TICK = 0.2  # seconds between progress messages of a run without a region


def status(err: BaseException) -> Any:
    """Returns the google.rpc.Status of an error, with the detail that hosts read."""
    if not isinstance(err, RlxError):
        err = Panicked(f"{type(err).__name__}: {err}")
    detail = messages.Error(code=err.code, subject=err.subject, message=err.message[:2000], hint=err.hint[:2000],
                            step=err.step, op=err.op, result=err.result)
    s = messages.Status(code={"RLX1002": 1, "RLX3001": 3, "RLX7001": 12, "RLX8001": 8, "RLX5115": 9}.get(err.code, 13),
                        message=err.message[:2000])
    s.details.add(type_url="type.googleapis.com/rlx.v1.Error", value=detail.SerializeToString())
    return s


class Service:
    """The calls of the protocol, in the order of spec/protocol.md, section 6."""

    def __init__(self, backend: Backend, fds: dict[str, int]) -> None:
        self.backend, self.artifact, self.new_weights = backend, fds.get("artifact", -1), fds.get("weights", -1)
        self.region = Region(fds["io"]) if "io" in fds else None
        self.loaded: dict[int, Executable] = {}
        self.states: dict[int, np.ndarray] = {}
        self.last = self.last_state = self.cancelled = 0
        self.lock, self.turn = threading.Lock(), threading.Lock()
        self.current: Execution | None = None
        self.direct = self.region is not None and "runs" in fds
        if self.direct:
            threading.Thread(target=self._serve_runs, args=(socket.socket(fileno=fds["runs"]),), daemon=True).start()

    def Info(self, request: Any, context: Any) -> Any:
        b = self.backend
        if not b.devices:
            raise Unavailable("it has no devices", b.name)
        r = messages.InfoReply(name=b.name, version=b.version, max_alloc=b.max_alloc, target=b.target(),
                               direct_runs=self.direct, sets_weights=True)
        for d in b.devices:
            r.devices.add(id=d.id, name=d.name, type=d.type, memory=d.memory, features=list(d.features))
        return r

    def _device(self, name: str) -> None:
        if name and name not in [d.id for d in self.backend.devices]:
            raise Unavailable(f"device {name!r}: it has {', '.join(d.id for d in self.backend.devices)}",
                              self.backend.name, "leave --device out")

    def Load(self, requests: Iterator[Any], context: Any) -> Any:
        h = _first(requests, "header")
        w = h.weights
        if not 0 < h.program_size <= MAX_PROGRAM or w.size < 0 or not w.mapped and w.size > MAX_STREAMED:
            raise Refused(f"load: a program of {h.program_size} bytes, weights of {w.size}")
        if h.io_shared != (self.region is not None) or self.region is None and h.io_size or h.threads < 0:
            raise Refused(
                f"load: io_shared is {h.io_shared} and io_size {h.io_size}; the region was {'' if self.region else 'not '}inherited")
        program, weights, streamed = bytearray(), bytearray(), 0 if w.mapped else w.size
        while len(program) < h.program_size or len(weights) < streamed:
            m = next(requests, None)
            if m is None:
                raise Refused(f"load: ended after {len(program)} bytes of program and {len(weights)} of weights")
            early = m.weights and len(program) < h.program_size
            program += m.program
            weights += m.weights
            if not 0 < len(m.program) + len(m.weights) <= MAX_CHUNK or early or len(program) > h.program_size or len(
                weights) > streamed:
                raise Refused("load: a chunk does not fit")
        if hashlib.sha256(program).digest() != h.program_sha256:
            raise Refused("load: the program has another digest than announced")
        self._device(h.device)
        if h.precision not in ("", "f32"):
            raise Unsupported(f"does not compute in {h.precision}; it has f32", self.backend.name)
        if len(self.loaded) >= MAX_LOADED:
            raise OutOfMemory(f"{MAX_LOADED} programs are loaded; unload one")
        if w.mapped and w.size:
            if self.artifact < 0:
                raise Refused("load: the weights are in an artifact, but none was inherited")
            memory = map_weights(self.artifact, w.offset, w.size)
        else:
            memory = aligned(len(weights))
            memory[:] = np.frombuffer(bytes(weights), np.uint8)
        p = Program(bytes(program), len(memory))
        if self.region is None:
            io = aligned(p.io)
        else:
            io = self.region.map(h.io_size)
            if p.io > len(io):
                raise Refused(f"load: the program's io space of {p.io} bytes in a region of {len(io)}")
        e = Executable(self.backend, p, memory, io[: p.io])
        e.mapped = bool(w.mapped and w.size and self.new_weights >= 0)
        with self.lock:
            self.last += 1
            self.loaded[self.last] = e
        r = messages.LoadReply(executable=self.last, memory=e.memory())
        for op in e.ops:
            r.kernels.add(op=op, native=True)
        return r

    def _find(self, number: int) -> Executable:
        if number not in self.loaded:
            raise Refused(f"executable {number} is not loaded")
        return self.loaded[number]

    def _state(self, number: int) -> np.ndarray:
        if number not in self.states:
            raise Refused(f"there is no state {number}")
        return self.states[number]

    def _begin(self, h: Any) -> Execution:
        """Creates a run from its header. The caller must hold turn."""
        e = self._find(h.executable)
        return Execution(e, h, check_header(e, h), self._state)

    def _take_turn(self) -> None:
        if not self.turn.acquire(blocking=False):
            raise Refused("another run, or a call for a state, is in progress")

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Holds turn for a call that no run may overlap."""
        self._take_turn()
        try:
            yield
        finally:
            self.turn.release()

    def _execute(self, r: Execution, on_step: Callable[[int], None], on_dump: Callable[[int, np.ndarray], None]) -> int:
        with self.lock:
            if r.h.generation <= self.cancelled:
                raise Cancelled("the run was cancelled")
            self.current = r
        try:
            if self.region:
                self.region.begin(r.h.generation)
            return r.execute(on_step, on_dump)
        finally:
            with self.lock:
                self.current = None

    def _step(self, started: int) -> None:
        if self.region:
            self.region.step(started)

    def Run(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        h = _first(requests, "header")
        self._take_turn()
        try:
            r = self._begin(h)
            context.add_callback(r.cancelled.set)
            if self.region is None:
                self._receive(r, requests)
            yield from self._replies(r)
        finally:
            self.turn.release()

    def _receive(self, r: Execution, requests: Iterator[Any]) -> None:
        for i, node in enumerate(r.e.program.inputs):
            v, at = r.values[node], 0
            while i not in r.fed and at < v.bytes:
                m = next(requests, None)
                c = m.input if m is not None and m.HasField("input") else None
                if c is None or c.index != i or not 0 < len(c.data) <= min(v.bytes - at, MAX_CHUNK):
                    raise Refused(f"run: input {i} lacks {v.bytes - at} bytes")
                r.e.io[v.offset + at : v.offset + at + len(c.data)] = np.frombuffer(c.data, np.uint8)
                at += len(c.data)

    def _replies(self, r: Execution) -> Iterator[Any]:
        """Yields the replies of a run. A second thread runs the steps while this one sends."""
        replies: queue.Queue[Any] = queue.Queue(maxsize=64)

        def dump(node: int, a: np.ndarray) -> None:
            data, first = a.tobytes(), True
            for c in _chunks(data) if data else [b""]:
                replies.put(
                    messages.RunReply(dump=dict(node=node, first=first, shape=list(a.shape) if first else [], data=c)))
                first = False

        def work() -> None:
            try:
                total = self._execute(r, self._step, dump)
                replies.put(r.done(messages.Done, total))
            except BaseException as err:
                replies.put(err)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while True:
                try:
                    m = replies.get(timeout=None if self.region else _TICK)
                except queue.Empty:
                    yield messages.RunReply(progress=dict(steps=r.started))
                    continue
                if isinstance(m, BaseException):
                    raise m
                if isinstance(m, messages.RunReply):
                    yield m
                    continue
                if self.region is None:
                    yield messages.RunReply(progress=dict(steps=r.started))
                    for i, (_, node) in enumerate(r.e.program.outputs):
                        if r.wanted[i]:
                            for c in _chunks(r.values[node].array(r.spaces).tobytes()):
                                yield messages.RunReply(output=dict(index=i, data=c))
                yield messages.RunReply(done=m)
                return
        finally:
            r.cancelled.set()  # in case the host has disconnected
            while thread.is_alive():
                try:
                    replies.get(timeout=0.01)
                except queue.Empty:
                    pass

    def _serve_runs(self, s: socket.socket) -> None:
        """Serves direct runs: reads a length and a RunHeader, and writes a length and a RunResult."""
        with s, s.makefile("rb") as f:
            while True:
                head = f.read(4)
                if len(head) < 4:
                    return
                size = struct.unpack("<I", head)[0]
                data = f.read(size) if size <= MAX_MESSAGE else b""
                try:
                    h = messages.RunHeader.FromString(data)
                except DecodeError:
                    return
                if len(data) < size:
                    return
                try:
                    if h.dump:
                        raise Refused("run: a direct run has no dumps")
                    self._take_turn()
                    try:
                        r = self._begin(h)
                        total = self._execute(r, self._step, lambda n, a: None)
                        result = messages.RunResult(done=r.done(messages.Done, total))
                    finally:
                        self.turn.release()
                except Exception as err:
                    result = messages.RunResult(status=status(err).SerializeToString())
                out = result.SerializeToString()
                s.sendall(struct.pack("<I", len(out)) + out)

    def Cancel(self, request: Any, context: Any) -> Any:
        with self.lock:
            self.cancelled = max(self.cancelled, request.generation)
            if self.current and self.current.h.generation <= self.cancelled:
                self.current.cancelled.set()
        return messages.message("rlx.v1.CancelReply")()

    def Stats(self, request: Any, context: Any) -> Iterator[Any]:
        with self._exclusive():
            e = self._find(request.executable)
            if e.times_of != request.generation or request.generation <= 0:
                raise Refused(f"stats: run {request.generation} has no times")
            times = e.times
        reply = messages.message("rlx.v1.StatsReply")
        for at in range(0, len(times), 2048):
            yield reply(steps=[dict(node=n, start_ns=s, time_ns=t) for n, s, t in times[at : at + 2048]])

    def Unload(self, request: Any, context: Any) -> Any:
        with self._exclusive():
            self._find(request.executable)
            with self.lock:
                del self.loaded[request.executable]
        return messages.message("rlx.v1.UnloadReply")()

    def MakeState(self, request: Any, context: Any) -> Any:
        self._device(request.device)
        if request.size < 0:
            raise Refused(f"a state of {request.size} bytes")
        with self._exclusive():
            if len(self.states) >= MAX_STATES:
                raise OutOfMemory(f"there are {MAX_STATES} states; drop one")
            try:
                memory = aligned(request.size)
            except (MemoryError, ValueError) as e:
                raise OutOfMemory(f"a state of {request.size} bytes") from e
            self.last_state += 1
            self.states[self.last_state] = memory
            return messages.message("rlx.v1.MakeStateReply")(state=self.last_state)

    def ChangeState(self, request: Any, context: Any) -> Any:
        with self._exclusive():
            self._change(request)
        return messages.message("rlx.v1.ChangeStateReply")()

    def _change(self, request: Any) -> None:
        memory = self._state(request.state)
        change = request.WhichOneof("change")
        if change == "clear":
            memory[:] = 0
        elif change == "copy":
            other = self._state(request.copy)
            if len(other) != len(memory):
                raise BadInput(f"a state of {len(other)} bytes is copied to one of {len(memory)}")
            memory[:] = other
        elif change == "drop":
            del self.states[request.state]
        else:
            raise Refused(f"state {request.state}: the request has no change")

    def _range(self, r: Any) -> np.ndarray:
        memory = self._state(r.state)
        if not 0 <= r.offset <= len(memory) or not 0 <= r.size <= len(memory) - r.offset:
            raise Refused(f"{r.size} bytes at {r.offset} of a state of {len(memory)}")
        return memory[r.offset : r.offset + r.size]

    def ReadState(self, request: Any, context: Any) -> Iterator[Any]:
        with self._exclusive():
            data = self._range(request).tobytes()
        for c in _chunks(data):
            yield messages.message("rlx.v1.StateChunk")(data=c)

    def WriteState(self, requests: Iterator[Any], context: Any) -> Any:
        r = _first(requests, "range")
        with self._exclusive():
            memory, at = self._range(r), 0
            while at < len(memory):
                m = next(requests, None)
                if m is None or not 0 < len(m.data) <= min(len(memory) - at, MAX_CHUNK):
                    raise Refused(f"state: {len(memory) - at} bytes are missing")
                memory[at : at + len(m.data)] = np.frombuffer(m.data, np.uint8)
                at += len(m.data)
        return messages.message("rlx.v1.WriteStateReply")()


    def SetWeights(self, requests: Iterator[Any], context: Any) -> Any:
        h = _first(requests, "header")
        with self._exclusive():
            e = self._find(h.executable)
            places = {(n.offset, n.size) for n in e.program.nodes if n.op == "param" and n.size}
            got = [(r.offset, r.size) for r in h.params]
            if not 0 < len(got) <= MAX_LISTED or got != sorted(set(got)) or not set(got) <= places:
                raise Refused("weights: want the places of params, by ascending offset, each once")
            if h.mapped != e.mapped:
                raise Refused(f"weights: mapped is {h.mapped}; want {e.mapped}")
            if h.mapped:
                for offset, size in got:
                    read_weights(self.new_weights, e.own_weights[offset : offset + size], offset)
            else:
                data = self._receive_weights(requests, sum(size for _, size in got))
                for offset, size in got:
                    e.own_weights[offset : offset + size], data = data[:size], data[size:]
        return messages.message("rlx.v1.SetWeightsReply")()

    def _receive_weights(self, requests: Iterator[Any], total: int) -> np.ndarray:
        if total > MAX_STREAMED:
            raise Refused(f"weights: {total} bytes in chunks; at most {MAX_STREAMED}")
        data = bytearray()
        while len(data) < total:
            m = next(requests, None)
            if m is None or not 0 < len(m.data) <= min(total - len(data), MAX_CHUNK):
                raise Refused(f"weights: {total - len(data)} bytes are missing")
            data += m.data
        return np.frombuffer(data, np.uint8)


def _first(requests: Iterator[Any], part: str) -> Any:
    m = next(requests, None)
    if m is None or not m.HasField(part):
        raise Refused(f"the first message has no {part}")
    return getattr(m, part)


def _chunks(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), MAX_CHUNK):
        yield data[at : at + MAX_CHUNK]
