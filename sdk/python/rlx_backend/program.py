"""Programs: what a host sends. See spec/format.md, "A program on the wire"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

import numpy as np

from . import dims, msgpack
from .errors import BadInput, Refused

#: Spaces of places.
WEIGHTS, ARENA, IO, STATE = range(4)

#: Element types that numpy has. A description that names others needs kernels that know what to do with their bytes.
DTYPES = {name: np.dtype(d) for name, d in {
    "f32": "<f4", "f16": "<f2", "f64": "<f8", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "u1", "u32": "<u4", "bool": "?"}.items()}


class Attrs:
    """The attributes of a node, by name: attrs.axis."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"Attrs({self.__dict__})"


@dataclass
class Node:
    """One value of a program, or an op with several results, which has none."""

    id: int
    op: str
    name: str
    attrs: Attrs
    inputs: list[int]
    dtype: str
    shape: list[dims.Dim]
    static: bool  # its shape does not depend on symbols
    parent: int  # the node whose memory it has, or -1
    space: int
    offset: int
    size: int
    results: list[int] = field(default_factory=list)  # nodes of the values that its step makes

    @property
    def label(self) -> str:
        """Its name in messages."""
        return self.name or f"%{self.id}"


@dataclass
class Value:
    """A value's place under the sizes of a run."""

    space: int
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def array(self, spaces: Sequence[Any]) -> np.ndarray:
        """The value as an array on the memory of its space."""
        flat = spaces[self.space][self.offset : self.offset + self.bytes]
        return flat.view(self.dtype).reshape(self.shape)


class Program:
    """A decoded program. Its places are inside their spaces; nothing else is checked, because the host has checked it."""

    def __init__(self, data: bytes, weights: int) -> None:
        try:
            self._read(msgpack.decode(data))
        except (ValueError, KeyError, TypeError, IndexError) as e:
            raise Refused(f"load: the program cannot be read: {e}") from e
        for n in self.nodes:
            limit = (weights, self.arena, self.io, self.state)[n.space]
            if not 0 <= n.offset <= limit or not 0 <= n.size <= limit - n.offset:
                raise Refused(f"load: {n.label} takes {n.size} bytes at {n.offset} of its space, which has {limit}")

    def _read(self, doc: Mapping[str, Any]) -> None:
        graph, plan = doc["graph"], doc["plan"]
        self.method: str = graph["method"]
        self.syms = {name: (low, high) for name, low, high in graph["syms"]}
        self.arena, self.io, self.state = plan["arena"], plan["io"], plan["state"]
        self.nodes: list[Node] = []
        for i, (n, (space, offset, size, parent)) in enumerate(zip(graph["nodes"], plan["places"], strict=True)):
            attrs = {k: v["dtype"] if isinstance(v, dict) else v for k, v in n["attrs"]}
            node = Node(i, n["op"], n["name"], Attrs(attrs), n["in"], n["dtype"], [dims.parse(d) for d in n["shape"]],
                        all(isinstance(d, int) for d in n["shape"]), parent, space, offset, size)
            if any(not 0 <= k < i for k in node.inputs) or space not in (WEIGHTS, ARENA, IO, STATE):
                raise ValueError(f"node {i} has operands {node.inputs} and space {space}")
            self.nodes.append(node)
            if node.op == "result":
                self.nodes[node.inputs[0]].results.append(i)
        self.steps: list[int] = doc["sched"]["steps"]
        for s in self.steps:
            if not self.nodes[s].results:
                self.nodes[s].results = [s]
        self.inputs = [n.id for n in self.nodes if n.op == "input"]
        self.outputs: list[tuple[str, int]] = [(name, i) for name, i in graph["outputs"]]

    def known(self, n: Node) -> bool:
        """Whether a value is known before the run: a weight or a constant, possibly through views."""
        while n.parent >= 0 and not n.results:
            n = self.nodes[n.parent]
        return n.op in ("param", "const")

    def bind(self, syms: Mapping[str, int]) -> list[Value]:
        """Where every value lies for these sizes. It raises BadInput for sizes that the program does not take."""
        if set(syms) != set(self.syms):
            raise BadInput(f"{self.method}: sizes {sorted(syms)} are given; it has {sorted(self.syms)}")
        for name, size in syms.items():
            low, high = self.syms[name]
            if not low <= size <= high:
                raise BadInput(f"{self.method}: size {name} is {size}; allowed are {low} to {high}")
        out: list[Value] = []
        for n in self.nodes:
            v = Value(n.space, n.offset, DTYPES.get(n.dtype, np.dtype("u1")), tuple(d(syms) for d in n.shape))
            if v.bytes > n.size and n.dtype:
                raise BadInput(f"{self.method}: {n.label} has {v.bytes} bytes; its place has {n.size}")
            if n.op == "reshape" and np.prod(v.shape, dtype=np.int64) != np.prod(out[n.inputs[0]].shape, dtype=np.int64):
                raise BadInput(f"{self.method}: sizes {dict(syms)} do not go together: {out[n.inputs[0]].shape} is to be {v.shape}")
            out.append(v)
        return out

    def needed(self, outputs: Sequence[bool], dumps: Sequence[int]) -> list[int]:
        """The steps that these outputs, these values and updates of states need, in order."""
        wanted = {node for (_, node), w in zip(self.outputs, outputs) if w} | set(dumps)
        for n in reversed(self.nodes):
            if n.id in wanted or n.op == "kv_append":
                wanted.add(n.id)
                wanted.update(n.inputs)
        return [s for s in self.steps if s in wanted]
