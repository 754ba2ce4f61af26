"""Unary functions, arithmetic and comparisons with broadcast, where, cast, and fused regions of these."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from scipy import special

from write import EXACT, F32, SCIPY, NUMPY, among, case, inf, nan, onnx_nodes, rand, randint, typed

special_values = torch.tensor([nan, inf, -inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, -1e-30, 40, -40, 1000,
                               -1000]).double()
unary = {"abs": torch.abs, "neg": torch.neg, "ceil": torch.ceil, "floor": torch.floor, "round": torch.round,
         "relu": F.relu, "exp": torch.exp,
         "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos,
         "tan": torch.tan, "atan": torch.atan,
         "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu,
         "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
         "erf": torch.erf}
exact = {"abs", "neg", "ceil", "floor", "round", "relu"}
for name, f in unary.items():
    for x in rand(11) * 3, rand(2, 3, 5), torch.tensor(0.75).double(), torch.zeros(0, 3).double():
        x = x.abs() if name in ("log", "sqrt", "rsqrt") else x
        case(name + " x", f(x), x=x)
    x = special_values
    if name in ("gelu", "gelu_tanh", "silu"):  # for infinities, PyTorch gives NaN in place of the limit, 0 or x
        x = x[~x.isinf()]
    case(name + " x", f(x), bits=name in exact - {"relu"}, x=x)
    for d in torch.float16, torch.bfloat16:
        x = rand(9).abs().to(d)
        case(name + " x", f(x), tol=EXACT if name in exact else (1e-6, 2e-3 if d == torch.float16 else 1.6e-2), x=x)
x = rand(7) * 2
for name, f in {"erf": special.erf, "exp": np.exp, "tan": np.tan, "atan": np.arctan, "sigmoid": special.expit}.items():
    case(name + " x", f(x.numpy()), source=SCIPY if hasattr(special, name) else NUMPY, x=x)
for kind, name in {"Gelu": None, "Erf": "erf", "Round": "round", "Tan": "tan", "Sqrt": "sqrt"}.items():
    for source, attrs, ins, outs in onnx_nodes(kind):
        op = name or {b"none": "gelu", b"tanh": "gelu_tanh"}[attrs.get("approximate", b"none")]
        if ins[0].dtype == np.float32:
            case(op + " x", outs[0][:3], source, tol=F32, x=ins[0][:3])

shapes = [((7,), (7,)), ((2, 3, 4), (3, 1)), ((1, 4), (5, 1)), ((), (3,)), ((2, 0, 3), (3,))]
binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum,
          "min": torch.minimum, "pow": torch.pow,
          "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
edge = torch.tensor([nan, inf, -inf, 0.0, -0.0, 1, -1, 2.5, -3, 0.5]).double()
for name, f in binary.items():
    for a, b in shapes:
        a, b = rand(*a), rand(*b)
        if name == "pow":
            a = a.abs()
        if name in ("eq", "ne", "lt", "le", "gt", "ge", "max", "min"):
            a, b = a.round(), b.round()
        case(name + " a, b", f(a, b), a=a, b=b)
    a, b = edge[:, None], edge[None]
    case(name + " a, b", f(a, b), bits=name in ("add", "sub", "mul", "div", "pow"), a=a, b=b)
    if name == "pow":
        continue
    for d, lo, hi in (torch.int8, -128, 127), (torch.int16, -32768, 32767), (torch.int32, -2**31,
        2**31 - 1), (torch.int64, -9, 9), (torch.uint8, 0, 255):
        a, b = randint(lo, hi, 3, 4, dtype=d), randint(lo, hi, 4, dtype=d)
        if name == "div":  # integers are divided towards zero, as in C
            b[b == 0] = 3
            case("div a, b", torch.div(a.long(), b.long(), rounding_mode="trunc").to(d), a=a, b=b)
        else:
            case(name + " a, b", f(a, b), a=a, b=b)
    a, b = np.array([0, 1, 2**31, 2**32 - 1, 77], np.uint32), np.array([2**32 - 1, 1, 3, 2**32 - 1, 70], np.uint32)
    f = {"max": np.maximum, "min": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
         "gt": np.greater,
         "ge": np.greater_equal, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.floor_divide}[name]
    case(name + " a, b", f(a, b), NUMPY, a=a, b=b)
for source, attrs, ins, outs in onnx_nodes("Pow"):
    if ins[0].dtype == ins[1].dtype == np.float32:
        case("pow a, b", outs[0], source, tol=F32, a=ins[0], b=ins[1])

for c, a, b in ((3, 4), (3, 4), (3, 4)), ((4,), (2, 3, 4), (3, 1)), ((2, 1), (), (3,)), ((0,), (0,), (0,)):
    c, a, b = randint(0, 1, *c, dtype=torch.bool), rand(*a), rand(*b)
    case("where c, a, b", torch.where(c, a, b), c=c, a=a, b=b)
case("where c, a, b", torch.where(edge > 0, edge, edge.flip(0)), bits=True, c=edge > 0, a=edge, b=edge.flip(0))
case("where c, a, b", torch.where(edge > 0, torch.arange(10), -torch.arange(10)), c=edge > 0, a=torch.arange(10),
     b=-torch.arange(10))

# Casts. PyTorch does not define casts of floats that are out of the range of an integer type, so all floats are in
# range. Integers wrap in NumPy, as in C.
names = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8, "i16": torch.int16,
         "i32": torch.int32,
         "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool}
x = torch.tensor([0.0, -0.0, 0.49, 1.5, 2.9, 100.99, 126.5, 65504, 65520, 1e-8, 6e-8, 3.14159274, 1e38],
                 dtype=torch.float32)
for to in "f16", "bf16", "bool":
    case('cast x {to=%s}' % to, x.to(names[to]), bits=to != "bool", x=x)
for to in "i8", "i16", "i32", "i64", "u8":
    for x in torch.tensor([0.0, -0.0, 0.49, 1.5, 2.9, 100.99, 126.5]), torch.tensor(
        [1.0, 7.5, 3.0]).half(), torch.tensor([True, False]):
        case('cast x {to=%s}' % to, x.to(names[to]), x=x)
for d in torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8:
    x = torch.tensor([0, 1, 127, 77, 100], dtype=d) if d in (torch.int8,
        torch.uint8) else torch.tensor([0, 1, -1, 300, -32768, 32767], dtype=d)
    for to, torch_to in names.items():
        case('cast x {to=%s}' % to, x.to(torch_to), x=x)
case('cast x {to=f32}', torch.tensor([2**24 + 1, 2**24 + 3, -2**31, 2**31 - 1], dtype=torch.int32).float(),
     x=torch.tensor([2**24 + 1, 2**24 + 3, -2**31, 2**31 - 1], dtype=torch.int32))


def region(expr, out, **inputs):
    case('elementwise_region %s {expr="%s"}' % (", ".join(inputs), expr), out, **inputs)


a, b = rand(2, 3, 4), rand(4)
region("v0=add(i0,i1); v1=gelu(v0)", F.gelu(a + b), a=a, b=b)
region("v0=mul(i0,2.0); v1=tanh(v0); v2=sub(v1,i0)", torch.tanh(a * 2) - a, a=a)
region("v0=gt(i0,0.0); v1=exp(i0); v2=where(v0,v1,i1)", torch.where(a > 0, a.exp(), b), a=a, b=b)
region("v0=silu(i0); v1=mul(v0,i1); v2=add(v1,i2)", F.silu(a) * b + 0.5, a=a, b=b, c=torch.tensor(0.5).double())
region("v0=abs(i0); v1=log(v0); v2=max(v1,i1); v3=relu(v2)", F.relu(torch.maximum(a.abs().log(), b)), a=a, b=b)
region("v0=where(i0,i1,-1.0)", torch.where(a > 0, a, -1.0), c=a > 0, a=a)
