"""Attention. PyTorch's layout is [B, H, S, D]."""
import torch
import torch.nn.functional as F

from write import case, rand

q, k, v = rand(2, 4, 3, 5), rand(2, 4, 6, 5), rand(2, 4, 6, 5)
sdpa = F.scaled_dot_product_attention
case('attention q, k, v {heads=4, layout="bhsd", mask="none"}', sdpa(q, k, v), q=q, k=k, v=v)
case('attention q, k, v {heads=4, layout="bhsd", mask="none", scale=0.2}', sdpa(q, k, v, scale=0.2), q=q, k=k, v=v)
case('attention q, k, v {heads=4, layout="bshd", mask="none"}', sdpa(q, k, v).transpose(1, 2).contiguous(),
     q=q.transpose(1, 2).contiguous(), k=k.transpose(1, 2).contiguous(), v=v.transpose(1, 2).contiguous())
bse = lambda t: t.transpose(1, 2).flatten(2)
case('attention q, k, v {heads=4, layout="bse", mask="none"}', bse(sdpa(q, k, v)), q=bse(q), k=bse(k), v=bse(v))
lower = torch.ones(3, 6, dtype=torch.bool).tril(3)  # the last query sees the last key
case('attention q, k, v {heads=4, layout="bhsd", mask="causal"}', sdpa(q, k, v, attn_mask=lower), q=q, k=k, v=v)
band = lower & torch.ones(3, 6, dtype=torch.bool).triu(1)  # two keys back
case('attention q, k, v {heads=4, layout="bhsd", mask="sliding", window=2}', sdpa(q, k, v, attn_mask=band), q=q, k=k, v=v)
bias = rand(2, 1, 3, 6)
case('attention q, k, v, bias {heads=4, layout="bhsd", mask="bias"}', sdpa(q, k, v, attn_mask=bias), q=q, k=k, v=v, bias=bias)
keep = (torch.rand(2, 6) > 0.4).double()
keep[:, 0] = 1
case('attention q, k, v, keep {heads=4, layout="bhsd", mask="custom"}',
     sdpa(q, k, v, attn_mask=keep.bool()[:, None, None, :]), q=q, k=k, v=v, keep=keep)
k2, v2 = rand(2, 2, 6, 5), rand(2, 2, 6, 5)
case('attention q, k, v {heads=4, kv_heads=2, layout="bhsd", mask="none"}', sdpa(q, k2, v2, enable_gqa=True), q=q, k=k2, v=v2)
s = torch.einsum("bhqd,bhkd->bhqk", q, k) / 5 ** 0.5
case('attention q, k, v {heads=4, layout="bhsd", mask="none", softcap=1.5}',
     torch.einsum("bhqk,bhkd->bhqd", torch.softmax(1.5 * torch.tanh(s / 1.5), -1), v), q=q, k=k, v=v)


def grid_attention(qkv, pad, rh, rw, heads, window):
    """One window, head and query at a time, over tokens padded with the row pad."""
    B, gh, gw, e3 = qkv.shape
    e, d = e3 // 3, e3 // 3 // heads
    wh, ww = (window, window) if window else (gh, gw)
    nh, nw = -(-gh // wh), -(-gw // ww)
    full = pad.expand(B, nh * wh, nw * ww, e3).clone()
    full[:, :gh, :gw] = qkv
    out = torch.zeros(B, nh * wh, nw * ww, e, dtype=torch.float64)
    for y in range(0, nh * wh, wh):
        for x in range(0, nw * ww, ww):
            part = full[:, y:y + wh, x:x + ww].reshape(B, wh, ww, 3, heads, d)
            q, k, v = part.unbind(3)
            s = torch.einsum("byxhd,bijhd->bhyxij", q, k) / d ** 0.5
            s = s + torch.einsum("byxhd,yid->bhyxi", q, rh)[..., None]
            s = s + torch.einsum("byxhd,xjd->bhyxj", q, rw)[..., None, :]
            p = torch.softmax(s.flatten(-2), -1).view_as(s)
            out[:, y:y + wh, x:x + ww] = torch.einsum("bhyxij,bijhd->byxhd", p, v).reshape(B, wh, ww, e)
    return out[:, :gh, :gw].contiguous()


for shape, heads, window in ((1, 3, 5, 12), 2, 2), ((2, 4, 4, 9), 3, 2), ((1, 5, 7, 6), 1, 3), ((1, 3, 5, 12), 2, 0), ((2, 2, 3, 18), 2, 0), ((1, 1, 1, 6), 2, 0):
    wh, ww = (window, window) if window else shape[1:3]
    d = shape[3] // 3 // heads
    qkv, pad, rh, rw = rand(*shape), rand(shape[3]), rand(wh, wh, d), rand(ww, ww, d)
    attrs = "{heads=%d%s}" % (heads, ", window=%d" % window if window else "")
    case("grid_attention qkv, pad, rh, rw " + attrs, grid_attention(qkv, pad, rh, rw, heads, window), qkv=qkv, pad=pad, rh=rh, rw=rw)
    case("grid_attention qkv, pad " + attrs, grid_attention(qkv, pad, 0 * rh, 0 * rw, heads, window), qkv=qkv, pad=pad)
