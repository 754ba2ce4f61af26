"""Reductions."""
import torch

from write import EXACT, F32, case, inf, nan, onnx_nodes, rand, randint, typed

fs = {"reduce_sum": torch.sum, "reduce_mean": torch.mean, "reduce_prod": torch.prod, "reduce_max": torch.amax,
      "reduce_min": torch.amin}


def reduce(name, x, axes, keep):
    """PyTorch's prod takes one axis at a time."""
    if name == "reduce_prod":
        for a in reversed(axes):
            x = torch.prod(x, a, keepdim=keep, dtype=x.dtype)
        return x
    if name == "reduce_sum":
        return torch.sum(x, axes, keepdim=keep, dtype=x.dtype)
    return fs[name](x, axes, keepdim=keep)


def attrs(axes, keep):
    return "{axes=[%s]%s}" % (",".join(map(str, axes)), ", keep_dims=true" if keep else "")


for name in fs:
    for axes, keep in ((0,), False), ((1,), True), ((2,), False), ((0, 2), False), ((0, 1, 2), True), ((1, 2), False):
        x = rand(3, 4, 5)
        case("%s x %s" % (name, attrs(axes, keep)), reduce(name, x, axes, keep), x=x)
    x = rand(4, 6)
    x[0, 1], x[1, 2], x[2, 3], x[3, 0], x[3, 1] = nan, inf, -inf, inf, -inf
    case(name + " x {axes=[1]}", reduce(name, x, (1,), False), x=x)
    if name != "reduce_mean":
        for d, lo, hi in (torch.int32, -2**31, 2**31 - 1), (torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.int64,
            -9, 9):
            x = randint(lo, hi, 3, 4, dtype=d)
            case(name + " x {axes=[0]}", reduce(name, x, (0,), False), x=x)
    # over no elements; PyTorch refuses maxima and minima of these
    if name in ("reduce_sum", "reduce_prod", "reduce_mean"):
        x = torch.zeros(2, 0, 3).double()
        case(name + " x {axes=[1]}", reduce(name, x, (1,), False), x=x)
    x = rand(700)
    case(name + " x {axes=[0]}", reduce(name, x / 4 if name == "reduce_prod" else x, (0,), False),
         x=x / 4 if name == "reduce_prod" else x)
for kind, name in {"ReduceMax": "reduce_max", "ReduceMin": "reduce_min"}.items():
    for source, _, ins, outs in onnx_nodes(kind):
        if source.endswith("empty_set"):
            case(name + " x {axes=[1], keep_dims=true}", outs[0], source, tol=F32, x=ins[0])

# any and all take bools, logsumexp floats.
bools = {"any": torch.any, "all": torch.all}
for name, f in bools.items():
    for axes, keep in ((0,), False), ((1,), True), ((2,), False), ((0, 2), False), ((0, 1, 2), True), ((), False):
        x = randint(0, 7, 3, 4, 5) > (6 if name == "any" else 0)
        case("%s x %s" % (name, attrs(axes, keep)), f(x, axes, keep) if axes else x, x=x)
    for x in torch.zeros(2, 0, 3).bool(), torch.ones(3, 70).bool(), torch.zeros(3, 70).bool():
        case(name + " x {axes=[1]}", f(x, 1), x=x)
for axes, keep in ((0,), False), ((1,), True), ((2,), False), ((0, 2), False), ((0, 1, 2), True), ((1, 2), False):
    x = rand(3, 4, 5)
    case("logsumexp x " + attrs(axes, keep), torch.logsumexp(x, axes, keep), x=x)
    case("logsumexp x " + attrs(axes, keep), torch.logsumexp(x * 500, axes, keep), x=x * 500)
x = rand(7, 6)
x[0, 1], x[1, 2], x[2, 3], x[3, :], x[4, :], x[5, 0], x[5, 1] = nan, inf, -inf, -inf, inf, inf, -inf
case("logsumexp x {axes=[1]}", torch.logsumexp(x, 1), x=x)
case("logsumexp x {axes=[1]}", torch.logsumexp(torch.zeros(2, 0, 3).double(), 1), x=torch.zeros(2, 0, 3).double())

# ONNX takes the first of equal elements. PyTorch does not define which one it takes; on the CPU it is the first.
for name, f in ("argmax", torch.argmax), ("argmin", torch.argmin):
    for shape in (3, 4, 5), (1, 7, 1), (2, 0, 3), (2, 65, 3):
        for axis in range(3):
            if shape[axis]:
                x = rand(*shape)
                a = (", axis=%d" % axis if axis else "")
                case("%s x {index_dtype=i64%s}" % (name, a), f(x, axis), tol=EXACT, x=x)
                case("%s x {index_dtype=i64%s, keep_dims=true}" % (name, a), f(x, axis, True), tol=EXACT, x=x)
    for d, lo, hi in (torch.int32, -2**31, 2**31 - 1), (torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.int64,
        -2**62, 2**62):
        x = randint(lo, hi, 5, 9, dtype=d)
        case(name + " x {axis=1}", typed("i32", f(x, 1)), tol=EXACT, x=x)
        case(name + " x {index_dtype=u32}", typed("u32", f(x, 0)), tol=EXACT, x=x)
    for d in torch.float16, torch.bfloat16, torch.float32:
        x = rand(4, 11).to(d)
        case(name + " x {axis=1, index_dtype=f32}", f(x, 1).float(), tol=EXACT, x=x)
    x = torch.tensor([[1, nan, inf, nan], [-inf, -inf, -inf, -inf], [0, -0.0, 0, 0], [-0.0, 0, -1, 1],
                      [inf, 2, inf, -inf], [nan, 0, -inf, inf]]).double()
    case(name + " x {axis=1}", typed("i32", f(x, 1)), tol=EXACT, x=x)
    x = torch.zeros(3, 130).double()
    x[1, 64], x[1, 129], x[2, 3], x[2, 100] = 1, 1, -1, -1
    case(name + " x {axis=1}", typed("i32", f(x, 1)), tol=EXACT, x=x)
for kind, name in {"ArgMax": "argmax", "ArgMin": "argmin"}.items():
    for source, a, ins, outs in onnx_nodes(kind):
        if not a.get("select_last_index", 0):
            x = ins[0]
            axis = a.get("axis", 0) % x.ndim
            case("%s x {index_dtype=i64%s%s}" % (name, ", axis=%d" % axis if axis else "",
                ", keep_dims=true" if a.get("keepdims", 1) else ""), outs[0], source, tol=EXACT, x=x)
