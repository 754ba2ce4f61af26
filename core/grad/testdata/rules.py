"""Writes rules.json: single ops in text form, with the gradients that PyTorch's autograd computes in float64.

    python3 core/grad/testdata/rules.py        (PyTorch 2; any version gives the same numbers to 1e-12)

They are the ops whose gradients have no op of their own in bench/vectors. The loss is the sum of the results times
random weights.
"""
import json
import os

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.manual_seed(11)
out = []
rand = lambda *shape: (torch.randn(shape) * 64).round() / 64


def kind(x):
    return f"f64[{','.join(map(str, x.shape))}]"


def case(line, f, trained=None, /, **inputs):
    """f computes the results of line, an op in text form without results and types."""
    x = {n: v.clone().requires_grad_() for n, v in inputs.items()}
    ys = f(*x.values())
    ys = ys if isinstance(ys, (list, tuple)) else [ys]
    lines = [f"{n} = input : {kind(v)}" for n, v in x.items()]
    lines.append(", ".join(f"y{k}" for k in range(len(ys))) + f" = {line} : " + ", ".join(map(kind, ys)))
    loss, total = None, torch.zeros(())
    values = {n: v.detach() for n, v in x.items()}
    for k, y in enumerate(ys):
        w = rand(*y.shape)
        values[f"w{k}"] = w
        total = total + (w * y).sum() if y.requires_grad else total
        axes = ",".join(map(str, range(y.dim())))
        lines += [f"w{k} = input : {kind(w)}", f"p{k} = mul y{k}, w{k} : {kind(y)}",
                  f"s{k} = reduce_sum p{k} {{axes=[{axes}]}} : f64[]" if y.dim() else f"s{k} = copy p{k} : f64[]"]
        if not y.requires_grad:
            continue
        if loss is None:
            loss = f"s{k}"
        else:
            lines.append(f"t{k} = add {loss}, s{k} : f64[]")
            loss = f"t{k}"
    wrt = trained or list(x)
    grads = torch.autograd.grad(total, [x[n] for n in wrt], allow_unused=True)
    grads = [torch.zeros_like(x[n]) if g is None else g for n, g in zip(wrt, grads)]
    lines.append(f"{', '.join('d' + n for n in wrt)} = grad({loss}; {', '.join(wrt)}) : " +
                 ", ".join(kind(x[n]) for n in wrt))
    lines.append(f"return loss={loss}, " + ", ".join(f"d{n}=d{n}" for n in wrt))
    flat = lambda v: v.detach().reshape(-1).tolist()
    out.append({"text": lines, "loss": total.item(), "inputs": {n: flat(v) for n, v in values.items()},
                "gradients": {n: flat(g) for n, g in zip(wrt, grads)}})


# Scans. PyTorch's are inclusive, from the first element on.
def scan(f, x, axis, exclusive, reverse):
    x = x.flip(axis) if reverse else x
    if exclusive:
        n = x.shape[axis]
        start = torch.full_like(x.narrow(axis, 0, 1), 1.0 if f is torch.cumprod else -9)
        x = torch.cat([start, x.narrow(axis, 0, n - 1)], axis)
    y = f(x, axis)
    y = y if f is torch.cumprod else y[0]
    return y.flip(axis) if reverse else y


for exclusive in False, True:
    for reverse in False, True:
        for axis, shape in (0, (6,)), (1, (2, 7, 3)), (0, (1, 3)):
            attrs = f"{{axis={axis}, exclusive={str(exclusive).lower()}, reverse={str(reverse).lower()}}}"
            x = rand(*shape)
            x[torch.rand(shape) < 0.2] = 0  # products with no, one and several zeros
            case(f"cumprod x {attrs}", lambda x: scan(torch.cumprod, x, axis, exclusive, reverse), x=x)
            if not exclusive:  # an exclusive one begins with -Inf
                x = (rand(*shape) * 2).round()  # with ties
                case(f"cummax x {attrs}", lambda x: scan(torch.cummax, x, axis, False, reverse), x=x)


# Transforms
def blocks(z):
    return torch.cat([z.real, z.imag], -1)


def numbers(x):
    n = x.shape[-1] // 2
    return torch.complex(x[..., :n], x[..., n:])


for n in 1, 2, 5, 8, 12:
    for norm, forward, inverse in ("none", "backward", "forward"), ("inverse", "backward", "backward"), ("ortho", "ortho",
                                                                                                      "ortho"):
        case(f'fft x {{norm="{norm}"}}', lambda x: blocks(torch.fft.fft(numbers(x), norm=forward)), x=rand(2, 2 * n))
        case(f'ifft x {{norm="{norm}"}}', lambda x: blocks(torch.fft.ifft(numbers(x), norm=inverse)), x=rand(2, 2 * n))
        case(f'rfft x {{norm="{norm}"}}', lambda x: blocks(torch.fft.rfft(x, norm=forward)), x=rand(3, n))
        case(f'irfft x {{n={n}, norm="{norm}"}}', lambda x: torch.fft.irfft(numbers(x), n, norm=inverse),
             x=rand(2, 2 * (n // 2 + 1)))
for pad in "none", "reflect", "constant":
    center = pad != "none"
    case(f'stft x, w {{hop=3, pad="{pad}", norm="none"}}',
         lambda x, w: blocks(torch.stft(x, 8, 3, 8, w, center=center, pad_mode=pad if center else "reflect",
                                        return_complex=True).transpose(-1, -2)), x=rand(2, 19), w=rand(8))


# A product under a window
def pooled(x, kernel, stride, padding):
    x = F.pad(x, (padding, padding, padding, padding), value=1.0)
    return x.unfold(2, kernel, stride).unfold(3, kernel, stride).flatten(4).prod(-1)


for kernel, stride, padding in (2, 2, 0), (3, 1, 1), (3, 2, 2):
    x = rand(2, 2, 5, 6)
    x[torch.rand(x.shape) < 0.1] = 0
    case(f'pool x {{kind="prod", kernel=[{kernel},{kernel}], stride=[{stride},{stride}], padding=[{padding},{padding}], '
         f'layout="nchw"}}', lambda x: pooled(x, kernel, stride, padding), x=x)


# Recurrences
def selective(x, delta, a, b, c, s=None):
    s = torch.zeros(x.shape[0], x.shape[2], a.shape[1]) if s is None else s
    ys = []
    for t in range(x.shape[1]):
        s = torch.exp(delta[:, t, :, None] * a) * s + (delta[:, t] * x[:, t])[..., None] * b[:, t, None]
        ys.append((s * c[:, t, None]).sum(-1))
    return torch.stack(ys, 1), s


def gated(q, k, v, g, beta, s=None):
    heads, n = v.shape[2], q.shape[3]
    each = lambda x: x.repeat_interleave(heads // x.shape[2], 2)
    q, k = each(q), each(k)
    s = torch.zeros(v.shape[0], heads, n, v.shape[3]) if s is None else s
    os_ = []
    for t in range(q.shape[1]):
        decay = g[:, t].exp()[..., None]
        d = beta[:, t, :, None] * (v[:, t] - decay * torch.einsum("bhn,bhnm->bhm", k[:, t], s))
        s = decay[..., None] * s + k[:, t][..., None] * d[:, :, None]
        os_.append(torch.einsum("bhn,bhnm->bhm", q[:, t], s) / n ** 0.5)
    return torch.stack(os_, 1), s


for tokens in 1, 4, 300:  # long ones are loops with checkpoints
    carried = tokens != 4
    b, c, n = (1, 2, 2) if tokens > 4 else (2, 5, 3)
    inputs = dict(x=rand(b, tokens, c), delta=rand(b, tokens, c).abs(), a=-rand(c, n).abs(), b=rand(b, tokens, n),
                  c=rand(b, tokens, n))
    if carried:
        inputs["s"] = rand(b, c, n)
    case("selective_scan x, delta, a, b, c" + ", state=s" * carried, selective, **inputs)
    groups, heads, n, m = (1, 1, 2, 2) if tokens > 4 else (2, 4, 3, 5)
    inputs = dict(q=rand(b, tokens, groups, n), k=rand(b, tokens, groups, n) / 4, v=rand(b, tokens, heads, m),
                  g=-rand(b, tokens, heads).abs(), beta=rand(b, tokens, heads).sigmoid())
    if carried:
        inputs["s"] = rand(b, heads, n, m)
    case("gated_delta_net q, k, v, g, beta" + ", state=s" * carried, gated, **inputs)


# log_mel, whose floor counts as a constant
def log_mel(x, f):
    p = x[..., :f.shape[1]] ** 2 + x[..., x.shape[-1] // 2:][..., :f.shape[1]] ** 2
    m = (p @ f.T).clamp(min=1e-10).log10()
    return (torch.maximum(m, (m.amax(-1, keepdim=True) - 8).detach()) + 4) / 4


case('log_mel x, f {floor_scope="frame"}', log_mel, x=rand(2, 3, 10), f=rand(4, 5).abs() + 1 / 64)
case('log_mel x, f {floor_scope="frame"}', log_mel, x=rand(8), f=rand(3, 4).abs() + 1 / 64)


# Linear equations
for shape, right in ((1, 1), (1, 2)), ((4, 4), (4,)), ((2, 3, 3), (2, 3, 2)), ((2, 3, 3), (2, 3)):
    case("dense_solve a, b", torch.linalg.solve, a=rand(*shape) + 3 * torch.eye(shape[-1]), b=rand(*right))


# Fake quantization
class Straight(torch.autograd.Function):
    """y forward, and dy times by backward"""

    @staticmethod
    def forward(ctx, x, y, by):
        ctx.save_for_backward(by)
        return y.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.saved_tensors[0], None, None


def fake(x, s, q, ste):
    u = x / s
    by = {"identity": torch.ones_like(x), "clipped": (x.abs() <= q * s).double(), "tanh": 1 - torch.tanh(u) ** 2,
          "hardtanh": (1 - u.abs() / q).clamp(min=0)}[ste].detach()
    return Straight.apply(x, (u.round().clamp(-q, q) * s).detach(), by), s.detach()


for bits, ste in (8, "identity"), (4, "clipped"), (2, "tanh"), (4, "hardtanh"):
    q = 2 ** (bits - 1) - 1
    case(f'fake_quantize x {{bits={bits}, scale="batch", ste="{ste}"}}', lambda x: fake(x, x.abs().max() / q, q, ste),
         x=rand(3, 7))
    case(f'fake_quantize x, scale=s {{bits={bits}, scale="fixed", ste="{ste}", channels=true, axis=1}}',
         lambda x, s: (lambda y, _: (y, s.detach()))(*fake(x, s[:, None], q, ste)), ["x"], x=rand(2, 3, 5),
         s=rand(3).abs() / q + 0.0157)


def lsq(x, s, q, factor):
    s = s * factor + (s - s * factor).detach()
    u = (x / s).clamp(-q, q)
    return (u + (u.round() - u).detach()) * s


for bits in 8, 4, 2:
    q = 2 ** (bits - 1) - 1
    case(f"fake_quantize_lsq x, s {{bits={bits}}}", lambda x, s: lsq(x, s, q, (q * x.numel()) ** -0.5), x=rand(3, 7),
         s=torch.tensor(0.5001 / q))
    case(f"fake_quantize_lsq x, s {{bits={bits}, axis=1, factor=1.0}}", lambda x, s: lsq(x, s, q, 1), x=rand(3, 7),
         s=(rand(7).abs() + 0.5001) / q)


# Recurrences of odd sizes, with one head, several and shared keys; no and one element
for b, tokens, groups, heads, n, m, carried in ((3, 7, 3, 3, 7, 9, True), (1, 17, 1, 5, 1, 3, False),
                                               (2, 33, 2, 6, 5, 1, True), (1, 65, 1, 1, 3, 2, False), (1, 0, 1, 2, 3, 2, True),
                                               (0, 3, 1, 1, 2, 2, True)):
    inputs = dict(q=rand(b, tokens, groups, n), k=rand(b, tokens, groups, n) / 4, v=rand(b, tokens, heads, m),
                  g=-rand(b, tokens, heads).abs(), beta=rand(b, tokens, heads).sigmoid())
    if carried:
        inputs["s"] = rand(b, heads, n, m)
    case("gated_delta_net q, k, v, g, beta" + ", state=s" * carried,
         gated if tokens else lambda q, k, v, g, beta, s: (v * 1, s * 1), **inputs)

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules.json")
with open(path, "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(g) for g in out) + "\n]\n")
