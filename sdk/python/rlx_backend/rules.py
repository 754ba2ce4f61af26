"""Rules of a target description state which nodes a kernel runs. The language is that of spec/target.md without
`broadcast` and `parts`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, Sequence

from .program import Node, Program

_RULE = re.compile(r"\((?P<operands>[^)]*)\)(?: -> (?P<results>[a-z0-9|, ]+?))?(?: if (?P<conditions>.+))?$")
_CONDITION = re.compile(r"(?P<name>[a-z_][a-z_0-9]*) (?P<how>=|<=|>=) (?P<want>.+)$")


@dataclass
class _Operand:
    """The requirements on an operand or a result."""

    types: Sequence[str]
    name: str = ""  # of an optional operand
    low: int = 0
    high: int = 8
    static: bool = False
    param: bool = False

    def takes(self, program: Program, node: Node, first: str) -> bool:
        types = [first if t == "same" else t for t in self.types]
        return (("any" in types or node.dtype in types) and self.low <= len(node.shape) <= self.high and
                (not self.static or node.static)
                and (not self.param or program.known(node)))


def _operand(text: str) -> _Operand:
    name, named, rest = text.partition(":")
    words = (rest if named else text).split()
    o = _Operand(words.pop(0).split("|"), name.strip() if named else "")
    while words:
        w = words.pop(0)
        if w == "rank":
            low, _, high = words.pop(0).partition("..")
            o.low, o.high = int(low), int(high or low)
        elif w in ("static", "param"):
            setattr(o, w, True)
        else:
            raise ValueError(f"operand {text!r}: {w!r} is unknown")
    return o


def _value(text: str) -> Any:
    text = {"true": "True", "false": "False"}.get(text, text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text  # an element type


class Rule:
    """One rule of an op."""

    def __init__(self, text: str) -> None:
        m = _RULE.match(text)
        if not m:
            raise ValueError(f"rule {text!r}: want (OPERAND, ...) -> RESULT if CONDITION and ...")
        every = [o.strip() for o in m["operands"].split(",") if o.strip()]
        self.more = any(o.endswith("...") for o in every)
        parsed = [_operand(o.removesuffix("...")) for o in every]
        self.operands = [o for o in parsed if not o.name]
        self.optional = {o.name: o for o in parsed if o.name}
        self.results = [_operand(r) for r in (m["results"] or "").split(",") if r.strip()]
        self.conditions = []
        for c in (m["conditions"] or "").split(" and ") if m["conditions"] else []:
            k = _CONDITION.match(c)
            if not k or k["name"] in ("broadcast", "parts"):
                raise ValueError(f"condition {c!r} is not supported by this package")
            self.conditions.append((k["name"], k["how"],
                                    [] if k["want"] == "last" else [_value(v) for v in k["want"].split("|")]))

    def takes(self, program: Program, node: Node) -> bool:
        """Returns whether the rule allows a node."""
        inputs = [program.nodes[i] for i in node.inputs]
        required = len(inputs) - len(node.optional)
        if required > len(
            self.operands) and not self.more or not self.more and not self.optional.keys() >= node.optional.keys():
            return False
        names = [""] * required + list(node.optional)
        for k, (x, name) in enumerate(zip(inputs, names)):
            o = self.optional.get(name) or self.operands[min(k, len(self.operands) - 1)]
            if not o.takes(program, x, inputs[0].dtype):
                return False
        made = [program.nodes[r] for r in node.results]
        for k, x in enumerate(made if self.results else []):
            if not self.results[min(k, len(self.results) - 1)].takes(program, x, inputs[0].dtype if inputs else ""):
                return False
        return all(self._holds(node, inputs, *c) for c in self.conditions)

    @staticmethod
    def _holds(node: Node, inputs: Sequence[Node], name: str, how: str, want: Sequence[Any]) -> bool:
        have = getattr(node.attrs, name, None)  # a custom op may have other attributes than the rule's author thought
        if have is None:
            return False
        if not want:  # axis = last
            last = len(inputs[0].shape) - 1
            return have in (last, [last])
        if how == "=":
            return any(have == w and isinstance(have, bool) == isinstance(w, bool) for w in want)
        every = have if isinstance(have, list) else [have]
        return all(h <= want[0] if how == "<=" else h >= want[0] for h in every)
