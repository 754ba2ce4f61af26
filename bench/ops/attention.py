import torch
import torch.nn.functional as F

from peer import case, op, rand

sdpa = F.scaled_dot_product_attention


@op("attention")
def attention():
    for b, h, s, d, attrs, how in (1, 12, 512, 64, 'mask="none"', {}), (1, 16, 512, 128, 'mask="causal"',
        {"is_causal": True}), (25, 12, 196, 64, 'mask="none"', {}):
        q, k, v = rand(b, h, s, d), rand(b, h, s, d), rand(b, h, s, d)
        yield case('attention q, k, v {heads=%d, layout="bhsd", %s}' % (h, attrs), lambda: sdpa(q, k, v, **how), q=q,
                   k=k, v=v)
    q, k, v = rand(1, 16, 1, 128), rand(1, 4, 2048, 128), rand(1, 4, 2048, 128)  # one token
    yield case('attention q, k, v {heads=16, kv_heads=4, layout="bhsd", mask="none"}',
               lambda: sdpa(q, k, v, enable_gqa=True), q=q, k=k, v=v)
    for cached in (torch.float32, torch.bfloat16):  # one token with a long cache
        q, k, v = rand(1, 32, 1, 128), rand(1, 8, 8192, 128).to(cached), rand(1, 8, 8192, 128).to(cached)
        yield case('attention q, k, v {heads=32, kv_heads=8, layout="bhsd", mask="none"}',
                   lambda: sdpa(q, k.float(), v.float(), enable_gqa=True), q=q, k=k, v=v)


@op("rope")
def rope():
    for s in 1, 512:
        x, c, t = rand(1, s, 32 * 128), rand(2048, 64), rand(2048, 64)

        def peer():
            h = x.view(1, s, 32, 128)
            cos, sin = torch.cat([c[:s], c[:s]], -1)[None, :, None], torch.cat([t[:s], t[:s]], -1)[None, :, None]
            return (h * cos + torch.cat([-h[..., 64:], h[..., :64]], -1) * sin).view(1, s, -1)

        yield case('rope x, cos=c, sin=t {head_dim=128, layout="bse", style="neox"}', peer, weights=("c", "t"), x=x,
                   c=c, t=t)


@op("grid_attention")
def grid_attention():
    """Windows of SAM ViT-B, on a grid whose sides are multiples of the window. PyTorch gets the position scores as a
    mask."""
    b, side, heads, d, w = 1, 28, 12, 64, 14
    e, n = heads * d, side // w
    qkv, pad, rh, rw = rand(b, side, side, 3 * e), rand(3 * e), rand(w, w, d), rand(w, w, d)

    def peer():
        t = qkv.view(b, n, w, n, w, 3, heads, d).permute(5, 0, 1, 3, 6, 2, 4, 7).reshape(3, b * n * n, heads, w * w, d)
        q, k, v = t.unbind(0)
        g = q.view(-1, heads, w, w, d)
        bias = torch.einsum("bhyxc,ykc->bhyxk", g, rh)[..., :, None] + torch.einsum("bhyxc,xkc->bhyxk", g, rw)[...,
            None, :]
        y = sdpa(q, k, v, attn_mask=bias.reshape(-1, heads, w * w, w * w))
        return y.view(b, n, n, heads, w, w, d).permute(0, 1, 4, 2, 5, 3, 6).reshape(b, side, side, e)

    yield case("grid_attention qkv, pad, rh=rh, rw=rw {heads=12, window=14}", peer, weights=("pad", "rh", "rw"),
               qkv=qkv, pad=pad, rh=rh, rw=rw)
