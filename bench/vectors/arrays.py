"""Ops that NumPy has. This family needs only NumPy: add an op here if NumPy can compute it."""
import numpy as np

from write import EXACT, NUMPY, case, inf, nan, normal

edge = np.array([nan, inf, -inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 1e-30, -1e-30, 40, -40])
unary = {"abs": np.abs, "neg": np.negative, "ceil": np.ceil, "floor": np.floor, "round": np.rint, "square": np.square,
         "sqrt": np.sqrt,
         "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p,
         "sin": np.sin,
         "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "atan": np.arctan}
binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
          "eq": np.equal, "lt": np.less, "ge": np.greater_equal}
reduce = {"reduce_sum": np.sum, "reduce_mean": np.mean, "reduce_max": np.max, "reduce_min": np.min,
          "reduce_prod": np.prod}

with np.errstate(all="ignore"):
    for name, f in unary.items():
        for x in normal(2, 7), np.float64(0.75), np.zeros((0, 3)), edge:
            x = np.abs(x) if name in ("log", "log2", "sqrt") else x
            case(name + " x", f(x), NUMPY, x=x)
        x = normal(9, dtype=np.float16) ** 2
        case(name + " x", f(x.astype(np.float64)).astype(np.float16), NUMPY, tol=(1e-6, 2e-3), x=x)
    for name, f in binary.items():
        for a, b in (normal(3, 1), normal(2, 1, 4)), (edge[:, None], edge[None]):
            case(name + " a, b", f(a, b), NUMPY, a=a, b=b)

for name, f in reduce.items():
    x = normal(2, 3, 5)
    case(name + " x {axes=[1]}", f(x, 1), NUMPY, x=x)
    case(name + " x {axes=[0,2], keep_dims=true}", f(x, (0, 2), keepdims=True), NUMPY, x=x)
x = normal(3, 4)
case("cumsum x {axis=1}", np.cumsum(x, 1), NUMPY, x=x)
case("transpose x {perm=[1,0]}", x.T, NUMPY, tol=EXACT, x=x)
case("where c, a, b", np.where(x > 0, x, -1.5), NUMPY, tol=EXACT, c=x > 0, a=x, b=np.float64(-1.5))
for x, to, name in (normal(3, 5, dtype=np.float32), np.int32, "i32"), (normal(7, dtype=np.float32), np.uint32, "u32"), \
        (np.zeros((0, 2), np.float32), np.int32, "i32"), \
        (np.array([0x3f800000, -0x40000000, 0, 0x7f800000], np.int32), np.float32, "f32"), \
        (np.array([[0x3f800000, 0xc0490fdb]], np.uint32), np.float32, "f32"), \
        (np.array(0x3e99999a, np.int32), np.float32, "f32"):
    case("bit_cast x {to=%s}" % name, x.view(to), NUMPY, tol=EXACT, x=x)
