"""Backward ops, by PyTorch's autograd."""
import torch
import torch.nn.functional as F

from write import case, rand


def gradients(f, *operands):
    """A random gradient of f's result, and the gradients of the operands."""
    x = [t.clone().requires_grad_() for t in operands]
    y = f(*x)
    dy = rand(*y.shape)
    return dy, list(torch.autograd.grad(y, x, dy))


for shape, eps in ((3, 9), 1e-5), ((2, 3, 16), 1e-6), ((1, 1), 1e-2), ((4, 33), 0.1), ((0, 5), 1e-5), ((7,), 1e-3):
    x, g, b = rand(*shape), rand(shape[-1]), rand(shape[-1])
    dy, d = gradients(lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b, eps), x, g, b)
    case("layer_norm_backward x, g, dy {eps=%r}" % eps, d, x=x, g=g, dy=dy)
    dy, d = gradients(lambda x, g, b: F.rms_norm(x, x.shape[-1:], g, eps) + b, x, g, b)
    case("rms_norm_backward x, g, dy {eps=%r}" % eps, d, x=x, g=g, dy=dy)

for shape, groups, eps in ((2, 6, 5), 3, 1e-5), ((2, 6, 3, 4), 1, 1e-6), ((1, 4, 5), 4, 0.1), ((3, 8, 2, 2, 3), 2,
    1e-5), ((4, 6), 2, 1e-3):
    x, g, b = rand(*shape), rand(shape[1]), rand(shape[1])
    dy, d = gradients(lambda x, g, b: F.group_norm(x, groups, g, b, eps), x, g, b)
    case("group_norm_backward x, g, dy {groups=%d, eps=%r}" % (groups, eps), d, x=x, g=g, dy=dy)


# Attention. Layout [B,H,S,D]; keep, [B,H,Sq,Sk] with dims of 1 repeated, says which keys take part.
def attend(q, k, v, bias=None, sinks=None, keep=None, softcap=None):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    if softcap is None and sinks is None and (keep is None or keep.any(-1).all()):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep if bias is None else bias)
    s = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    if bias is not None:
        s = s + bias
    if keep is not None:
        s = s.masked_fill(~keep, float("-inf"))
    if sinks is not None:
        s = torch.cat([s, sinks[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    p = torch.softmax(s, -1)
    if sinks is not None:
        p = p[..., :-1]
    if keep is not None:
        p = torch.where(keep.any(-1, keepdim=True), p, 0)
    return p @ v


q, k, v = rand(2, 4, 3, 5), rand(2, 4, 6, 5), rand(2, 4, 6, 7)
k2, v2 = rand(2, 2, 6, 5), rand(2, 2, 6, 7)
bse = lambda t: t.transpose(1, 2).flatten(2)
lower = torch.ones(3, 6, dtype=torch.bool).tril(3)[None, None]
dy, d = gradients(attend, q, k, v)
case('attention_backward q, k, v, dy {heads=4, layout="bhsd", mask="none"}', d, q=q, k=k, v=v, dy=dy)
case('attention_backward q, k, v, dy {heads=4, layout="bse", mask="none"}', [bse(t) for t in d], q=bse(q), k=bse(k),
     v=bse(v), dy=bse(dy))
dy, d = gradients(lambda q, k, v: attend(q, k, v, keep=lower), q, k2, v2)
case('attention_backward q, k, v, dy {heads=4, kv_heads=2, layout="bhsd", mask="causal"}', d, q=q, k=k2, v=v2, dy=dy)
keep = lower & torch.ones(3, 6, dtype=torch.bool).triu(1)
dy, d = gradients(lambda q, k, v: attend(q, k, v, keep=keep), q, k2, v2)
case('attention_backward q, k, v, dy {heads=4, kv_heads=2, layout="bhsd", mask="sliding", window=2}', d, q=q, k=k2,
     v=v2, dy=dy)
for shape in (2, 4, 3, 6), (1, 1, 1, 6), (2, 1, 3, 1):
    bias = rand(*shape)
    dy, d = gradients(lambda q, k, v, b: attend(q, k, v, b.expand(2, 4, 3, 6)), q, k2, v2, bias)
    case('attention_backward q, k, v, dy, mask=b {heads=4, kv_heads=2, layout="bhsd", mask="bias"}', d, q=q, k=k2, v=v2,
         dy=dy, b=bias)
keep = (torch.rand(2, 6) > 0.4)
keep[:, 0] = True
dy, d = gradients(lambda q, k, v: attend(q, k, v, keep=keep[:, None, None]), q, k, v)
case('attention_backward q, k, v, dy, mask=m {heads=4, layout="bhsd", mask="custom"}', d, q=q, k=k, v=v, dy=dy, m=keep)
s = rand(4)
dy, d = gradients(lambda q, k, v, s: attend(q, k, v, sinks=s, keep=lower, softcap=1.5), q, k2, v2, s)
case('attention_backward q, k, v, dy, sinks=s {heads=4, kv_heads=2, layout="bhsd", mask="causal", softcap=1.5}', d, q=q,
     k=k2, v=v2, dy=dy, s=s)
q, k, v = rand(1, 1, 4, 3), rand(1, 1, 2, 3), rand(1, 1, 2, 3)  # the first two queries have no keys
lower = torch.ones(4, 2, dtype=torch.bool).tril(-2)[None, None]
x = [t.clone().requires_grad_() for t in (q[:, :, 2:], k, v)]
y = F.scaled_dot_product_attention(*x, attn_mask=lower[:, :, 2:])
dy = rand(1, 1, 4, 3)
d = list(torch.autograd.grad(y, x, dy[:, :, 2:]))
d[0] = torch.cat([torch.zeros(1, 1, 2, 3, dtype=torch.float64), d[0]], 2)
case('attention_backward q, k, v, dy {heads=1, layout="bhsd", mask="causal"}', d, q=q, k=k, v=v, dy=dy)

# Rotary positions. PyTorch has no rope; the turn is a product of complex numbers.
for style, rot in ("neox", 8), ("gptj", 8), ("neox", 4), ("gptj", 6):
    def turn(x):
        h = rot // 2
        angle = torch.arange(x.shape[2]).double()[:, None] * 100.0 ** (-torch.arange(h).double() / h)
        a, b = (x[..., :h], x[..., h:rot]) if style == "neox" else (x[..., 0:rot:2], x[..., 1:rot:2])
        z = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
        y = torch.cat([z.real, z.imag], -1) if style == "neox" else torch.stack([z.real, z.imag], -1).flatten(-2)
        return torch.cat([y, x[..., rot:]], -1)

    for shape in (2, 3, 5, 8), (1, 2, 1, 8):
        dy, (d,) = gradients(turn, rand(*shape))
        case('rope_backward dy {base=100, head_dim=8, n_rot=%d, style="%s", layout="bhsd"}' % (rot, style), d, dy=dy)

for n, c, scale in (1, 1, 1), (3, 5, 1), (4, 33, 3), (2, 7, 300), (0, 4, 1), (6, 10, 20):
    x, t = rand(n, c) * scale, torch.randint(0, c, (n,))
    dy, (d,) = gradients(lambda x: F.cross_entropy(x, t, reduction="none"), x)
    case("softmax_cross_entropy x, t", F.cross_entropy(x, t, reduction="none"), x=x, t=t.int())
    case("softmax_cross_entropy_backward x, t, dy", d, x=x, t=t, dy=dy)


def gated_delta(b, t, groups, heads, n, m, carried, final):
    q, k, v = rand(b, t, groups, n), rand(b, t, groups, n, scale=0.25), rand(b, t, heads, m)
    g, beta = -rand(b, t, heads).abs(), (torch.sigmoid(rand(b, t, heads)) * 64).round() / 64
    inputs = {"q": q, "k": k, "v": v, "g": g, "beta": beta}
    if carried:
        inputs["state"] = rand(b, heads, n, m)
    x = {name: value.clone().requires_grad_() for name, value in inputs.items()}
    each = lambda name: x[name].repeat_interleave(heads // groups, 2)
    # S = exp(g) (1 - beta k^T k) S + beta k^T v, as matrices
    s, o = x.get("state", torch.zeros(b, heads, n, m).double()), []
    for i in range(t):
        kt, qt = each("k")[:, i, :, :, None], each("q")[:, i, :, None]
        bt, gt = x["beta"][:, i, :, None, None], x["g"][:, i, :, None, None]
        s = gt.exp() * (torch.eye(n).double() - bt * kt @ kt.mT) @ s + bt * kt @ x["v"][:, i, :, None]
        o.append((qt @ s)[:, :, 0] / n**0.5)
    o = torch.stack(o, 1)
    inputs["dy"], df = rand(*o.shape), rand(*s.shape)
    loss = (o * inputs["dy"]).sum()
    if final:
        inputs["dfinal"], loss = df, loss + (s * df).sum()
    case("gated_delta_net_backward q, k, v, g, beta, dy" + ", state=state" * carried + ", dfinal=dfinal" * final,
         list(torch.autograd.grad(loss, list(x.values()))), **inputs)


gated_delta(1, 1, 1, 1, 4, 4, True, True)
gated_delta(2, 5, 1, 3, 3, 7, True, True)
gated_delta(1, 9, 2, 4, 8, 5, False, False)
gated_delta(1, 70, 1, 2, 4, 3, True, False)
gated_delta(1, 33, 1, 1, 5, 2, False, True)
