"""The shared region: spec/protocol.md, section 5."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import threading
import time

import numpy as np

from .errors import Refused

HEADER = 65536
_MAGIC = b"RLXIOREG"
_BEAT, _GENERATION, _STEPS = 64, 128, 136
_F_GET_SEALS, _ALL_SEALS = 1034, 1 | 2 | 4  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW


class Region:
    """The backend's side of the shared region: heartbeat and progress in the header, and the IO space."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._header = mmap.mmap(fd, HEADER)
        if self._header[:8] != _MAGIC:
            raise ValueError("the descriptor io is not a shared region")
        self._words = {at: ctypes.c_int64.from_buffer(self._header, at) for at in (_BEAT, _GENERATION, _STEPS)}
        self.data: np.ndarray | None = None
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self) -> None:
        n = 0
        while True:
            n += 1
            self._words[_BEAT].value = n
            time.sleep(0.1)

    def begin(self, generation: int) -> None:
        """Announces that a run begins."""
        self._words[_STEPS].value = 0
        self._words[_GENERATION].value = generation

    def step(self, started: int) -> None:
        """Announces how many steps of the run have started."""
        self._words[_STEPS].value = started

    def map(self, size: int) -> np.ndarray:
        """Maps and returns the IO space of size bytes. The first load fixes its size."""
        if self.data is None:
            have, seals = os.fstat(self.fd).st_size, fcntl.fcntl(self.fd, _F_GET_SEALS)
            if have != HEADER + size or seals & _ALL_SEALS != _ALL_SEALS:
                raise Refused(
                    f"load: the shared region has {have} bytes, seals {seals:#x}; want {HEADER + size}, sealed")
            self.data = np.zeros(0, np.uint8) if size == 0 else np.frombuffer(mmap.mmap(self.fd, HEADER + size),
                np.uint8)[HEADER:]
        if size != len(self.data):
            raise Refused(f"load: io_size is {size}; the shared region has {len(self.data)}")
        return self.data


def map_weights(fd: int, offset: int, size: int) -> np.ndarray:
    """Maps size bytes of the artifact at offset. What is written to them stays in this process and takes memory of its
    own, page by page."""
    whole = os.fstat(fd).st_size
    if not 0 <= offset <= whole or not 0 < size <= whole - offset:
        raise Refused(f"load: {size} bytes of weights at {offset} of a file of {whole}")
    lead = offset % mmap.ALLOCATIONGRANULARITY
    m = mmap.mmap(fd, size + lead, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset - lead)
    return np.frombuffer(m, np.uint8)[lead:]


def read_weights(fd: int, into: np.ndarray, offset: int) -> None:
    """Reads a weight at offset of the memory for new weights."""
    have, seals = os.fstat(fd).st_size, fcntl.fcntl(fd, _F_GET_SEALS)
    if offset + len(into) > have or seals & _ALL_SEALS != _ALL_SEALS:
        raise Refused(f"weights: {len(into)} bytes at {offset} of memory of {have} bytes with seals {seals:#x}")
    with memoryview(into) as view:
        at = 0
        while at < len(into):
            n = os.preadv(fd, [view[at : at + (1 << 30)]], offset + at)
            if n <= 0:
                raise Refused(f"weights: the memory ends at {offset + at}")
            at += n


def aligned(size: int) -> np.ndarray:
    """Returns size zero bytes, aligned to 64 bytes."""
    raw = np.zeros(size + 64, np.uint8)
    lead = -raw.ctypes.data % 64
    return raw[lead : lead + size]
