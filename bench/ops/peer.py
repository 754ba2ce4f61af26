"""The functions that all families use: op registers an entry, and case makes a case of an entry. See README.md."""
import math
import re

import torch

NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.int8: "i8",
         torch.int16: "i16",
         torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.uint32: "u32", torch.bool: "bool"}

entries = []  # (names of ops, function that yields cases)


def op(*names):
    """Registers a generator of cases for these ops. It yields them in the order of the names."""
    def add(f):
        entries.append((names, f))
        return f
    return add


class Case:
    def __init__(self, line, call, peer, weights, tol, same, moved, graphs, inputs):
        self.line, self.call, self.peer, self.weights, self.graphs = line, call, peer, weights, graphs
        self.tol, self.same, self.moved, self.inputs = tol, same, moved, inputs

    @property
    def op(self):
        return self.line.split(" ")[0]

    @property
    def shape(self):
        """The types of the operands, each once, and the attributes, except those that hardly affect speed."""
        types = " ".join(dict.fromkeys(type_of(v) for v in self.inputs.values()))
        attrs = self.line[self.line.find("{"):] if "{" in self.line else ""
        for a in re.findall(r'(?:eps|layout|trans_b|start|len|index_dtype)=[^,\]}]*,? ?', attrs):
            attrs = attrs.replace(a, "")
        return " ".join(filter(None, [types, attrs.replace(", }", "}").replace("{}", "")]))


def case(line, call, peer="torch", weights=(), tol=1e-3, same=True, moved=0, graphs="", **inputs):
    """A case of an op. line is the op in text form without its type, and inputs are its operands by name. call computes
    the same with the peer and returns its result or a list of its results. Operands named in weights are weights, which
    RLX may pack at load, as in a model. moved is the number of bytes read and written, if that is not the size of all
    operands and results. graphs is the text of the graphs that attributes of the line name. Results must agree within
    tol, relative to the largest element, unless same is False. A comment then gives the reason."""
    return Case(line, call, peer, weights, tol, same, moved, graphs, inputs)


def into(f, *args, **kwargs):
    """Returns a function that calls f, which writes to results that are allocated beforehand, as in RLX."""
    first = f(*args, **kwargs)
    if isinstance(first, tuple):
        return lambda: f(*args, out=first, **kwargs)
    out = torch.empty_like(first, memory_format=torch.contiguous_format)
    return lambda: f(*args, out=out, **kwargs)


pool = torch.randn(1 << 20, generator=torch.Generator().manual_seed(7))


def rand(*shape, dtype=torch.float32):
    """Normally distributed numbers, which repeat after a million, because drawing more would take longer than the
    measurement."""
    n = math.prod(shape)
    start = torch.randint(len(pool), ()).item()
    return pool.roll(start).repeat(-(-n // len(pool)))[:n].reshape(shape).to(torch.get_default_device(), dtype)


def packed(kind, blocks):
    """An operand of a packed type, as bytes: [..., blocks, bytes of a block]."""
    blocks.packed = kind
    return blocks


def type_of(t):
    kind, shape = getattr(t, "packed", None), list(t.shape)
    return "%s[%s]" % (kind or NAMES[t.dtype], ",".join(map(str, shape[:-1] if kind else shape)))
