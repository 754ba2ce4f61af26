"""Matrix products."""
import torch
import torch.nn.functional as F

from write import case, inf, nan, rand


def attrs(**a):
    a = {k: v for k, v in a.items() if v}
    return "" if not a else " {%s}" % ", ".join("%s=%s" % (k, {True: "true"}.get(v, '"%s"' % v)) for k, v in sorted(a.items()))


shapes = [((4, 6), (6, 5)), ((1, 7), (7, 1)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((3, 0), (0, 2)), ((5, 33), (33, 17)), ((1, 2, 3), (2, 3, 4))]
for a, b in shapes:
    for ta, tb in (False, False), (True, False), (False, True), (True, True):
        x, w = rand(*a), rand(*b)
        p = x @ w
        x, w = x.mT.contiguous() if ta else x, w.mT.contiguous() if tb else w
        case("matmul x, w" + attrs(trans_a=ta, trans_b=tb), p, x=x, w=w)
        bias, res = rand(p.shape[-1]), rand(*p.shape)
        act, f = [("", lambda t: t), ("gelu", F.gelu), ("silu", F.silu), ("gelu_tanh", lambda t: F.gelu(t, approximate="tanh"))][2 * ta + tb]
        case("fused_matmul x, w, bias" + attrs(act=act, has_bias=True, trans_a=ta, trans_b=tb), f(p + bias), x=x, w=w, bias=bias)
        case("fused_matmul x, w, res" + attrs(act=act, has_residual=True, trans_a=ta, trans_b=tb), f(p) + res, x=x, w=w, res=res)
for act, f in ("relu", F.relu), ("sigmoid", torch.sigmoid), ("tanh", torch.tanh):
    x, w, bias, res = rand(3, 8), rand(8, 6), rand(6), rand(3, 6)
    case("fused_matmul x, w, bias, res" + attrs(act=act, has_bias=True, has_residual=True), f(x @ w + bias) + res, x=x, w=w, bias=bias, res=res)
x, w = rand(4, 5), rand(5, 3)
x[0, 1], x[1, 2], w[3, 1] = nan, inf, -inf
case("matmul x, w", x @ w, x=x, w=w)
for d in torch.float16, torch.bfloat16:
    x, w = rand(3, 8), rand(8, 4).to(d)
    case("matmul x, w", x @ w.double(), x=x, w=w)
