"""Modules of 3 to 10 random functions of PyTorch, with odd shapes, for random_models.py.

A function takes values that were computed before it, and numbers and weights that the generator draws. One that
PyTorch refuses, or whose result is not finite, is drawn again.
"""

import torch
from torch import nn

from random_ops import OPS, Draw


class Program(nn.Module):
    """Steps (function, operands): an operand is the number of a value, or of a weight if it is negative."""

    def __init__(self, steps, weights):
        super().__init__()
        self.steps = steps
        for i, w in enumerate(weights):
            self.register_buffer(f"w{i}", w)

    def forward(self, *values):
        values, used = list(values), set()
        inputs = len(values)
        for f, operands in self.steps:
            y = f(*(values[i] if i >= 0 else getattr(self, f"w{-i - 1}") for i in operands))
            values += list(y) if isinstance(y, (tuple, list)) else [y]
            used.update(operands)
        return tuple(v for i, v in enumerate(values) if i >= inputs and i not in used)


KIND = {torch.float32: "f", torch.float64: "f", torch.float16: "f", torch.bool: "b"}


def fits(kinds, k, x, first, least, most):
    kind = KIND.get(x.dtype, "i")
    if kinds[k] == "s":
        return x.shape == first.shape and x.dtype == first.dtype
    if kinds[k] == "t":
        return x.dtype == (first.dtype if kinds[0] != "b" else x.dtype)
    return (kinds[k] in ("a", kind) or kinds[k] == "n" and kind != "b") and (k > 0 or least <= x.dim() <= most)


def drawn_inputs(rng):
    """Returns a function of two sizes, for the first and perhaps the third axis, that makes inputs, and their names."""
    made = []
    for _ in range(rng.randint(1, 3)):
        shape = [rng.choice((1, 2, 3, 4, 5, 6, 7)) for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 4, 5)))]
        made.append(
            (
                shape,
                rng.choice(("f", "f", "f", "f", "i", "b", "d")),
                rng.random() < 0.7,
                rng.random() < 0.4,
                rng.randrange(1 << 30),
            )
        )

    def inputs(batch, n):
        out = []
        for shape, kind, open_batch, open_n, seed in made:
            s = list(shape)
            s[0] = batch if open_batch else s[0]
            if open_n and len(s) > 2:
                s[2] = n
            g = torch.Generator().manual_seed(seed + 7 * batch + n)
            x = torch.randn(s, generator=g)
            out.append({"f": x, "d": x.double(), "b": x > 0, "i": (x * 4).long()}[kind])
        return tuple(out)

    return inputs, [f"x{i}" for i in range(len(made))]


def draw(rng):
    """Returns a random module, its inputs as a function of two sizes, and their names."""
    torch.manual_seed(rng.randrange(1 << 30))
    inputs, names = drawn_inputs(rng)
    values = list(inputs(2, 12))
    steps, weights, wanted = [], [], rng.randint(3, 10)
    for _ in range(60):
        if len(steps) == wanted:
            break
        kinds, least, most, f = rng.choice(OPS)
        operands = []
        for k in range(len(kinds)):
            first = values[operands[0]] if operands else None
            if kinds == "bnt" and k == 2:
                first = values[operands[1]]
            # Prefer newer values, so that functions follow each other.
            known = [i for i, v in enumerate(values) if fits(kinds, k, v, first, least, most)]
            if kinds == "bnt" and k == 2:
                known = [i for i in known if values[i].dtype == first.dtype]
            if not known:
                break
            operands.append(rng.choice(known[-3:]))
        if len(operands) < len(kinds):
            continue
        g = Draw(rng)
        try:
            step = f(g, *(values[i] for i in operands))
            operands += [-len(weights) - k - 1 for k in range(len(g.weights))]
            own = weights + g.weights
            with torch.no_grad():
                y = step(*(values[i] if i >= 0 else own[-i - 1] for i in operands))
        except Exception:
            continue
        y = list(y) if isinstance(y, (tuple, list)) else [y]
        if not all(0 < v.numel() < 20000 and v.dim() < 7 and not v.is_complex() and good(v) for v in y):
            continue
        steps.append((step, operands))
        weights, values = own, values + y
    return Program(steps, weights).eval(), inputs, names


def good(v):
    v = v.double()
    return bool(v.isfinite().all()) and v.abs().max() < 1e4
