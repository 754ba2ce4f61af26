"""Programs as a host sends them. See spec/format.md, "A program on the wire"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

import numpy as np

from . import dims, msgpack
from .errors import BadInput, Refused

#: The memory space of a place.
WEIGHTS, ARENA, IO, STATE = range(4)

#: Element types that numpy supports. Values of other types are arrays of bytes, which kernels must interpret.
DTYPES = {name: np.dtype(d) for name, d in {
    "f32": "<f4", "f16": "<f2", "f64": "<f8", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "u1",
                                            "u32": "<u4", "bool": "?"}.items()}


class Attrs:
    """The attributes of a node, for example attrs.axis."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"Attrs({self.__dict__})"


@dataclass
class Node:
    """A value of a program. A node whose op has several results has no value; "result" nodes hold its values."""

    id: int
    op: str
    kernel: str  # under which a kernel is registered: the op or, for a custom op, the name of its definition
    name: str
    attrs: Attrs  # those of a custom op are the ones of its definition
    inputs: list[int]  # the operands: required ones, then optional ones
    dtype: str
    shape: list[dims.Dim]
    static: bool  # the shape does not depend on symbols
    parent: int  # the node whose memory it shares, or -1
    space: int
    offset: int
    size: int
    optional: dict[str, int] = field(default_factory=dict)  # the optional operands that the node has, by name
    results: list[int] = field(default_factory=list)  # nodes of the values that the step computes

    @property
    def label(self) -> str:
        """The node's name in messages."""
        return self.name or f"%{self.id}"


@dataclass
class Value:
    """The place of a value in a run with given sizes."""

    space: int
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def array(self, spaces: Sequence[Any]) -> np.ndarray:
        """Returns the value as an array in the memory of its space."""
        flat = spaces[self.space][self.offset : self.offset + self.bytes]
        return flat.view(self.dtype).reshape(self.shape)


def _attrs(pairs: Sequence[Any]) -> dict[str, Any]:
    """Returns attributes by name. A graph stays {"graph": number}, its index in doc["graph"]["bodies"]."""
    out: dict[str, Any] = {}
    for name, v in pairs:
        if isinstance(v, dict) and "dtype" in v:
            v = v["dtype"]
        elif isinstance(v, dict) and "attrs" in v:
            v = _attrs(v["attrs"])
        out[name] = v
    return out


@dataclass
class Loop:
    """The programs of a node of op loop. They run in a region of the arena: first the IO space that they share, then
    their arena, which they share, too. See spec/format.md, "Loops"."""

    offset: int  # of the region
    cond: Program | None
    body: Program

    @property
    def programs(self) -> list[Program]:
        return [self.cond, self.body] if self.cond else [self.body]

    @property
    def io(self) -> int:
        return max(p.io for p in self.programs)

    @property
    def arena(self) -> int:
        return max(p.arena for p in self.programs)


class Program:
    """A decoded program. Places are checked to be inside their spaces. The host has verified everything else."""

    def __init__(self, data: bytes, weights: int) -> None:
        try:
            doc = msgpack.decode(data)
            graph, plan, sched = doc["graph"], doc["plan"], doc["sched"]
            plans = {p["body"]: p for p in plan.get("bodies", [])}
            steps = {s["body"]: s for s in sched.get("bodies", [])}
            nested: dict[int, Program] = {}  # the programs of loops, by number of the body
            for number in sorted(plans):  # a body refers to lower numbers only
                p = Program.__new__(Program)
                p._read(graph["bodies"][number], plans[number], steps[number], nested)
                nested[number] = p
            self._read(graph, plan, sched, nested)
            for p in [*nested.values(), self]:
                p._check(weights)
        except (ValueError, KeyError, TypeError, IndexError) as e:
            raise Refused(f"load: the program cannot be read: {e}") from e

    def _check(self, weights: int) -> None:
        for n in self.nodes:
            limit = (weights, self.arena, self.io, self.state)[n.space]
            if not 0 <= n.offset <= limit or not 0 <= n.size <= limit - n.offset:
                raise Refused(f"load: {n.label} takes {n.size} bytes at {n.offset} of its space, which has {limit}")
        for node, l in self.loops.items():
            size = l.io + l.arena
            if not 0 <= l.offset <= self.arena or size > self.arena - l.offset:
                raise Refused(f"load: the loop {self.nodes[node].label} takes {size} bytes at {l.offset} of the arena, "
                              f"which has {self.arena}")

    def _read(self, graph: Mapping[str, Any], plan: Mapping[str, Any], sched: Mapping[str, Any],
              nested: Mapping[int, Program]) -> None:
        self.method: str = graph["method"] if "method" in graph else graph["name"]
        self.syms = {name: (low, high) for name, low, high in graph["syms"]}
        self.arena, self.io, self.state = plan["arena"], plan["io"], plan.get("state", 0)
        self.nodes: list[Node] = []
        for i, (n, (space, offset, size, parent)) in enumerate(zip(graph["nodes"], plan["places"], strict=True)):
            attrs, kernel = _attrs(n["attrs"]), n["op"]
            if kernel == "custom":
                attrs, kernel = attrs["own"], attrs["name"]
            node = Node(i, n["op"], kernel, n["name"], Attrs(attrs), n["in"] + [k for _, k in n["optional"]],
                        n["dtype"], [dims.parse(d) for d in n["shape"]],
                        all(isinstance(d, int) for d in n["shape"]), parent, space, offset, size, dict(n["optional"]))
            if any(not 0 <= k < i for k in node.inputs) or space not in (WEIGHTS, ARENA, IO, STATE):
                raise ValueError(f"node {i} has operands {node.inputs} and space {space}")
            self.nodes.append(node)
            if node.op == "result":
                self.nodes[node.inputs[0]].results.append(i)
        self.steps: list[int] = sched["steps"]
        for s in self.steps:
            if not self.nodes[s].results:
                self.nodes[s].results = [s]
        self.inputs = [n.id for n in self.nodes if n.op == "input"]
        self.outputs: list[tuple[str, int]] = [(name, i) for name, i in graph["outputs"]]
        self.loops: dict[int, Loop] = {}  # by node
        for node, offset in plan.get("loops", []):
            a = self.nodes[node].attrs
            cond = nested[a.cond["graph"]] if a.cond["graph"] >= 0 else None
            self.loops[node] = Loop(offset, cond, nested[a.body["graph"]])

    def arrays(self, n: Node, values: Sequence[Value],
               spaces: Sequence[Any]) -> tuple[list[np.ndarray], list[np.ndarray], dict[str, np.ndarray]]:
        """Returns the required operands, the results and the optional operands of a step."""
        required = n.inputs[: len(n.inputs) - len(n.optional)]
        return ([values[i].array(spaces) for i in required], [values[i].array(spaces) for i in n.results],
                {name: values[i].array(spaces) for name, i in n.optional.items()})

    def known(self, n: Node) -> bool:
        """Returns whether a value is known before the run: a weight, a constant, or a view of one."""
        while n.parent >= 0 and not n.results:
            n = self.nodes[n.parent]
        return n.op in ("param", "const")

    def bind(self, syms: Mapping[str, int]) -> list[Value]:
        """Returns the place of every value for these sizes. Raises BadInput for sizes that the program does not
        allow."""
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
            if n.op == "reshape" and np.prod(v.shape, dtype=np.int64) != np.prod(out[n.inputs[0]].shape,
                dtype=np.int64):
                raise BadInput(
                    f"{self.method}: sizes {dict(syms)} contradict each other: {out[n.inputs[0]].shape} cannot be reshaped to {v.shape}")
            out.append(v)
        return out

    def needed(self, outputs: Sequence[bool], dumps: Sequence[int]) -> list[int]:
        """Returns, in order, the steps needed for the wanted outputs, for the nodes in dumps, and for updates of
        states."""
        wanted = {node for (_, node), w in zip(self.outputs, outputs) if w} | set(dumps)
        for n in reversed(self.nodes):
            if n.id in wanted or n.op == "kv_append":
                wanted.add(n.id)
                wanted.update(n.inputs)
        return [s for s in self.steps if s in wanted]
