"""Running sums, products and maxima."""
import numpy as np
import torch

from write import NUMPY, case, inf, nan, rand, randint, typed

fs = {"cumsum": torch.cumsum, "cumprod": torch.cumprod, "cummax": lambda x, axis: torch.cummax(x, axis).values}
numpy = {"cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate}
begin = {"cumsum": 0, "cumprod": 1, "cummax": -inf}


def scan(name, x, axis, exclusive, reverse):
    """An exclusive scan is the start value, followed by the scan of all but the last element."""
    x = x.flip(axis) if reverse else x
    y = fs[name](x, axis).to(x.dtype)
    if exclusive:
        first = torch.iinfo(x.dtype).min if name == "cummax" and not x.dtype.is_floating_point else begin[name]
        y = torch.cat([torch.full_like(x.narrow(axis, 0, 1), first), y.narrow(axis, 0, x.shape[axis] - 1)], axis)
    return y.flip(axis) if reverse else y


def attrs(axis, exclusive, reverse):
    return "{axis=%d%s%s}" % (axis, ", exclusive=true" if exclusive else "", ", reverse=true" if reverse else "")


def add(name, x, axis, exclusive=False, reverse=False):
    case("%s x %s" % (name, attrs(axis, exclusive, reverse)), scan(name, x, axis, exclusive, reverse), x=x)


for name in fs:
    scale = 0.5 if name == "cumprod" else 1
    for axis in range(3):
        for exclusive in False, True:
            for reverse in False, True:
                add(name, rand(3, 5, 4, scale=scale) + (1 if name == "cumprod" else 0), axis, exclusive, reverse)
    add(name, rand(300) if name != "cumprod" else 1 + rand(300, scale=0.1), 0)
    add(name, rand(1), 0)
    case(name + " x {axis=1}", torch.zeros(3, 0).double(), x=torch.zeros(3, 0).double())
    x = rand(6, 7)
    x[0, 1], x[1, 2], x[2, 3], x[3, 0], x[3, 1], x[4, 2], x[5, 0] = nan, inf, -inf, inf, -inf, 0, -0.0
    for exclusive in False, True:
        add(name, x, 1, exclusive, exclusive)
    for d, lo, hi in (torch.int32, -2**31, 2**31 - 1), (torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.int64,
        -2**62, 2**62):
        add(name, randint(lo, hi, 3, 6, dtype=d), 1)
        add(name, randint(lo, hi, 6, 2, dtype=d), 0, True, True)
    for t, d in ("u32", np.uint32), ("i16", np.int16):
        x = randint(0, 2**31 - 1, 2, 9, dtype=torch.int64).numpy().astype(d)
        case(name + " x {axis=1}", typed(t, numpy[name](x, axis=1, **({} if name == "cummax" else {"dtype": d}))),
             NUMPY, x=typed(t, x))
