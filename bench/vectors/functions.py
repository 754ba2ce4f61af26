"""More elementwise functions: with attributes, of bits and bools, remainders, conditions."""
import numpy as np
import torch
import torch.nn.functional as F
from scipy import special

from write import EXACT, F32, NUMPY, SCIPY, among, case, inf, nan, onnx_nodes, rand, randint, typed

edge = torch.tensor([nan, inf, -inf, 0.0, -0.0, 0.5, -0.5, 1, -1, 2.5, -2.5, 1e-30, -1e-30, 19, 21, -40, 88]).double()
positive = {"log2"}
exact = {"sign", "square", "leaky_relu x {slope=0.5}", "clamp x {max=1.0, min=-1.0}", "clamp x {max=6.0}"}
unary = {
    "exp2 x": torch.exp2, "expm1 x": torch.expm1, "log2 x": torch.log2, "log1p x": torch.log1p,
         "reciprocal x": torch.reciprocal,
    "square x": torch.square, "mish x": F.mish, "selu x": F.selu, "hardswish x": F.hardswish,
         "sign x": lambda t: torch.where(t.isnan(), t, t.sign()),
    "leaky_relu x {slope=0.01}": F.leaky_relu, "leaky_relu x {slope=0.5}": lambda t: F.leaky_relu(t, 0.5),
         "leaky_relu x {slope=-2.0}": lambda t: F.leaky_relu(t, -2),
    "elu x {alpha=1.0}": F.elu, "elu x {alpha=0.3}": lambda t: F.elu(t, 0.3), "celu x {alpha=1.0}": F.celu,
         "celu x {alpha=2.5}": lambda t: F.celu(t, 2.5),
    "softplus x {beta=1.0, threshold=20.0}": F.softplus,
         "softplus x {beta=3.0, threshold=2.0}": lambda t: F.softplus(t, 3, 2),
    "softplus x {beta=0.5, threshold=+Inf}": lambda t: torch.logaddexp(t / 2, torch.zeros_like(t)) * 2,
    "hardsigmoid x {alpha=%r, beta=0.5}" % (1 / 6): F.hardsigmoid,
    "clamp x {max=1.0, min=-1.0}": F.hardtanh, "clamp x {max=6.0}": F.relu6,
         "clamp x {max=+Inf, min=0.25}": lambda t: t.clamp(min=0.25),
    "clamp x {max=-1.0, min=3.0}": lambda t: t.clamp(3, -1), "clamp x {max=2.0, min=-Inf}": lambda t: t.clamp(max=2),
}
for line, f in unary.items():
    for x in rand(11) * 3, rand(2, 3, 5), torch.tensor(0.75).double(), torch.zeros(0, 3).double():
        x = x.abs() if line.split()[0] in ("log2", "log1p") else x
        case(line, f(x), x=x)
    x = edge
    if line.split()[0] in ("mish", "hardswish"):  # of -Inf, PyTorch's formulas give NaN or 0
        x = x[~x.isinf()]
    if line.split()[0] == "selu" or "celu" in line:
        x = x[~x.isnan()] if "celu" in line else x
    case(line, f(x), x=x)
    for d in torch.float16, torch.bfloat16:
        x = rand(9).abs().to(d)
        case(line, f(x), tol=EXACT if line in exact else (1e-6, 2e-3 if d == torch.float16 else 1.6e-2), x=x)
for x in rand(9) * 1e-4, rand(9):
    case("expm1 x", special.expm1(x.numpy()), SCIPY, x=x)
    case("log1p x", special.log1p(x.abs().numpy()), SCIPY, x=x.abs())
    case("exp2 x", special.exp2(x.numpy()), SCIPY, x=x)
for kind, line in {"LeakyRelu": "leaky_relu x {slope=%r}", "Elu": "elu x {alpha=%r}", "Celu": "celu x {alpha=%r}",
                   "HardSwish": "hardswish x",
                   "Mish": "mish x", "Softplus": "softplus x {beta=1.0, threshold=+Inf}", "Reciprocal": "reciprocal x",
                   "Sign": "sign x",
                   "HardSigmoid": "hardsigmoid x {alpha=%r, beta=%r}", "IsNaN": "isnan x", "IsInf": "isinf x",
                   "Not": "not x"}.items():
    default = {"LeakyRelu": 0.01, "HardSigmoid": 0.2}.get(kind, 1.0)
    for source, attrs, ins, outs in onnx_nodes(kind):
        if ins[0].dtype not in (np.float32, np.bool_) or attrs.get("detect_positive", 1) + attrs.get("detect_negative",
            1) < 2:
            continue
        values = (attrs.get("alpha", default), attrs.get("beta", 0.5))[:line.count("%")]
        values = tuple(float("%.7g" % v) for v in values)
        x, y = ins[0].reshape(-1)[:40], outs[0].reshape(-1)[:40]
        case(line % values, y, source, tol=F32 if y.dtype == np.float32 else None, x=x)

# Integers wrap, in NumPy as in C.
functions = {"neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square,
             "relu": lambda t: np.maximum(t, 0).astype(t.dtype), "not": np.invert}
types = np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32
for d in types:
    info = np.iinfo(d)
    x = np.array([0, 1, 2, 77, info.max, info.min, info.max - 1, info.min + 1], d)
    for name, f in functions.items():
        with np.errstate(all="ignore"):
            case(name + " x", f(x), NUMPY, x=x)
for x in torch.tensor([True, False]), torch.tensor(True), torch.zeros(0, 2).bool(), randint(0, 1, 3, 5,
    dtype=torch.bool):
    case("not x", ~x, x=x)

for name, f in {"isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite}.items():
    for x in edge, edge.half(), edge.bfloat16(), typed("f64", edge), rand(2, 3), torch.zeros(0).double():
        case(name + " x", f(x.value if hasattr(x, "value") else x), x=x)

shapes = [((7,), (7,)), ((2, 3, 4), (3, 1)), ((1, 4), (5, 1)), ((), (3,)), ((2, 0, 3), (3,))]
for name, f in {"and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor}.items():
    for a, b in shapes:
        case(name + " a, b", f(*(v := (randint(0, 1, *a, dtype=torch.bool), randint(0, 1, *b, dtype=torch.bool)))),
             a=v[0], b=v[1])
    for d, lo, hi in (torch.int8, -128, 127), (torch.int16, -32768, 32767), (torch.int32, -2**31,
        2**31 - 1), (torch.int64, -2**50, 2**50), (torch.uint8, 0, 255):
        a, b = randint(lo, hi, 3, 4, dtype=d), randint(lo, hi, 4, dtype=d)
        case(name + " a, b", f(a, b), a=a, b=b)
    a, b = np.array([0, 1, 2**31, 2**32 - 1, 77], np.uint32), np.array([2**32 - 1, 1, 3, 2**32 - 1, 70], np.uint32)
    case(name + " a, b", {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name](a, b), NUMPY, a=a,
         b=b)
for kind in "And", "Or", "Xor":
    for source, _, ins, outs in onnx_nodes(kind):
        if ins[0].size <= 60:
            case(kind.lower() + " a, b", outs[0], source, a=ins[0], b=ins[1])
for name, f in {"shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift}.items():
    for d in torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8:
        info = torch.iinfo(d)
        a = torch.tensor([1, 5, 77, info.max, info.min, info.min // 2 + 1], dtype=d)
        b = torch.tensor([0, 1, 3, info.bits - 1, info.bits, info.bits + 1, 100] + ([-1, -100] if info.min < 0 else []),
                         dtype=d)
        case(name + " a, b", f(a[:, None], b[None]), a=a[:, None], b=b[None])
for kind in ["BitShift"]:
    for source, attrs, ins, outs in onnx_nodes(kind):
        if ins[0].dtype in (np.uint8, np.uint32):
            case("shift_%s a, b" % attrs["direction"].decode().lower(), outs[0], source, a=ins[0], b=ins[1])

# PyTorch's remainder has the sign of the divisor, like our mod. Its fmod has the sign of the dividend, like our
# remainder.
for name, f in {"mod": torch.remainder, "remainder": torch.fmod}.items():
    for a, b in shapes:
        a, b = rand(*a) * 9, rand(*b)
        b[b == 0] = 0.5
        case(name + " a, b", f(a, b), a=a, b=b)
    a, b = torch.tensor([1e30, -1e30, 16777215, 3e-39, -7, 0.0, nan, inf, 5]).double(), torch.tensor(
        [3, 7e-5, -2.5, 1e-39, 3, -4, 1, 2, 0.0]).double()
    case(name + " a, b", f(a, b), a=a, b=b)
    for d, lo, hi in (torch.int8, -128, 127), (torch.int16, -32768, 32767), (torch.int32, -2**31,
        2**31 - 1), (torch.int64, -2**50, 2**50), (torch.uint8, 0, 255):
        a, b = randint(lo, hi, 3, 4, dtype=d), randint(max(lo, -9), 9, 4, dtype=d)
        b[b == 0] = 3
        case(name + " a, b", f(a, b), a=a, b=b)
    case(name + " a, b", f(torch.tensor([-2**31, 7, -7], dtype=torch.int64), torch.tensor([-1, -3, 3])).int(),
         a=torch.tensor([-2**31, 7, -7]).int(), b=torch.tensor([-1, -3, 3]).int())
for source, attrs, ins, outs in onnx_nodes("Mod"):
    if ins[0].dtype.name in ("int8", "int16", "int32", "int64", "uint8", "uint32", "float32",
                             "float16") and ins[0].shape == ins[1].shape:
        case(("remainder" if attrs.get("fmod") else "mod") + " a, b", outs[0], source,
             tol=F32 if ins[0].dtype.kind == "f" else None, a=ins[0], b=ins[1])

# A condition of any type is true if it is not 0.
for c in edge[:6], edge[:6].half(), edge[:6].bfloat16(), torch.tensor([0, 1, -1, 256, 65536, 7]).int(), torch.tensor(
    [0, 256, 0, 3, 1, 2]).short(), \
        torch.tensor([0, 2**40, -1, 0, 1, 2]), torch.tensor([0, 255, 1, 0, 128, 3]).byte(), typed("f64", edge[:6]):
    a, b = rand(6), rand(2, 6)
    v = c.value if hasattr(c, "value") else c
    case("where c, a, b", torch.where(v != 0, a, b), c=c, a=a, b=b)


def region(expr, out, **inputs):
    case('elementwise_region %s {expr="%s"}' % (", ".join(inputs), expr), out, **inputs)


a, b = rand(2, 3, 4), rand(4)
region("v0=add(i0,i1); v1=leaky_relu(v0,slope=0.1)", F.leaky_relu(a + b, 0.1), a=a, b=b)
region("v0=softplus(i0,beta=1.0,threshold=20.0); v1=tanh(v0); v2=mul(i0,v1)", F.mish(a), a=a)
region("v0=clamp(i0,max=1.0,min=-1.0); v1=isnan(v0); v2=where(v1,i1,v0)", F.hardtanh(a), a=a, b=b)
region("v0=lt(i0,i1); v1=gt(i0,-0.5); v2=and(v0,v1); v3=cast(v2,to=f32); v4=mul(v3,i0)",
       torch.where((a < b) & (a > -0.5), a, 0.0), a=a, b=b)
