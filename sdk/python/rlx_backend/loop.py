"""Steps that are loops: the op loop of spec/ops.md."""

from __future__ import annotations

import traceback
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from .errors import Cancelled, Panicked, RlxError
from .kernels import Backend
from .program import Loop, Node, Program


class _Bound:
    """A program of a loop with the arrays of a run. inputs and outputs are in the order of the program."""

    def __init__(self, backend: Backend, p: Program, loops: Mapping[int, LoopStep], syms: Mapping[str, int],
                 spaces: Sequence[Any]) -> None:
        self.syms = {name: syms[name] for name in p.syms}
        values = p.bind(self.syms)
        self.inputs = [values[i].array(spaces) for i in p.inputs]
        self.outputs = [values[i].array(spaces) for _, i in p.outputs]
        self.steps = [(n, loops.get(n.id), backend.kernels[n.kernel], p.arrays(n, values, spaces))
                      for n in (p.nodes[s] for s in p.steps)]

    def run(self, between: Callable[[], None]) -> None:
        """Runs all steps once. An error names the step."""
        for node, loop, kernel, (operands, results, named) in self.steps:
            between()
            try:
                if loop:
                    loop.run(self.syms, operands, results, between)
                else:
                    kernel(node.attrs, *operands, *results, **named)
            except Cancelled:
                raise
            except RlxError as err:
                err.message = f"{node.op} {node.label}: {err.message}"
                raise
            except Exception as err:
                traceback.print_exc()
                raise Panicked(f"{node.op} {node.label}: {type(err).__name__}: {err}") from err


class LoopStep:
    """Runs the step of a loop and, in it, the programs of the loop."""

    def __init__(self, backend: Backend, node: Node, loop: Loop, weights: np.ndarray, arena: np.ndarray) -> None:
        io, end = loop.offset + loop.io, loop.offset + loop.io + loop.arena
        self.backend, self.attrs, self.loop = backend, node.attrs, loop
        self.spaces = [weights, arena[io:end], arena[loop.offset : io], None]
        self.nested = {id(p): {n: LoopStep(backend, p.nodes[n], l, weights, self.spaces[1]) for n, l in p.loops.items()}
                       for p in loop.programs}
        self.bound: tuple[dict[str, int], _Bound | None, _Bound] | None = None  # of the last run, with its sizes

    def _bind(self, syms: Mapping[str, int]) -> tuple[_Bound | None, _Bound]:
        if self.bound is None or self.bound[0] != syms:
            def bind(p: Program) -> _Bound:
                return _Bound(self.backend, p, self.nested[id(p)], syms, self.spaces)

            l = self.loop
            self.bound = (dict(syms), bind(l.cond) if l.cond else None, bind(l.body))
        return self.bound[1:]

    def run(self, syms: Mapping[str, int], operands: Sequence[np.ndarray], results: Sequence[np.ndarray],
            between: Callable[[], None]) -> None:
        """Runs all iterations. between is called before each of their steps; what it raises ends the loop. Other errors
        name the iteration."""
        a, (cond, body) = self.attrs, self._bind(syms)
        guard = not a.guarded or bool(operands[-1])
        last = len(operands) - a.guarded
        fixed = last - a.steps  # number of operands before those with slices
        for to, x in zip(body.inputs, operands[:fixed]):
            to[...] = x
        rows = [(out, body.inputs[k - a.carried]) for k, out in zip(a.results, results) if k >= a.carried]
        done = 0
        try:
            while guard and done < a.length:
                between()
                if cond:
                    cond.run(between)
                    if not cond.outputs[0]:
                        break
                for to, x in zip(body.inputs[fixed:], operands[fixed:last]):
                    to[...] = x[done]
                body.run(between)
                for to, y in zip(body.inputs, body.outputs):
                    to[...] = y
                for out, value in rows:
                    out[done] = value
                done += 1
        except Cancelled:
            raise
        except RlxError as err:
            err.message = f"iteration {done}: {err.message}"
            raise
        for k, out in zip(a.results, results):
            if k < a.carried:
                out[...] = body.inputs[k]
            else:
                out[done:] = 0
