"""Rotary position embedding, by Transformers' functions in float64, with the frequencies of its scalings; far positions
by mpmath."""
import mpmath
import numpy as np
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as adjacent
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as halves

from write import EXACT, case, rand, randint, typed

HF = "transformers " + transformers.__version__
LAYOUTS = {"bhsd": lambda t: t, "bshd": lambda t: t.transpose(1, 2).contiguous(),
           "bse": lambda t: t.transpose(1, 2).flatten(2)}


def rotated(x, angle, scale=1, style="neox"):
    """x [B,H,S,D]; angle [B,S,n_rot/2]."""
    n = 2 * angle.shape[-1]
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    if style == "gptj":
        y = adjacent(x[..., :n].transpose(1, 2), sin, cos).transpose(1, 2)
    else:
        y, _ = halves(x[..., :n], x[..., :n], torch.cat([cos, cos], -1), torch.cat([sin, sin], -1))
    return torch.cat([y, x[..., n:]], -1)


def positions(kind, b, s, pos):
    """The positions of all tokens, [B,S]."""
    if kind == "each":
        return pos
    return torch.as_tensor(pos).reshape(-1, 1).expand(b, 1) + torch.arange(s)


def line(x, **attrs):
    return "rope %s {%s}" % (x, ", ".join("%s=%s" % (k, '"%s"' % v if isinstance(v, str) else "%.17g" % v) for k,
                                          v in sorted(attrs.items()) if v != 0))


B, H, S, D = 2, 3, 4, 10
x = rand(B, H, S, D)
for n, style in ((D, "neox"), (D, "gptj"), (6, "neox"), (4, "gptj")):
    freq = 1 / 10000 ** (torch.arange(0, n, 2, dtype=torch.float64) / n)
    starts = randint(0, 9, B)
    each = randint(0, 12, B, S)
    for layout, order in LAYOUTS.items():
        attrs = dict(head_dim=D, n_rot=0 if n == D else n, style=style, layout=layout)
        at = positions("", B, S, 0)
        case(line("x", base=10000, **attrs), order(rotated(x, at[..., None] * freq, 1, style)), HF, x=order(x))
        at = positions("", B, S, starts)
        case(line("x, frequencies=f, position=p", factor=1.25, **attrs),
             order(rotated(x, at[..., None] * freq, 1.25, style)), HF, x=order(x), f=freq, p=starts)
        table = torch.arange(13, dtype=torch.float64)[:, None] * freq
        cos, sin = table.cos(), table.sin()
        if layout == "bse":  # rows are as long as for a head that is rotated as a whole
            wide = rand(13, D // 2 - n // 2)
            cos, sin = torch.cat([cos, wide], 1), torch.cat([sin, wide], 1)
        case(line("x, cos=c, sin=s, position=p", **attrs), order(rotated(x, each[..., None] * freq, 1, style)), HF,
             x=order(x), c=cos, s=sin, p=each)

# The scalings of published models: frequencies and a factor.
config = dict(hidden_size=64, num_attention_heads=4, head_dim=16, max_position_embeddings=256)
for kind, extra in {"llama3": dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=64),
                    "yarn": dict(factor=4.0, original_max_position_embeddings=64), "linear": dict(factor=2.0)}.items():
    c = transformers.LlamaConfig(rope_parameters=dict(rope_type=kind, rope_theta=500000.0, **extra), **config)
    freq, scale = ROPE_INIT_FUNCTIONS[kind](c, "cpu")
    x, start = rand(1, 2, 3, 16), randint(100, 200, 1).reshape(())
    at = positions("", 1, 3, start)
    case(line("x, frequencies=f, position=p", head_dim=16, style="neox", layout="bhsd",
              factor=scale if scale != 1 else 0),
         rotated(x, at[..., None] * freq.double(), scale), HF + " " + kind, x=x, f=freq, p=start)

# A part of longer rows, such as the keys in a packed q, k, v.
packed = rand(2, 4, 30)
part = packed[..., 12:24].reshape(2, 4, 3, 4).transpose(1, 2)
freq = 1 / 10000 ** (torch.arange(0, 4, 2, dtype=torch.float64) / 4)
case(line("x", base=10000, head_dim=4, heads=3, start=12, style="neox", layout="bse"),
     LAYOUTS["bse"](rotated(part, positions("", 2, 4, 0)[..., None] * freq)), HF, x=packed)

# Far positions, with angles of twenty digits more than a float64.
mpmath.mp.prec = 200
for p in (131071, 1 << 20, 2**31 - 5, -(2**31), -999999):
    x = rand(1, 2, 8)
    freq = [10000.0 ** (-i / 4) for i in range(4)]
    y = np.zeros((1, 2, 8))
    for s in range(2):
        for i, f in enumerate(freq):
            c, v = mpmath.cos((p + s) * mpmath.mpf(f)), mpmath.sin((p + s) * mpmath.mpf(f))
            a, b = float(x[0, s, i]), float(x[0, s, i + 4])
            y[0, s, i], y[0, s, i + 4] = a * c - b * v, b * c + a * v
    for dtype in ("f32", "f64"):
        case(line("x, frequencies=f, position=p", head_dim=8, style="neox", layout="bse"), y,
             "mpmath " + mpmath.__version__, tol=(1e-12, 1e-10),
             x=x, f=typed(dtype, torch.tensor(freq, dtype=torch.float64)), p=torch.tensor(p, dtype=torch.int32))

x = rand(1, 0, 8)
case(line("x", base=10000, head_dim=4, style="neox", layout="bse"), x, HF, tol=EXACT, x=x)
