"""Convolutions."""
import torch
import torch.nn.functional as F

from write import case, rand


def nhwc(t):
    return t.permute(0, 2, 3, 1).contiguous()


def attrs(**a):
    default = {"groups": 1, "stride": (1, 1), "dilation": (1, 1), "padding": (0, 0), "output_padding": (0, 0)}
    return ", ".join("%s=%s" % (k, str(list(v) if k != "groups" else v).replace(" ", "")) for k, v in sorted(a.items()) if v != default[k])


def both(op, line, y, x, **others):
    """One result in both layouts."""
    line += ", " if line else ""
    for layout, order in ("nchw", lambda t: t), ("nhwc", nhwc):
        case('%s %s {%slayout="%s"}' % (op, ", ".join(["x", *others]), line, layout), order(y), x=order(x), **others)


for shape, wshape, a in [
    ((1, 4, 7, 6), (6, 2, 3, 2), dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)),
    ((2, 3, 5, 5), (4, 3, 3, 3), dict(padding=(1, 1))),
    ((1, 3, 8, 8), (5, 3, 4, 4), dict(stride=(4, 4))),
    ((1, 6, 6, 7), (6, 1, 3, 3), dict(padding=(1, 1), groups=6)),
    ((2, 5, 3, 4), (7, 5, 1, 1), {}),
    ((1, 1, 9, 9), (1, 1, 5, 3), dict(dilation=(2, 3), padding=(3, 3))),
]:
    x, w, b = rand(*shape), rand(*wshape), rand(wshape[0])
    both("conv2d", attrs(**a), F.conv2d(x, w, b, **a), x, w=w, b=b)
    both("conv2d", attrs(**a), F.conv2d(x, w, **a), x, w=w)

for shape, wshape, a in [
    ((1, 4, 3, 4), (4, 3, 2, 3), dict(stride=(2, 3), padding=(1, 0), output_padding=(1, 2), dilation=(2, 1), groups=2)),
    ((2, 3, 4, 4), (3, 5, 2, 2), dict(stride=(2, 2))),
    ((1, 2, 5, 3), (2, 4, 3, 3), dict(padding=(1, 1))),
    ((1, 4, 4, 5), (4, 1, 3, 3), dict(stride=(2, 2), padding=(1, 1), output_padding=(1, 1), groups=4)),
    ((1, 3, 2, 2), (3, 2, 1, 1), {}),
]:
    x, w, b = rand(*shape), rand(*wshape), rand(wshape[1] * a.get("groups", 1))
    both("conv_transpose2d", attrs(**a), F.conv_transpose2d(x, w, b, **a), x, w=w, b=b)
    both("conv_transpose2d", attrs(**a), F.conv_transpose2d(x, w, **a), x, w=w)
