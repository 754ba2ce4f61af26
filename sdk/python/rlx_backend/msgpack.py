"""The subset of msgpack that encodes programs: spec/format.md, "The rlx-msgpack profile"."""

from __future__ import annotations

import struct
from typing import Any

MAX_DEPTH = 16


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise ValueError(f"ends at byte {len(self.data)}, in the middle of a value")
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, fmt: str) -> Any:
        return struct.unpack(">" + fmt, self.take(struct.calcsize(fmt)))[0]

    def value(self, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError(f"values are nested more than {MAX_DEPTH} deep")
        b = self.number("B")
        if b < 0x80:
            return b
        if b >= 0xE0:
            return b - 0x100
        if b < 0x90:
            return self.map(b & 0x0F, depth)
        if b < 0xA0:
            return self.array(b & 0x0F, depth)
        if b < 0xC0:
            return self.take(b & 0x1F).decode()
        if b in (0xC2, 0xC3):
            return b == 0xC3
        if b == 0xCB:
            return self.number("d")
        simple = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}
        if b in simple:
            return self.number(simple[b])
        sized = {0xC4: "B", 0xC5: "H", 0xC6: "I", 0xD9: "B", 0xDA: "H", 0xDB: "I", 0xDC: "H", 0xDD: "I", 0xDE: "H",
                 0xDF: "I"}
        if b not in sized:
            raise ValueError(f"byte {b:#x} does not begin a value of the profile")
        n = self.number(sized[b])
        if b <= 0xC6:
            return self.take(n)
        if b <= 0xDB:
            return self.take(n).decode()
        return self.array(n, depth) if b <= 0xDD else self.map(n, depth)

    def array(self, n: int, depth: int) -> list[Any]:
        if n > len(self.data) - self.at:
            raise ValueError(f"an array of {n} items in {len(self.data) - self.at} bytes")
        return [self.value(depth + 1) for _ in range(n)]

    def map(self, n: int, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        last = None
        for _ in range(n):
            key = self.value(depth + 1)
            if not isinstance(key, str) or last is not None and key.encode() <= last:
                raise ValueError(f"key {key!r} is no string, or not after the one before it")
            last = key.encode()
            out[key] = self.value(depth + 1)
        return out


def decode(data: bytes) -> Any:
    """Decodes exactly one value. Raises ValueError."""
    r = _Reader(data)
    v = r.value()
    if r.at != len(data):
        raise ValueError(f"{len(data) - r.at} bytes follow the value")
    return v
