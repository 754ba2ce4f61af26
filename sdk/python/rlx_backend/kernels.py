"""Kernels, and the target description that their rules form. See spec/target.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Sequence

from .errors import Unsupported
from .program import Program
from .rules import Rule

#: fn(attrs, *operands, *results). Operands and results are arrays. Optional operands that the node has are keyword
#: arguments, such as bias=b. The kernel writes the results. If the op may overwrite an operand, a result may share its
#: memory.
Kernel = Callable[..., None]

_ORDER = ["f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64", "u8", "u32", "bool"]
DEVICE_TYPES = ("cpu", "gpu", "npu", "software")


@dataclass
class Device:
    """One device, as `rlxrun devices` lists it."""

    id: str
    name: str
    type: str = "cpu"  # one of DEVICE_TYPES; a "software" device is used only if --device names it
    memory: int = 0  # bytes of its own memory; 0 if it uses the host's
    features: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.type not in DEVICE_TYPES:
            raise ValueError(f"device {self.id}: type {self.type!r}; want one of {DEVICE_TYPES}")


@dataclass
class Backend:
    """A backend: its name, its devices and its kernels.

    >>> npu = Backend("npu", "1.0", [Device("0", "An NPU", "npu")])
    >>> @npu.kernel("neg", dtypes=("f32",))
    ... def neg(attrs, x, out):
    ...     np.negative(x, out=out)
    """

    name: str  # the executable is rlx-backend-NAME
    version: str
    devices: Sequence[Device]
    types: Sequence[str] = ("f32", "i32", "i64", "bool")  # element types of all values, including inputs and weights
    max_alloc: int = 0  # bytes of the largest arena; 0 for no limit
    kernels: dict[str, Kernel] = field(default_factory=dict)
    rules: dict[str, list[tuple[str, Rule]]] = field(default_factory=dict)  # by op

    def kernel(self, op: str, dtypes: Iterable[str] = ("f32",), rule: str = "") -> Callable[[Kernel], Kernel]:
        """Registers a kernel for an op, or for a custom op by its name, such as acme.wave (docs/custom-ops.md). It runs
        nodes whose operands all have one of dtypes or, if rule is given, nodes that the rule allows.

        A rule is written as in spec/target.md, without the op: `(f32, i32|i64) if axis = 0`. Optional operands have
        their names in it: `(f32, f32, bias: f32)`. """
        text = rule
        if not text:
            text = "(" + "|".join(sorted(dtypes, key=_ORDER.index)) + "...)"

        parsed = Rule(text)

        def register(f: Kernel) -> Kernel:
            self.rules.setdefault(op, []).append((text, parsed))
            self.kernels[op] = f
            return f

        return register

    def run_loops(self) -> None:
        """Registers the op loop, which runs the programs of a loop with the backend's other kernels. With it the
        compiler gives the backend a long while or scan as one step, so that file size and time per iteration do not
        depend on the number of iterations. A loop is unrolled if it has a node that no other kernel takes, or a value
        of an element type that the backend does not have."""

        @self.kernel("loop", rule="(any...)")
        def run(attrs: Any, *arrays: Any) -> None:
            raise AssertionError("loops run as LoopStep")

    def check(self, program: Program) -> None:
        """Raises Unsupported if no rule of the target description allows some node of the program or of its loops."""
        for l in program.loops.values():
            for p in l.programs:
                self.check(p)
        for n in program.nodes:
            if n.dtype and n.dtype not in self.types:
                raise Unsupported(
                    f"{n.label}: element type {n.dtype} is not supported; supported are {', '.join(self.types)}",
                                  self.name)
        for s in program.steps:
            n = program.nodes[s]
            if n.kernel not in self.kernels:
                raise Unsupported(f"{n.label}: there is no kernel for {n.kernel}", self.name)
            if not any(r.takes(program, n) for _, r in self.rules[n.kernel]):
                types = ", ".join(f"{program.nodes[i].dtype} of rank {len(program.nodes[i].shape)}" for i in n.inputs)
                raise Unsupported(
                    f"{n.label}: {n.kernel} of {types} with {n.attrs}; its rules are {'; '.join(t for t, _ in self.rules[n.kernel])}",
                                  self.name)

    def target(self) -> str:
        """Returns the target description."""
        lines = [f"target {self.name} {self.version}", "types " + " ".join(sorted(self.types, key=_ORDER.index)), ""]
        for op in sorted(self.rules):
            lines += [_line(op, text) for text in sorted(text for text, _ in self.rules[op])]
        return "\n".join(lines) + "\n"


def _line(op: str, rule: str) -> str:
    """Returns a rule of the target description. A name with a dot is that of a custom op."""
    if "." not in op:
        return f"run {op}{rule}"
    operands, found, conditions = rule.partition(" if ")
    return f'run custom{operands} if name = "{op}"' + (f" and {conditions}" if found else "")
