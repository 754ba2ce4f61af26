"""Convolutions, pooling and patches."""
import torch
import torch.nn.functional as F

from write import EXACT, among, case, inf, nan, rand, randint

FIRST = {1: "ncw", 2: "nchw", 3: "ncdhw"}
LAST = {1: "nwc", 2: "nhwc", 3: "ndhwc"}


def last(t):
    return t.movedim(1, -1).contiguous()


def attrs(**a):
    """The text of the attributes that differ from the defaults."""
    default = {"groups": 1, "stride": 1, "dilation": 1, "padding": 0, "output_padding": 0}
    return ["%s=%s" % (k, str(v if isinstance(v, int) else list(v)).replace(" ", "")) for k, v in sorted(a.items())
            if v != default[k] and (isinstance(v, int) or any(i != default[k] for i in v))]


def both(op, a, y, x, **others):
    """Adds one result in both layouts."""
    for layouts, order in (FIRST, lambda t: t), (LAST, last):
        line = ", ".join(sorted(a + ['layout="%s"' % layouts[x.dim() - 2]]))
        operands = ["x", *("bias=b" if name == "b" else name for name in others)]
        case("%s %s {%s}" % (op, ", ".join(operands), line), order(y), x=order(x), **others)


for shape, wshape, a in [
    ((1, 4, 7, 6), (6, 2, 3, 2), dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)),
    ((2, 3, 5, 5), (4, 3, 3, 3), dict(padding=(1, 1))),
    ((1, 3, 8, 8), (5, 3, 4, 4), dict(stride=(4, 4))),
    ((1, 6, 6, 7), (6, 1, 3, 3), dict(padding=(1, 1), groups=6)),
    ((2, 5, 3, 4), (7, 5, 1, 1), {}),
    ((1, 1, 9, 9), (1, 1, 5, 3), dict(dilation=(2, 3), padding=(3, 3))),
    ((2, 4, 13), (6, 2, 3), dict(stride=(2,), padding=(1,), groups=2)),
    ((1, 5, 11), (5, 1, 4), dict(padding=(3,), groups=5)),
    ((1, 3, 9), (2, 3, 2), dict(dilation=(3,))),
    ((2, 2, 5), (3, 2, 1), {}),
    ((1, 2, 4, 5, 6), (3, 2, 3, 3, 3), dict(padding=(1, 1, 1))),
    ((2, 4, 3, 6, 5), (6, 2, 2, 3, 1), dict(stride=(1, 2, 3), padding=(1, 0, 2), dilation=(2, 1, 1), groups=2)),
    ((1, 3, 3, 4, 4), (3, 1, 3, 3, 3), dict(padding=(1, 1, 1), groups=3)),
]:
    n = len(shape) - 2
    f = getattr(F, "conv%dd" % n)
    x, w, b = rand(*shape), rand(*wshape), rand(wshape[0])
    both("conv%dd" % n, attrs(**a), f(x, w, b, **a), x, w=w, b=b)
    both("conv%dd" % n, attrs(**a), f(x, w, **a), x, w=w)

for shape, wshape, a in [
    ((1, 4, 3, 4), (4, 3, 2, 3), dict(stride=(2, 3), padding=(1, 0), output_padding=(1, 2), dilation=(2, 1), groups=2)),
    ((2, 3, 4, 4), (3, 5, 2, 2), dict(stride=(2, 2))),
    ((1, 2, 5, 3), (2, 4, 3, 3), dict(padding=(1, 1))),
    ((1, 4, 4, 5), (4, 1, 3, 3), dict(stride=(2, 2), padding=(1, 1), output_padding=(1, 1), groups=4)),
    ((1, 3, 2, 2), (3, 2, 1, 1), {}),
    ((2, 4, 7), (4, 3, 3), dict(stride=(2,), padding=(1,), output_padding=(1,), groups=2)),
    ((1, 3, 5), (3, 2, 4), dict(stride=(4,))),
    ((1, 2, 6), (2, 2, 3), dict(dilation=(2,), padding=(2,))),
    ((1, 2, 3, 4, 3), (2, 3, 2, 3, 2), dict(stride=(1, 2, 3), padding=(0, 1, 1), output_padding=(0, 1, 2))),
    ((1, 4, 2, 3, 3), (4, 2, 2, 2, 2), dict(stride=(2, 2, 2), groups=2)),
    ((2, 3, 2, 2, 4), (3, 2, 3, 1, 2), dict(dilation=(1, 1, 2), padding=(1, 0, 0))),
]:
    n = len(shape) - 2
    f = getattr(F, "conv_transpose%dd" % n)
    x, w, b = rand(*shape), rand(*wshape), rand(wshape[1] * a.get("groups", 1))
    both("conv_transpose%dd" % n, attrs(**a), f(x, w, b, **a), x, w=w, b=b)
    both("conv_transpose%dd" % n, attrs(**a), f(x, w, **a), x, w=w)


def pooled(kind, x, k, s, p):
    """PyTorch has pooling by maximum and mean; the other kinds are its reductions of windows."""
    n = len(k)
    if kind == "max" and all(2 * b <= a for a, b in zip(k, p)) and x.is_floating_point():
        return getattr(F, "max_pool%dd" % n)(x, k, s, p)
    if kind == "mean":
        return getattr(F, "avg_pool%dd" % n)(x, k, s, p)
    neutral = {"max": -inf, "min": inf, "sum": 0, "prod": 1}[kind]
    if not x.is_floating_point():
        neutral = {"max": torch.iinfo(x.dtype).min, "min": torch.iinfo(x.dtype).max}.get(kind, neutral)
    x = F.pad(x, [v for b in reversed(p) for v in (b, b)], value=neutral)
    for i in range(n):
        x = x.unfold(2 + i, k[i], s[i])
    axes = tuple(range(-n, 0))
    if kind == "prod":
        for _ in axes:
            x = x.prod(-1)
        return x
    return {"max": x.amax, "min": x.amin, "sum": x.sum}[kind](axes)


for kind in "max", "mean", "min", "prod", "sum":
    for shape, k, s, p in [
        ((2, 3, 7, 9), (3, 3), (2, 2), (1, 1)),
        ((1, 2, 6, 5), (2, 2), (2, 2), (0, 0)),
        ((1, 3, 12), (5,), (3,), (2,)),
        ((1, 2, 3, 5, 6), (2, 3, 2), (1, 2, 3), (1, 1, 0)),
        ((1, 1, 4, 4), (4, 4), (1, 1), (0, 0)),
    ]:
        x = rand(*shape)
        if kind == "max" and len(shape) == 4:
            x[0, 0, 1, 2], x[0, 0, 3, 3] = nan, -inf
        both("pool", attrs(stride=s, padding=p) + ['kind="%s"' % kind, "kernel=%s" % str(list(k)).replace(" ", "")],
             pooled(kind, x, k, s, p), x)
x = randint(-9, 9, 1, 2, 5, 6)
for kind in "max", "min", "sum", "prod":
    y = pooled(kind, x, (3, 2), (2, 2), (1, 0)).to(x.dtype)
    both("pool", ['kind="%s"' % kind, "kernel=[3,2]", "padding=[1,0]", "stride=[2,2]"], y, x)
x = rand(1, 1, 3)
# windows of padding only
case('pool x {kind="max", kernel=[2], layout="ncw", padding=[2], stride=[1]}', pooled("max", x, (2,), (1,), (2,)), x=x)

for shape, out in [((2, 3, 7, 7), (1, 1)), ((1, 3, 10, 13), (4, 7)), ((1, 2, 3), (7,)), ((1, 2, 5, 6, 7), (2, 3, 4)),
                   ((1, 4, 11), (3,))]:
    x = rand(*shape)
    both("adaptive_avg_pool", ["output=%s" % str(list(out)).replace(" ", "")],
         getattr(F, "adaptive_avg_pool%dd" % len(out))(x, out), x)

for shape, k, a in [
    ((2, 3, 5, 7), (3, 3), dict(padding=(1, 1))),
    ((1, 2, 9, 8), (3, 2), dict(stride=(2, 3), padding=(0, 2), dilation=(2, 1))),
    ((1, 3, 8, 8), (4, 4), dict(stride=(4, 4))),
    ((1, 1, 4, 5), (1, 1), {}),
    ((1, 2, 3, 3), (2, 3), dict(padding=(2, 1), dilation=(1, 2))),
]:
    x = rand(*shape)
    y = F.unfold(x, k, **a).transpose(1, 2).flatten(0, 1)
    case("im2col x {%s}" % ", ".join(sorted(attrs(**a) + ["kernel=%s" % str(list(k)).replace(" ", "")])), y, tol=EXACT,
         x=x)
x = rand(1, 2, 4, 4).half()
case("im2col x {kernel=[2,2], stride=[2,2]}", F.unfold(x, (2, 2), stride=2).transpose(1, 2).flatten(0, 1), tol=EXACT,
     x=x)

# 8-bit integers, computed in float64, where their sums are exact. torch rounds half to even.
for x, w, dt, groups, stride, pad, dil, zx, zw, zy in (
        ((1, 1, 1, 1), (1, 1, 1, 1), torch.int8, 1, (1, 1), (0, 0), (1, 1), 0, 0, 0),
    ((2, 3, 5, 6), (4, 3, 3, 3), torch.int8, 1, (1, 1), (1, 1), (1, 1), 0, 0, 0),
        ((1, 4, 7, 5), (6, 4, 3, 3), torch.uint8, 1, (2, 1), (1, 1), (1, 1), 128, 0, 7),
    ((1, 4, 4, 6), (6, 2, 2, 3), torch.int8, 2, (1, 1), (0, 2), (1, 2), -3, 5, 0),
        ((1, 6, 5, 5), (6, 1, 3, 3), torch.uint8, 6, (1, 1), (1, 1), (1, 1), 100, -2, 90)):
    lo, hi = (-128, 127) if dt == torch.int8 else (0, 255)
    v, k, bias, mult = randint(lo, hi, *x, dtype=dt), randint(-128, 127, *w, dtype=torch.int8), randint(-999, 999,
        w[0]), among([2**-7, 2**-8, 2**-9], w[0], dtype=torch.float32)
    acc = F.conv2d(v.double() - zx, k.double() - zw, bias.double(), stride, pad, dil, groups)
    y = ((acc * mult.double().reshape(-1, 1, 1)).round() + zy).clamp(lo, hi).to(dt)
    a = dict(dilation=dil, padding=pad, stride=stride)
    line = ", ".join("%s=[%d,%d]" % (n, *p) for n, p in a.items())
    case("qconv2d x, w, m, bias=b {groups=%d, w_zero=%d, x_zero=%d, y_zero=%d, %s}" % (groups, zw, zx, zy, line), y,
         tol=EXACT, x=v, w=k, m=mult, b=bias)

for shape, wshape, act, a in [
    ((2, 3, 5, 5), (4, 3, 3, 3), "relu", dict(padding=(1, 1))),
    ((1, 6, 6, 7), (6, 1, 3, 3), "silu", dict(padding=(1, 1), groups=6)),
    ((2, 5, 3, 4), (7, 5, 1, 1), "hardswish", {}),
    ((1, 4, 13), (6, 2, 3), "gelu", dict(stride=(2,), padding=(1,), groups=2)),
    ((2, 5, 11), (5, 1, 4), "silu", dict(padding=(3,), groups=5)),
    ((1, 2, 4, 5, 6), (3, 2, 3, 3, 3), "relu", dict(padding=(1, 1, 1))),
    ((2, 4, 3, 6, 5), (6, 2, 2, 3, 1), "tanh", dict(stride=(1, 2, 3), dilation=(2, 1, 1), groups=2)),
]:
    n = len(shape) - 2
    f = {"tanh": torch.tanh}.get(act) or getattr(F, act)
    x, w, b = rand(*shape), rand(*wshape), rand(wshape[0])
    y = getattr(F, "conv%dd" % n)(x, w, b, **a)
    one, two = rand(*y.shape), rand(*y.shape)
    line = attrs(**a) + ['act="%s"' % act]
    for layouts, order in (FIRST, lambda t: t), (LAST, last):
        text = " {%s}" % ", ".join(sorted(line + ['layout="%s"' % layouts[n]]))
        name, v = "fused_conv%dd x, w, bias=b" % n, dict(x=order(x), w=w, b=b)
        case(name + text, order(f(y)), **v)
        case(name + ", addend=r" + text, order(f(y + one)), r=order(one), **v)
        case(name + ", addend=r, residual=s" + text, order(f(y + one) + two), r=order(one), s=order(two), **v)
