"""Reductions."""
import torch

from write import F32, case, inf, nan, onnx_nodes, rand, randint, typed

fs = {"reduce_sum": torch.sum, "reduce_mean": torch.mean, "reduce_prod": torch.prod, "reduce_max": torch.amax, "reduce_min": torch.amin}


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
        for d, lo, hi in (torch.int32, -2**31, 2**31 - 1), (torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.int64, -9, 9):
            x = randint(lo, hi, 3, 4, dtype=d)
            case(name + " x {axes=[0]}", reduce(name, x, (0,), False), x=x)
    if name in ("reduce_sum", "reduce_prod", "reduce_mean"):  # over nothing; PyTorch refuses extremes of nothing
        x = torch.zeros(2, 0, 3).double()
        case(name + " x {axes=[1]}", reduce(name, x, (1,), False), x=x)
    x = rand(700)
    case(name + " x {axes=[0]}", reduce(name, x / 4 if name == "reduce_prod" else x, (0,), False), x=x / 4 if name == "reduce_prod" else x)
for kind, name in {"ReduceMax": "reduce_max", "ReduceMin": "reduce_min"}.items():
    for source, _, ins, outs in onnx_nodes(kind):
        if source.endswith("empty_set"):
            case(name + " x {axes=[1], keep_dims=true}", outs[0], source, tol=F32, x=ins[0])
