"""Attention. PyTorch's layout is [B, H, S, D]."""
import torch
import torch.nn.functional as F
import transformers
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as gpt_oss

from write import case, rand

q, k, v = rand(2, 4, 3, 5), rand(2, 4, 6, 5), rand(2, 4, 6, 5)
sdpa = F.scaled_dot_product_attention
case('attention q, k, v {heads=4, layout="bhsd", mask="none"}', sdpa(q, k, v), q=q, k=k, v=v)
case('attention q, k, v {heads=4, layout="bhsd", mask="none", scale=0.2}', sdpa(q, k, v, scale=0.2), q=q, k=k, v=v)
case('attention q, k, v {heads=4, layout="bshd", mask="none"}', sdpa(q, k, v).transpose(1, 2).contiguous(),
     q=q.transpose(1, 2).contiguous(), k=k.transpose(1, 2).contiguous(), v=v.transpose(1, 2).contiguous())
bse = lambda t: t.transpose(1, 2).flatten(2)
case('attention q, k, v {heads=4, layout="bse", mask="none"}', bse(sdpa(q, k, v)), q=bse(q), k=bse(k), v=bse(v))
lower = torch.ones(3, 6, dtype=torch.bool).tril(3)  # the last query sees all keys
case('attention q, k, v {heads=4, layout="bhsd", mask="causal"}', sdpa(q, k, v, attn_mask=lower), q=q, k=k, v=v)
band = lower & torch.ones(3, 6, dtype=torch.bool).triu(1)  # two keys back
case('attention q, k, v {heads=4, layout="bhsd", mask="sliding", window=2}', sdpa(q, k, v, attn_mask=band), q=q, k=k,
     v=v)
bias = rand(2, 1, 3, 6)
case('attention q, k, v, mask=bias {heads=4, layout="bhsd", mask="bias"}', sdpa(q, k, v, attn_mask=bias), q=q, k=k, v=v,
     bias=bias)
keep = (torch.rand(2, 6) > 0.4).double()
keep[:, 0] = 1
case('attention q, k, v, mask=keep {heads=4, layout="bhsd", mask="custom"}',
     sdpa(q, k, v, attn_mask=keep.bool()[:, None, None, :]), q=q, k=k, v=v, keep=keep)
k2, v2 = rand(2, 2, 6, 5), rand(2, 2, 6, 5)
case('attention q, k, v {heads=4, kv_heads=2, layout="bhsd", mask="none"}', sdpa(q, k2, v2, enable_gqa=True), q=q, k=k2,
     v=v2)
s = torch.einsum("bhqd,bhkd->bhqk", q, k) / 5 ** 0.5
case('attention q, k, v {heads=4, layout="bhsd", mask="none", softcap=1.5}',
     torch.einsum("bhqk,bhkd->bhqd", torch.softmax(1.5 * torch.tanh(s / 1.5), -1), v), q=q, k=k, v=v)


# Caches: keys from kv_len on are ignored, whatever their values. The mask depends on the position of each batch
# element.
def seen(kv_len, position, sq, sk, window=None):
    """[B,1,Sq,Sk]; position None: no causal mask."""
    k = torch.arange(sk)[None, None]
    keep = (k < torch.tensor(kv_len)[:, None, None]).expand(-1, sq, -1)
    if position is not None:
        at = torch.tensor(position)[:, None, None] + torch.arange(sq)[:, None]
        keep = keep & (k <= at)
        if window is not None:
            keep = keep & (k >= at - window)
    return keep[:, None]


def i32(*v):
    return torch.tensor(v, dtype=torch.int32).reshape(len(v) if len(v) > 1 else ())


case('attention q, k, v, kv_len=n {heads=4, layout="bhsd", mask="none"}', sdpa(q, k[:, :, :4], v[:, :, :4]), q=q, k=k,
     v=v, n=i32(4))
case('attention q, k, v, kv_len=n {heads=4, layout="bhsd", mask="none"}',
     sdpa(q, k, v, attn_mask=seen((4, 6), None, 3, 6)), q=q, k=k, v=v, n=i32(4, 6))
case('attention q, k, v, kv_len=n {heads=4, layout="bhsd", mask="causal"}',
     sdpa(q, k, v, attn_mask=seen((5, 3), (2, 0), 3, 6)), q=q, k=k, v=v, n=i32(5, 3))
case('attention q, k, v, position=p {heads=4, layout="bhsd", mask="causal"}',
     sdpa(q, k, v, attn_mask=seen((6, 6), (1, 3), 3, 6)), q=q, k=k, v=v, p=i32(1, 3))
case('attention q, k, v, position=p, kv_len=n {heads=4, layout="bhsd", mask="sliding", window=2}',
     sdpa(q, k, v, attn_mask=seen((6, 5), (2, 2), 3, 6, 2)), q=q, k=k, v=v, p=i32(2), n=i32(6, 5))
zero = sdpa(q, k, v, attn_mask=seen((6, 1), None, 3, 6))
zero[0] = 0  # no keys
case('attention q, k, v, kv_len=n {heads=4, layout="bhsd", mask="none"}', zero, q=q, k=k, v=v, n=i32(0, 1))
stale = v.clone()
stale[:, :, 4:] = float("nan")
case('attention q, k, v, kv_len=n {heads=4, layout="bhsd", mask="none"}', sdpa(q, k[:, :, :4], v[:, :, :4]), q=q, k=k,
     v=stale, n=i32(4))

# Values of another width, caches of f16 and bf16, packed rows.
wide = rand(2, 4, 6, 7)
case('attention q, k, v {heads=4, layout="bhsd", mask="none"}', sdpa(q, k, wide), q=q, k=k, v=wide)
case('attention q, k, v {heads=4, layout="bse", mask="causal"}', bse(sdpa(q, k, wide, attn_mask=lower)), q=bse(q),
     k=bse(k), v=bse(wide))
for half in (torch.float16, torch.bfloat16):
    kh, vh = k.to(half), v.to(half)
    case('attention q, k, v {heads=4, layout="bhsd", mask="none"}', sdpa(q, kh.double(), vh.double()), q=q, k=kh, v=vh)
q6, k6, v6 = rand(2, 4, 5, 3), rand(2, 2, 5, 3), rand(2, 2, 5, 3)
square = torch.ones(5, 5, dtype=torch.bool).tril()
packed = torch.cat([bse(q6), bse(k6), bse(v6)], -1)
case('attention x, x, x {head_dim=3, heads=4, kv_heads=2, layout="bse", mask="causal", packed=[0,12,18]}',
     bse(sdpa(q6, k6, v6, attn_mask=square, enable_gqa=True)), x=packed)
case('attention q, x, x {head_dim=3, heads=4, kv_heads=2, layout="bse", mask="causal", packed=[0,12,18]}',
     bse(sdpa(q6, k6, v6, attn_mask=square, enable_gqa=True)), q=bse(q6), x=packed)


# Sinks, by the gpt-oss model of Transformers.
class Module:
    num_key_value_groups, training = 2, False

    def __init__(self, sinks):
        self.sinks = sinks


sinks = rand(4)
for mask, extra in (("none", None), ("causal", lower)):
    bias = None if extra is None else torch.zeros(3, 6, dtype=torch.float64).masked_fill(~extra, float("-inf"))[None,
        None]
    y, _ = gpt_oss(Module(sinks), q, k2, v2, bias, scaling=5 ** -0.5)
    case('attention q, k, v, sinks=s {heads=4, kv_heads=2, layout="bhsd", mask="%s"}' % mask, y.transpose(1, 2),
         "transformers " + transformers.__version__,
         q=q, k=k2, v=v2, s=sinks)
y, _ = gpt_oss(Module(sinks), q, k2[:, :, :4], v2[:, :, :4], None, scaling=5 ** -0.5)
case('attention q, k, v, kv_len=n, sinks=s {heads=4, kv_heads=2, layout="bhsd", mask="none"}', y.transpose(1, 2),
     "transformers " + transformers.__version__,
     q=q, k=k2, v=v2, n=i32(4), s=sinks)


def grid_attention(qkv, pad, rh, rw, heads, window):
    """Computes one window, head and query at a time. Tokens past the grid are the row pad."""
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


for shape, heads, window in ((1, 3, 5, 12), 2, 2), ((2, 4, 4, 9), 3, 2), ((1, 5, 7, 6), 1, 3), ((1, 3, 5, 12), 2,
    0), ((2, 2, 3, 18), 2, 0), ((1, 1, 1, 6), 2, 0):
    wh, ww = (window, window) if window else shape[1:3]
    d = shape[3] // 3 // heads
    qkv, pad, rh, rw = rand(*shape), rand(shape[3]), rand(wh, wh, d), rand(ww, ww, d)
    attrs = "{heads=%d%s}" % (heads, ", window=%d" % window if window else "")
    case("grid_attention qkv, pad, rh=rh, rw=rw " + attrs, grid_attention(qkv, pad, rh, rw, heads, window), qkv=qkv,
         pad=pad, rh=rh, rw=rw)
    case("grid_attention qkv, pad " + attrs, grid_attention(qkv, pad, 0 * rh, 0 * rw, heads, window), qkv=qkv, pad=pad)
