"""Matrix products."""
import numpy as np
import torch
import torch.nn.functional as F

from write import EXACT, among, case, inf, nan, onnx_nodes, rand, randint


def attrs(**a):
    a = {k: v for k, v in a.items() if v}
    return "" if not a else " {%s}" % ", ".join("%s=%s" % (k, {True: "true"}.get(v, '"%s"' % v)) for k,
                                                v in sorted(a.items()))


shapes = [((4, 6), (6, 5)), ((1, 7), (7, 1)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((3, 0), (0, 2)),
          ((5, 33), (33, 17)), ((1, 2, 3), (2, 3, 4))]
for a, b in shapes:
    for ta, tb in (False, False), (True, False), (False, True), (True, True):
        x, w = rand(*a), rand(*b)
        p = x @ w
        x, w = x.mT.contiguous() if ta else x, w.mT.contiguous() if tb else w
        case("matmul x, w" + attrs(trans_a=ta, trans_b=tb), p, x=x, w=w)
        bias, res = rand(p.shape[-1]), rand(*p.shape)
        act, f = [("", lambda t: t), ("gelu", F.gelu), ("silu", F.silu),
                  ("gelu_tanh", lambda t: F.gelu(t, approximate="tanh"))][2 * ta + tb]
        case("fused_matmul x, w, bias=bias" + attrs(act=act, trans_a=ta, trans_b=tb), f(p + bias), x=x, w=w, bias=bias)
        case("fused_matmul x, w, residual=res" + attrs(act=act, trans_a=ta, trans_b=tb), f(p) + res, x=x, w=w, res=res)
for act, f in ("relu", F.relu), ("sigmoid", torch.sigmoid), ("tanh", torch.tanh):
    x, w, bias, res = rand(3, 8), rand(8, 6), rand(6), rand(3, 6)
    case("fused_matmul x, w, bias=bias, residual=res" + attrs(act=act), f(x @ w + bias) + res, x=x, w=w, bias=bias,
         res=res)
x, w = rand(4, 5), rand(5, 3)
x[0, 1], x[1, 2], w[3, 1] = nan, inf, -inf
case("matmul x, w", x @ w, x=x, w=w)
for d in torch.float16, torch.bfloat16:
    x, w = rand(3, 8), rand(8, 4).to(d)
    case("matmul x, w", x @ w.double(), x=x, w=w)

# Products over any axes.
for eq, x, y, a, b in (
        ("i,i->", (5,), (5,), ([], [0]), ([], [0])), ("i,j->ij", (3,), (4,), ([], []), ([], [])),
                       ("ij,jk->ik", (3, 5), (5, 4), ([], [1]), ([], [0])),
        ("ij,kj->ik", (3, 5), (4, 5), ([], [1]), ([], [1])),
                       ("bij,bjk->bik", (2, 3, 5), (2, 5, 4), ([0], [2]), ([0], [1])),
        ("ibj,jkb->bik", (3, 2, 5), (5, 4, 2), ([1], [2]), ([2], [0])),
                       ("bijk,jlkb->bil", (2, 3, 4, 5), (4, 6, 5, 2), ([0], [2, 3]), ([3], [0, 2])),
        ("ij,ji->ji", (2, 3), (3, 2), ([1, 0], []), ([0, 1], [])), ("ij,jk->ik", (2, 0), (0, 3), ([], [1]), ([], [0]))):
    u, v = rand(*x), rand(*y)
    pairs = {"a_batch": a[0], "a_contract": a[1], "b_batch": b[0], "b_contract": b[1]}
    line = "dot_general x, y {%s}" % ", ".join("%s=[%s]" % (k, ",".join(map(str, n))) for k, n in pairs.items() if n)
    case(line.replace(" {}", ""), torch.einsum(eq, u, v), x=u, y=v)

# Products with a matrix for each group of rows, and low-rank adapters.
for m, k, e, n in (1, 1, 1, 1), (7, 5, 3, 4), (20, 9, 4, 6), (0, 3, 2, 2), (5, 0, 2, 3):
    x, w, i = rand(m, k), rand(e, k, n), randint(0, e - 1, m, dtype=torch.int64)
    y = torch.stack([x[r] @ w[i[r]] for r in range(m)]) if m else torch.zeros(0, n, dtype=x.dtype)
    case("grouped_matmul x, w, i", y, x=x, w=w, i=i)
    case("grouped_matmul x, w, i {trans_b=true}", y, x=x, w=w.transpose(1, 2), i=i)
for lead, k, n, r, scale in ((3,), 7, 5, 2, 0.5), ((2, 3), 9, 4, 3, 2.0), ((1,), 1, 1, 1, 1.0), ((0,), 4, 3, 2,
    1.0), ((2,), 5, 3, 1, -0.25):
    x, w, a, b = rand(*lead, k), rand(k, n), rand(k, r), rand(r, n)
    case("lora_matmul x, w, a, b {scale=%s}" % scale, x @ (w + scale * (a @ b)), x=x, w=w, a=a, b=b)

# 8-bit integers. PyTorch's scales are float64, ours f32, so scales are powers of two.
for d, name in (torch.int8, "i8"), (torch.uint8, "u8"):
    for zero in 0, 3, 100:
        x = among([0.25, 0.75, 1.25, -0.25, -1.5, 100.0, -100.0, 3.3], 4, 9, dtype=torch.float32)
        q = torch.quantize_per_tensor(x, 0.5, zero, torch.qint8 if d == torch.int8 else torch.quint8)
        case("quantize x, s {dtype=%s, zero=%d}" % (name, zero), q.int_repr(), x=x, s=torch.tensor(0.5))
        case("dequantize x, s {dtype=%s, zero=%d}" % (name, zero), q.dequantize().double(), x=q.int_repr(),
             s=torch.tensor(0.5))
x, s = rand(3, 5).float(), torch.tensor([0.25, 0.5, 0.125])
q = torch.quantize_per_channel(x, s.double(), torch.zeros(3, dtype=torch.int64), 0, torch.qint8)
case("quantize x, s", q.int_repr(), x=x, s=s)
case("dequantize x, s", q.dequantize().double(), x=q.int_repr(), s=s)
for source, attrs, ins, outs in onnx_nodes("QLinearMatMul"):
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (np.asarray(v) for v in ins)
    if a.dtype.kind in "iu" and b.ndim == 2 and a_scale.dtype == np.float32:
        mult = (a_scale.reshape(-1)[0].astype(np.float64) * b_scale.reshape(-1)[0] / y_scale.reshape(-1)[0]).astype(
            np.float32)
        case("qmatmul x, w, m {w_zero=%d, x_zero=%d, y_zero=%d}" % (b_zero.reshape(-1)[0], a_zero.reshape(-1)[0],
            y_zero.reshape(-1)[0]), outs[0], source, tol=EXACT,
             x=a, w=b, m=np.array(mult))
for m, k, n, dx, zx, zw, zy in (3, 9, 4, torch.int8, 0, 0, 0), (5, 40, 3, torch.uint8, 128, 0, 100), (2, 19, 6,
    torch.int8, -7, 3, -5), (4, 1500, 3, torch.int8, 0, 0, 0), (1, 0, 2, torch.int8, 0, 0, 1):
    lo, hi = (-128, 127) if dx == torch.int8 else (0, 255)
    x, w, bias, mult = randint(lo, hi, m, k, dtype=dx), randint(-128, 127, k, n, dtype=torch.int8), randint(-999, 999,
        n), among([2**-7, 2**-8, 2**-9], n, dtype=torch.float32)
    acc = (x.long() - zx) @ (w.long() - zw) + bias
    y = ((acc.double() * mult.double()).round() + zy).clamp(lo, hi).to(dx)  # torch rounds half to even
    zeros = "w_zero=%d, x_zero=%d, y_zero=%d" % (zw, zx, zy)
    case("qmatmul x, w, m, bias=b {%s}" % zeros, y, tol=EXACT, x=x, w=w, m=mult, b=bias)
    case("qmatmul x, w, m, bias=b {trans_b=true, %s}" % zeros, y, tol=EXACT, x=x, w=w.T, m=mult, b=bias)
