"""Products with quantised weights, by the Python package gguf (blocks) and PyTorch (8-bit floats)."""
import gguf
import numpy as np
import torch

from write import EXACT, TORCH, case, rand, randint, typed
import write

GGUF = "gguf 0.19.0"
types = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4".split()
halves = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "IQ4_NL": [0], "IQ4_XS": [0]}


def blocks(name, *shape):
    """Random blocks with scales below 0.25, and their values."""
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    b = write.rng.integers(0, 256, (*shape, size), dtype=np.uint8)
    for at in halves.get(name, []):
        b[..., at:at + 2] = write.rng.uniform(-0.25, 0.25, shape).astype(np.float16)[..., None].view(np.uint8)
    if name == "MXFP4":
        b[..., 0] = 120 + b[..., 0] % 8
    flat = gguf.quants.dequantize(b.reshape(-1, size), gguf.GGMLQuantizationType[name])
    return typed(name.lower(), b), torch.from_numpy(flat.astype(np.float64)).reshape(*shape[:-1], shape[-1] * values)


def round8(x):
    """x rounded to multiples of max/127 in each group of 32 elements, in float32."""
    g = x.float().reshape(*x.shape[:-1], -1, 32)
    most = g.abs().amax(-1, keepdim=True)
    steps = torch.full_like(most, 127)  # a tensor, because PyTorch replaces a division by a number by a multiplication
    d, inverse = most / steps, steps / most
    return torch.where(most == 0, 0., d.double() * torch.round(g * inverse).double()).reshape(x.shape)


for name in types:
    n = 1 if gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][0] == 256 else 3
    w, values = blocks(name, 3, n)
    x = rand(2, values.shape[-1])
    for activations, f in ("f32", lambda t: t), ("q8", round8):
        case('dequant_matmul x, w {activations="%s", scheme="packed"}' % activations, f(x) @ values.T, source=GGUF, x=x,
             w=w)
    idx = randint(0, 2, 4)
    case("dequant_rows w, idx", values[idx.long()].float(), source=GGUF, tol=EXACT, w=w, idx=idx)
for name in "Q8_0", "Q4_0", "Q5_1", "IQ4_NL", "Q4_1", "MXFP4":
    w, values = blocks(name, 3, 4, 2)
    x, idx = rand(5, 64), randint(0, 2, 5)
    for activations, f in ("f32", lambda t: t), ("q8", round8):
        case('dequant_grouped_matmul x, w, idx {activations="%s"}' % activations,
             torch.einsum("mk,mnk->mn", f(x), values[idx.long()]), source=GGUF, x=x, w=w, idx=idx)

# All values of 8-bit floats, without a scale and with a scale per column.
one, every = torch.ones(1, dtype=torch.float64), torch.arange(256, dtype=torch.uint8)[None]
scale = rand(256)
for scheme, d in ("fp8_e4m3", torch.float8_e4m3fn), ("fp8_e5m2", torch.float8_e5m2):
    values = every.view(d).double()
    case('dequant_matmul x, w {activations="f32", scheme="%s"}' % scheme, values[0], x=one, w=every)
    case('dequant_matmul x, w, scale=s {activations="f32", scheme="%s"}' % scheme, values[0] * scale, x=one, w=every,
         s=scale)


def repeat(s, block, k):
    return s.repeat_interleave(block, 0)[:k]


x, w, s, z = rand(3, 20), randint(-128, 127, 20, 5, dtype=torch.int8), rand(3, 5), rand(3, 5)
case('dequant_matmul x, w, scale=s {activations="f32", block=8, scheme="int8"}', x @ (w * repeat(s, 8, 20)), x=x, w=w,
     s=s)
case('dequant_matmul x, w, scale=s, zero=z {activations="f32", block=8, scheme="int8_asym"}',
     x @ ((w - repeat(z, 8, 20)) * repeat(s, 8, 20)), x=x, w=w, s=s, z=z)
q = randint(-8, 7, 15 * 5)
nibbles = torch.cat([q & 15, torch.zeros(1, dtype=q.dtype)])
packed, x, s = (nibbles[0::2] | nibbles[1::2] << 4).to(torch.uint8), rand(2, 15), rand(4, 5)
case('dequant_matmul x, w, scale=s {activations="f32", block=4, scheme="int4"}',
     x @ (q.reshape(15, 5) * repeat(s, 4, 15)), x=x, w=packed, s=s)
table = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
q, x, s, g = randint(0, 15, 40 * 5), rand(2, 40), randint(0, 0x7e, 3, 5, dtype=torch.uint8), torch.tensor(0.125,
    dtype=torch.float64)
values = table[q.long()].reshape(40, 5) * repeat(s.view(torch.float8_e4m3fn).double(), 16, 40) * g
case('dequant_matmul x, w, scale=s, global=g {activations="f32", scheme="nvfp4"}', x @ values, x=x,
     w=(q[0::2] | q[1::2] << 4).to(torch.uint8), s=s, g=g)

for i, name in enumerate(types):
    w, values = blocks(name, 5, 1)
    dy = rand(*[(2, 5), (5,), (1, 3, 5)][i % 3])
    case("dequant_matmul_backward dy, w", dy @ values, source=GGUF, dy=dy, w=w)
