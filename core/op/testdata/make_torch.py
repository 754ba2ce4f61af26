"""Makes torch.json: small results of PyTorch for the reference ops to agree with.

Usage: python make_torch.py > torch.json    (made with PyTorch 2.15.0, in float64)
"""
import json
import torch
import torch.nn.functional as F

torch.manual_seed(7)
cases = []


def rand(*shape):
    return (torch.randn(*shape).double() * 64).round() / 64  # short and exact in text


def dump(t):
    return {"shape": list(t.shape), "data": [float("%.13g" % v) for v in t.reshape(-1).tolist()]}


def case(line, out, **inputs):
    """line is one op in the text form, without its type; inputs are its operands by name."""
    cases.append({"line": line, "inputs": {k: dump(v) for k, v in inputs.items()}, "out": dump(out)})


def nhwc(t):
    return t.permute(0, 2, 3, 1).contiguous()


x, w, b = rand(1, 4, 7, 6), rand(6, 2, 3, 2), rand(6)
y = F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
attrs = "dilation=[1,2], groups=2, padding=[1,2], stride=[2,1]"
case('conv2d x, w, b {%s, layout="nchw"}' % attrs, y, x=x, w=w, b=b)
case('conv2d x, w, b {%s, layout="nhwc"}' % attrs, nhwc(y), x=nhwc(x), w=w, b=b)

x, w, b = rand(1, 4, 3, 4), rand(4, 3, 2, 3), rand(6)
y = F.conv_transpose2d(x, w, b, stride=(2, 3), padding=(1, 0), output_padding=(1, 2), dilation=(2, 1), groups=2)
attrs = "dilation=[2,1], groups=2, output_padding=[1,2], padding=[1,0], stride=[2,3]"
case('conv_transpose2d x, w, b {%s, layout="nchw"}' % attrs, y, x=x, w=w, b=b)
case('conv_transpose2d x, w, b {%s, layout="nhwc"}' % attrs, nhwc(y), x=nhwc(x), w=w, b=b)

x, g, b = rand(3, 9), rand(9), rand(9)
case("layer_norm x, g, b {eps=1e-05}", F.layer_norm(x, (9,), g, b, 1e-5), x=x, g=g, b=b)
case("rms_norm x, g, b {eps=1e-05}", F.rms_norm(x, (9,), g, 1e-5) + b, x=x, g=g, b=b)
case("softmax x", F.softmax(x, 0), x=x)
case("softmax x {axis=1}", F.softmax(x, 1), x=x)
for name, f in {"gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "silu": F.silu, "relu": F.relu,
                "sigmoid": torch.sigmoid, "round": torch.round, "rsqrt": torch.rsqrt}.items():
    v = rand(11) * 3
    v = v.abs() if name == "rsqrt" else v
    case(name + " x", f(v), x=v)
case("reduce_prod x {axes=[1]}", x.prod(1), x=x)
case("pad x {after=[0,2], before=[1,3], value=0.5}", F.pad(x, (3, 2, 1, 0), value=0.5), x=x)

# Attention in PyTorch's layout [B, H, S, D].
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


qkv, pad, rh, rw = rand(1, 3, 5, 12), rand(12), rand(2, 2, 2), rand(2, 2, 2)
case("grid_attention qkv, pad, rh, rw {heads=2, window=2}", grid_attention(qkv, pad, rh, rw, 2, 2), qkv=qkv, pad=pad, rh=rh, rw=rw)
rh, rw = rand(3, 3, 2), rand(5, 5, 2)
case("grid_attention qkv, pad, rh, rw {heads=2}", grid_attention(qkv, pad, rh, rw, 2, 0), qkv=qkv, pad=pad, rh=rh, rw=rw)

print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
