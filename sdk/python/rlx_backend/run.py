"""Loaded programs and their runs."""

from __future__ import annotations

import resource
import threading
import time
import traceback
from typing import Any, Callable, Sequence

import numpy as np

from .errors import BadInput, Cancelled, FoundNaN, OutOfMemory, Panicked, Refused, RlxError
from .kernels import Backend
from .loop import LoopStep
from .program import Program, Value
from .region import aligned

MAX_LISTED = 4096
_RECENT = 8  # cached bindings; callers often alternate between a few sizes
_PROGRESS = 0.2  # seconds after which a step that is a loop reports that it goes on


class Executable:
    """A loaded program with its memory."""

    def __init__(self, backend: Backend, program: Program, weights: np.ndarray, io: np.ndarray) -> None:
        backend.check(program)
        try:
            self.arena = aligned(program.arena)
        except MemoryError as e:
            raise OutOfMemory(f"an arena of {program.arena} bytes", backend.name) from e
        self.backend, self.program, self.io = backend, program, io
        self.own_weights = weights  # which SetWeights changes; kernels see them read-only
        self.weights = weights.view()
        self.weights.flags.writeable = False
        self.mapped = False  # whether new weights are in the memory that was inherited for them
        self.computed = {r for s in program.steps for r in program.nodes[s].results}
        self.ops = sorted({program.nodes[s].kernel for s in program.steps})
        self.times: list[tuple[int, int, int]] = []  # (node, start, time) in ns, of the last profiled run
        self.times_of = 0
        self._recent: dict[tuple[tuple[str, int], ...], list[Value]] = {}
        self.loops = {node: LoopStep(backend, program.nodes[node], l, self.weights, self.arena)
                      for node, l in program.loops.items()}

    def memory(self) -> int:
        """Returns an upper bound of what numpy allocates for a step in bytes: eight times the size of its operands and
        results."""
        return _memory(self.program)

    def bind(self, syms: dict[str, int]) -> list[Value]:
        key = tuple(sorted(syms.items()))
        if key not in self._recent:
            values = self.program.bind(syms)
            while len(self._recent) >= _RECENT:
                self._recent.pop(next(iter(self._recent)))
            self._recent[key] = values
        return self._recent[key]


def _memory(p: Program) -> int:
    own = (8 * sum(p.nodes[i].size for i in p.nodes[s].inputs + p.nodes[s].results) for s in p.steps)
    nested = (_memory(q) for l in p.loops.values() for q in l.programs)
    return max([*own, *nested], default=0)


def check_header(e: Executable, h: Any) -> list[Value]:
    """Checks a RunHeader and returns the places of the values."""
    if h.generation <= 0:
        raise Refused(f"run: generation {h.generation} is not positive")
    values, p = e.bind(dict(h.syms)), e.program
    for kind, got, want in (("inputs", h.inputs, p.inputs), ("outputs", h.outputs, [i for _, i in p.outputs])):
        if [(r.offset, r.size) for r in got] != [(values[i].offset, values[i].bytes) for i in want]:
            raise Refused(f"run: the ranges of {kind} are not those that the program computes")
    for n in h.dump:
        if n not in e.computed:
            raise Refused(f"run: dump of node {n}; no step of the program computes it")
    if list(h.unwanted) != sorted(set(h.unwanted)) or any(not 0 <= i < len(p.outputs) for i in h.unwanted):
        raise Refused(
            f"run: unwanted outputs are {list(h.unwanted)}; want numbers below {len(p.outputs)} in ascending order")
    if len(h.feeds) > MAX_LISTED or len(h.keeps) > MAX_LISTED:
        raise Refused(f"run: {len(h.feeds)} feeds, {len(h.keeps)} keeps; at most {MAX_LISTED}")
    return values


class Execution:
    """One run."""

    def __init__(self, e: Executable, h: Any, values: list[Value], states: Callable[[int], np.ndarray]) -> None:
        self.e, self.h, self.values, self.syms = e, h, values, dict(h.syms)
        p = e.program
        self.spaces: list[Any] = [e.weights, e.arena, e.io, None]
        if p.state and not h.state:
            raise BadInput(f"{p.method}: it needs a state of {p.state} bytes; none is given")
        if h.state:
            self.spaces[3] = states(h.state)
            if len(self.spaces[3]) < p.state:
                raise BadInput(f"{p.method}: a state of {len(self.spaces[3])} bytes; it needs {p.state}")
        self.feeds = self._transfers(h.feeds, [values[i] for i in p.inputs], "input", states)
        self.keeps = self._transfers(h.keeps, [values[i] for _, i in p.outputs], "output", states)
        spans = sorted((state, offset, offset + v.bytes) for _, state, offset, v, _ in self.keeps)
        for (s0, _, end), (s1, begin, _) in zip(spans, spans[1:]):
            if s0 == s1 and begin < end:
                raise BadInput(f"run: outputs that are kept overlap in state {s0}")
        self.fed = {t for t, *_ in self.feeds}
        if len(self.fed) != len(self.feeds):
            raise BadInput("run: an input is fed twice")
        kept = {t for t, *_ in self.keeps}
        self.wanted = [i not in h.unwanted for i in range(len(p.outputs))]
        self.steps = p.needed([w or i in kept for i, w in enumerate(self.wanted)], h.dump) if h.unwanted else p.steps
        self.cancelled = threading.Event()
        self.started = 0

    def _transfers(self, list_: Sequence[Any], tensors: list[Value], kind: str,
                   states: Callable[[int], np.ndarray]) -> list[Any]:
        out = []
        for t in list_:
            memory = states(t.state)
            if not 0 <= t.tensor < len(tensors):
                raise BadInput(f"run: {kind} {t.tensor} of {len(tensors)} is bound to a state")
            v = tensors[t.tensor]
            if t.offset < 0 or t.offset % 256 or v.bytes > len(memory) - t.offset:
                raise BadInput(f"run: {kind} {t.tensor} of {v.bytes} bytes at {t.offset} of a state of {len(memory)}")
            out.append((t.tensor, t.state, t.offset, v, memory))
        return out

    def execute(self, on_step: Callable[[int], None], on_dump: Callable[[int, np.ndarray], None]) -> Any:
        """Runs the steps and returns the time in ns. Errors name the step and the op. on_step and on_dump run on the
        caller's thread."""
        e, nodes, began = self.e, self.e.program.nodes, time.perf_counter_ns()
        for _, _, offset, v, memory in self.feeds:
            e.io[v.offset : v.offset + v.bytes] = memory[offset : offset + v.bytes]
        dumps, index = set(self.h.dump), {s: i for i, s in enumerate(e.program.steps)}
        times: list[tuple[int, int, int]] = []
        with np.errstate(all="ignore"):
            for s in self.steps:
                if self.cancelled.is_set():
                    raise Cancelled("the run was cancelled")
                self.started = index[s] + 1
                on_step(self.started)
                node, start = nodes[s], time.perf_counter_ns()
                try:
                    operands, results, named = e.program.arrays(node, self.values, self.spaces)
                    if s in e.loops:
                        e.loops[s].run(self.syms, operands, results, self._between(on_step))
                    else:
                        e.backend.kernels[node.kernel](node.attrs, *operands, *results, **named)
                except RlxError as err:
                    raise self._at(err, s)
                except Exception as err:
                    traceback.print_exc()
                    raise self._at(Panicked(f"{type(err).__name__}: {err}"), s) from err
                times.append((s, start - began, time.perf_counter_ns() - start))
                if self.h.check_nan:
                    for k, r in enumerate(results):
                        if r.dtype.kind == "f" and np.isnan(r).any():
                            raise self._at(FoundNaN("its result holds a NaN"), s, k)
                for value, a in zip(node.results, results):
                    if value in dumps:
                        on_dump(value, a)
        for _, _, offset, v, memory in self.keeps:
            memory[offset : offset + v.bytes] = v.array(self.spaces).reshape(-1).view(np.uint8)
        self.started = len(e.program.steps)
        on_step(self.started)
        e.times, e.times_of = (times, self.h.generation) if self.h.profile else ([], 0)
        return time.perf_counter_ns() - began

    def _between(self, on_step: Callable[[int], None]) -> Callable[[], None]:
        """Returns what a loop calls between two of its steps."""
        reported = time.monotonic()

        def between() -> None:
            nonlocal reported
            if self.cancelled.is_set():
                raise Cancelled("the run was cancelled")
            if time.monotonic() - reported > _PROGRESS:
                reported = time.monotonic()
                on_step(self.started)

        return between

    def _at(self, err: RlxError, step: int, result: int = 0) -> RlxError:
        err.step, err.op, err.result = self.started, self.e.program.nodes[step].op, result
        return err

    def done(self, m: Any, total: int) -> Any:
        """Returns the summary of the run, a Done message."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return m(generation=self.h.generation, total_ns=max(total, 1), peak_rss=peak, first_nan=-1,
                 steps=len(self.e.times))
