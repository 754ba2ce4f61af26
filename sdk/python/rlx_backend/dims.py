"""Sizes: numbers and expressions of symbols, such as 2*N+3 or (N+7)/8. See spec/format.md, "Dims"."""

from __future__ import annotations

import re
from typing import Callable, Mapping, Union

Sizes = Mapping[str, int]
Dim = Callable[[Sizes], int]

_TOKEN = re.compile(r"\d+|[A-Za-z_][A-Za-z0-9_]*|[-+*/()]")


def _quotient(of: Dim, by: int) -> Dim:
    return lambda s: of(s) // by  # rounds towards minus infinity


def _times(a: Dim, b: Dim) -> Dim:
    return lambda s: a(s) * b(s)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at = text, _TOKEN.findall(text), 0
        if "".join(self.tokens) != text:
            raise ValueError(f"dim {text!r} has characters that no dim has")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def dim(self) -> Dim:
        sign = -1 if self.peek() == "-" else 1
        if sign < 0:
            self.next()
        terms = [(sign, self.product())]
        while self.peek() in ("+", "-"):
            sign = 1 if self.next() == "+" else -1
            terms.append((sign, self.product()))
        return lambda s: sum(k * f(s) for k, f in terms)

    def product(self) -> Dim:
        f = self.operand()
        while self.peek() in ("*", "/"):
            op, left = self.next(), f
            if op == "/":
                by = int(self.next())
                f = _quotient(left, by)
            else:
                f = _times(left, self.operand())
        return f

    def operand(self) -> Dim:
        t = self.next()
        if t == "(":
            f = self.dim()
            if self.next() != ")":
                raise ValueError(f"dim {self.text!r} lacks a )")
            return f
        if t.isdigit():
            n = int(t)
            return lambda s: n
        if not t or t in "+-*/)":
            raise ValueError(f"dim {self.text!r} lacks an operand")
        return lambda s: s[t]


def parse(dim: Union[int, str]) -> Dim:
    """Parses a dim and returns a function from symbol values to the size. Raises ValueError."""
    if isinstance(dim, int):
        return lambda s: dim
    p = _Parser(dim)
    f = p.dim()
    if p.at != len(p.tokens):
        raise ValueError(f"dim {dim!r}: {p.peek()!r} follows its end")
    return f
