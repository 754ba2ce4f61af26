"""Ops that only training needs: fake quantization, systems of linear equations, and the gradient of log_mel."""
import math

import numpy as np
import torch

from write import F32, NUMPY, case, inf, nan, rand, typed

f64 = lambda x: typed("f64", x)
MOST = {8: 127, 4: 7, 2: 1}


def along(s, x, axis):
    return s if s.dim() == 0 else s.reshape([-1 if i == axis else 1 for i in range(x.dim())])


def rounded(x, s, bits):
    return torch.where(s == 0, 0, (x / s).round().clamp(-MOST[bits], MOST[bits]) * s)


def text(**attrs):
    return "{%s}" % ", ".join("%s=%s" % (k, ('"%s"' % v) if isinstance(v, str) else str(v).lower())
                              for k, v in attrs.items())


def fake(shape, bits, scale, ste, axis=None, decay=0.0, previous=None, scaled=1.0):
    x, q = rand(*shape) * scaled, MOST[bits]
    rest = [i for i in range(x.dim()) if i != axis]
    most = x.abs().amax(rest) if rest and x.numel() else (x.abs() if x.numel() else torch.zeros(()).double())
    s, operands = most / q, {}
    if scale != "batch":
        s0 = previous if previous is not None else rand(*s.shape).abs() / q + 0.0157
        operands["s"] = f64(s0)
        s = s0 if scale == "fixed" else torch.where(s0 == 0, s, decay * s0 + (1 - decay) * s)
    attrs = dict(bits=bits, scale=scale, ste=ste)
    if scale == "ema":
        attrs["decay"] = decay
    if axis is not None:
        attrs.update(channels=True, axis=axis)
    w = along(s, x, axis)
    case("fake_quantize x%s %s" % (", scale=s" * bool(operands), text(**attrs)), [f64(rounded(x, w, bits)), f64(s)],
         x=f64(x), **operands)
    if not x.numel() or (s == 0).any():
        return
    dy = rand(*shape)
    by = {"identity": torch.ones_like(x), "clipped": (x.abs() <= q * w).double(), "tanh": 1 - torch.tanh(x / w) ** 2,
          "hardtanh": (1 - x.abs() / (q * w)).clamp(min=0)}[ste]
    attrs = dict(bits=bits, ste=ste)
    if axis is not None:
        attrs["axis"] = axis
    case("fake_quantize_backward x, s, dy " + text(**attrs), f64(dy * by), x=f64(x), s=f64(s), dy=f64(dy))


for bits, ste in (8, "identity"), (4, "clipped"), (2, "tanh"), (4, "hardtanh"):
    fake((3, 7), bits, "batch", ste)
    fake((3, 4, 5), bits, "batch", ste, axis=1)
    fake((3, 7), bits, "fixed", ste)
    fake((6, 2), bits, "fixed", ste, axis=0)
    fake((2, 9), bits, "ema", ste, decay=0.9)
    fake((5, 4), bits, "ema", ste, axis=1, decay=0.25)
fake((), 8, "batch", "identity")
fake((0, 3), 8, "batch", "identity")
fake((2, 3), 8, "batch", "clipped", scaled=0)  # the scale is 0
fake((2, 3), 4, "ema", "clipped", decay=0.9, previous=torch.zeros(()).double())  # the first step
x = torch.tensor([nan, 1, -2]).double()
case('fake_quantize x {bits=8, scale="batch", ste="identity"}', [f64(x * nan), f64(torch.tensor(nan).double())],
     x=f64(x))
x = torch.tensor([nan, inf, -inf, 0.25, -0.75]).double()  # halves go to the even neighbour
case('fake_quantize x, scale=s {bits=4, scale="fixed", ste="identity"}',
     [f64(torch.tensor([nan, 3.5, -3.5, 0, -1])), f64(torch.tensor(0.5).double())], "by hand", x=f64(x),
     s=f64(torch.tensor(0.5).double()))

# PyTorch's own ops, in f32; their gradient is the clipped one
for bits in 8, 4, 2:
    x, q = rand(4, 9), MOST[bits]
    for axis in None, 1:
        s = (rand(9).abs() + 0.25) / q if axis else torch.tensor(0.5 / q)
        s = s.float()
        a = x.float().requires_grad_()
        zero = torch.zeros(9, dtype=torch.int32) if axis else 0
        y = (torch.fake_quantize_per_channel_affine(a, s, zero, axis, -q, q) if axis else
             torch.fake_quantize_per_tensor_affine(a, s.item(), zero, -q, q))
        attrs = dict(bits=bits, scale="fixed", ste="clipped")
        case("fake_quantize x, scale=s " + text(**attrs, **(dict(channels=True, axis=1) if axis else {})),
             [y.double(), s], tol=F32, x=x, s=s)


def lsq(shape, bits, axis=None, factor=0.0):
    x, q = rand(*shape), MOST[bits]
    s = (rand(*(() if axis is None else (shape[axis],))).abs() + 0.5001) / q
    a, b = x.clone().requires_grad_(), s.clone().requires_grad_()
    u = a / along(b, x, axis)
    v = u.clamp(-q, q)
    y = (v + (v.round() - v).detach()) * along(b, x, axis)
    dy = rand(*shape)
    dx, ds = torch.autograd.grad(y, [a, b], dy)
    attrs = dict(bits=bits)
    if axis is not None:
        attrs["axis"] = axis
    case("fake_quantize_lsq x, s " + text(**attrs), f64(y), x=f64(x), s=f64(s))
    if factor:
        attrs["factor"] = factor
    by = factor or 1 / math.sqrt(q * max(1, x.numel() / s.numel()))
    case("fake_quantize_lsq_backward x, s, dy " + text(**attrs), [f64(dx), f64(ds * by)],
         x=f64(x), s=f64(s), dy=f64(dy))


for bits in 8, 4, 2:
    lsq((3, 7), bits)
    lsq((3, 4, 5), bits, axis=1, factor=1.0)
    lsq((6, 2), bits, axis=0)
lsq((), 4)
lsq((0, 3), 4, axis=1, factor=0.5)
for bits in 8, 4:
    x, dy, q = rand(3, 7), rand(3, 7), MOST[bits]
    # PyTorch looks at the rounded value, the paper at u
    x[((x.abs() / (0.75 / q)) - q - 0.25).abs() <= 0.26] = 0
    a, s = x.float().requires_grad_(), torch.tensor([0.75 / q]).requires_grad_()
    y = torch._fake_quantize_learnable_per_tensor_affine(a, s, torch.zeros(1), -q, q, 1.0)
    dx, ds = torch.autograd.grad(y, [a, s], dy.float())
    case("fake_quantize_lsq_backward x, s, dy {bits=%d, factor=1}" % bits, [dx.double(), ds.double().reshape(())],
         tol=(1e-5, 2e-5), x=x, s=s.detach().reshape(()), dy=dy)

for shape, right in ((1, 1), (1, 2)), ((3, 3), (3,)), ((2, 4, 4), (2, 4, 3)), ((2, 3, 5, 5), (2, 3, 5)), ((0, 2, 2),
    (0, 2, 1)), ((3, 3), (3, 0)), ((9, 9), (9, 2)):
    a, b = rand(*shape), rand(*right)
    x = torch.linalg.solve(a, b) if b.numel() else b
    case("dense_solve a, b", f64(x), a=f64(a), b=f64(b))
a = torch.tensor([[0, 2.0], [4, 0]]).double()  # needs its rows exchanged
case("dense_solve a, b", f64(np.linalg.solve(a, [6.0, 8])), NUMPY, a=f64(a), b=f64(torch.tensor([6.0, 8]).double()))
a = torch.stack([torch.tensor([[1.0, 2], [2, 4]]), torch.tensor([[1.0, 2], [2, 5]])]).double()  # the first is singular
b = torch.tensor([[1.0, 3], [1, 3]]).double()
case("dense_solve a, b", f64(torch.tensor([[nan, nan], [-1, 1]]).double()), "by hand", a=f64(a), b=f64(b))


def log_mel(x, f, scope):
    n = x.shape[-1] // 2
    p = x[..., :f.shape[1]] ** 2 + x[..., n:n + f.shape[1]] ** 2
    m = (p @ f.T).clamp(min=1e-10).log10()
    floor = (m.amax(-1, keepdim=True) if scope == "frame" else m.amax((-2, -1), keepdim=True)) - 8
    return (torch.maximum(m, floor.detach()) + 4) / 4


for scope in "frame", "clip":
    for shape, filters, steep in ((3, 10), (4, 5), 0), ((2, 4, 16), (3, 5), 0), ((2, 4, 18), (3, 5), 6), ((0, 3, 10),
        (4, 5), 0):
        x, f = rand(*shape), rand(*filters).abs() + 1 / 64
        x = x * torch.pow(10.0, -steep * torch.rand(shape[:-1] + (1,)).double().round())  # frames below the floor
        f[0] = 0 if steep else f[0]
        a = x.clone().requires_grad_()
        y = log_mel(a, f, scope)
        dy = rand(*y.shape)
        (dx,) = torch.autograd.grad(y, a, dy)
        case('log_mel_backward x, f, dy {floor_scope="%s"}' % scope, f64(dx), x=f64(x), f=f64(f), dy=f64(dy))


def optimizer(shape, make, states, numbers, t):
    """A step of an optimizer of PyTorch, with the gradient halved, as by clipping. states has the name of PyTorch's
    state by that of the operand."""
    p, g = rand(*shape), rand(*shape)
    old = {k: rand(*shape).abs() for k in states}
    a = torch.nn.Parameter(p.clone())
    o = make([a])
    o.state[a].update({states[k]: v.clone() for k, v in old.items()})
    if t:  # Adam counts steps
        o.state[a]["step"] = torch.tensor(float(t - 1))
    a.grad = g * 0.5
    o.step()
    op = "adamw" if t else "sgd"
    case(op + " p, " + "".join(k + ", " for k in old) + "g, n",
         [a.detach()] + [o.state[a][states[k]] for k in old], p=p, **old, g=g,
         n=torch.tensor(numbers, dtype=torch.float64))


for i, shape in enumerate([(7,), (3, 5), (0, 4), (2, 3, 4), (65,), (1, 1)]):
    lr, decay, b1, b2, eps, t = 0.01 * (i + 1), 0.1 * i, 0.9 - 0.1 * i, 0.999 - 0.1 * i, 10.0 ** -(8 - i), i + 1
    optimizer(shape, lambda p: torch.optim.AdamW(p, lr, (b1, b2), eps, decay), {"m": "exp_avg", "v": "exp_avg_sq"},
              [0.5, lr / (1 - b1 ** t), lr * decay, eps, b1, 1 - b1, b2, 1 - b2, 1 / (1 - b2 ** t)], t)
    # PyTorch's SGD adds the weight decay to the gradient, so it is 0 here
    optimizer(shape, lambda p: torch.optim.SGD(p, lr, b1), {"m": "momentum_buffer"}, [0.5, lr, 0, b1], 0)
