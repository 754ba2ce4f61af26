"""Functions of PyTorch for random_programs.py, and what they draw."""

import math

import torch
from torch import nn

F = nn.functional
OPS = []


class Draw:
    """What a function draws: numbers that fit its first operand."""

    def __init__(self, rng):
        self.rng, self.weights = rng, []
        self.int, self.choice, self.flip = rng.randint, rng.choice, lambda: rng.random() < 0.5

    def axis(self, x, least=1):
        axes = [i for i in range(x.dim()) if x.shape[i] >= least]
        return self.choice(axes) - self.choice((0, x.dim()))

    def axes(self, x):
        n = self.int(1, x.dim())
        return tuple(a - self.choice((0, x.dim())) for a in sorted(self.rng.sample(range(x.dim()), n)))

    def weight(self, *shape):
        self.weights.append(torch.randn(shape) / math.sqrt(max(1, math.prod(shape[1:]))))


def op(kinds, least=0, most=9, weight=1):
    """Adds a function of operands of these kinds: f, i, b (floats, integers, bool), n (not bool), a (any); same as the
    first: s (shape), t (type)."""

    def add(f):
        OPS.extend([(kinds, least, most, f)] * weight)
        return f

    return add


def simple(kinds, *functions, least=0):
    for f in functions:
        OPS.append((kinds, least, 9, lambda g, *x, f=f: f))


UNARY = """abs neg exp sin cos tan tanh sigmoid erf floor ceil round trunc frac sign relu square exp2 expm1 atan asinh
sinh cosh isnan isinf isfinite nan_to_num erfc positive""".split()
simple("f", *(getattr(torch, n) for n in UNARY))
NAMES = """gelu silu mish softplus elu selu celu hardswish hardsigmoid leaky_relu logsigmoid softsign tanhshrink
hardshrink softshrink hardtanh relu6""".split()
simple("f", *(getattr(F, n) for n in NAMES))
for n in ("log", "sqrt", "rsqrt", "reciprocal", "log2", "log10", "log1p", "acosh"):
    simple("f", lambda x, f=getattr(torch, n): f(x.abs() % 1 * 0.8 + (1.1 if f is torch.acosh else 0.1)))
simple("f", lambda x: torch.asin(x.tanh()), lambda x: torch.acos(x.tanh()), lambda x: torch.atanh(x.tanh() * 0.9))
simple("i", torch.abs, torch.neg, torch.sign, torch.bitwise_not, torch.square, lambda x: x // 3, lambda x: x % 5)
simple("i", lambda x: x % -4, lambda x: torch.fmod(x, 3), lambda x: x / 3, lambda x: x.float(), lambda x: x.bool())
simple(
    "i", lambda x: x << 1, lambda x: x >> 1, lambda x: torch.div(x, 2, rounding_mode="trunc"), lambda x: x.double()
)
simple("b", torch.logical_not, lambda x: x.int(), lambda x: x.float(), lambda x: x.sum(), lambda x: x.long() * 2 - 1)
simple(
    "f", lambda x: x.int(), lambda x: x.long(), lambda x: x > 0, lambda x: x <= -0.5, lambda x: 1 - x, lambda x: x % 1
)
simple(
    "f", lambda x: x.to(torch.float64), lambda x: x.half().float(), lambda x: x**2, lambda x: 2.0**x, lambda x: x == 0
)
simple(
    "f",
    lambda x: torch.round(x, decimals=1),
    lambda x: x // 0.7,
    lambda x: torch.remainder(x, -0.6),
    lambda x: 1 / (x * x + 1),
)
for n in ("add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "ge"):
    simple("nt", getattr(torch, n))
simple("ff", lambda x, y: x / (y.abs() + 0.5), torch.atan2, lambda x, y: torch.pow(x.abs(), y))
simple("ff", lambda x, y: torch.fmod(x, y.abs() + 0.3), lambda x, y: torch.floor_divide(x, y.abs() + 0.3))
simple("ni", lambda x, y: x * y, lambda x, y: x + y, lambda x, y: x - y)
simple("ii", torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, lambda x, y: x // (y.abs() + 1))
simple("bb", torch.logical_and, torch.logical_or, torch.logical_xor, lambda x, y: x & ~y)
simple("bnt", torch.where, lambda c, x, y: torch.where(c, x, y * 2))
simple("nb", lambda x, m: x.masked_fill(m, 2), lambda x, m: x * m)
simple("fff", lambda x, y, z: torch.lerp(x, y, z), lambda x, y, z: torch.addcmul(x, y, z, value=0.5))
simple(
    "f", lambda x: torch.stack([x, x * 2], -1), lambda x: x.flatten(), lambda x: x.sum(), lambda x: x.mean(), least=1
)


@op("n", 1, weight=4)
def reduce(g, x):
    a, k = g.axes(x), g.flip()
    f = g.choice(("sum", "mean", "amax", "amin", "logsumexp", "std", "var", "norm", "prod", "any", "argmax", "all"))
    if f in ("prod", "any", "argmax", "all"):
        return lambda x: getattr(x, f)(a[0], keepdim=k)
    if f in ("std", "var"):
        return lambda x: getattr(x, f)(a, unbiased=False, keepdim=k)
    if f == "norm":
        p = g.choice((1, 2, 3, math.inf))
        return lambda x: torch.linalg.vector_norm(x, p, a, k)
    return lambda x: getattr(x, f)(a, k)


@op("f", 1, weight=4)
def along(g, x):
    a, n = g.axis(x), g.choice(("softmax", "log_softmax", "cumsum", "cumprod", "sort", "argsort", "flip", "cummax"))
    d = g.flip()
    if n in ("sort", "argsort"):
        return lambda x: getattr(x, n)(dim=a, descending=d)
    return lambda x: getattr(x, n)(a)


@op("n", 1)
def top(g, x):
    a = g.axis(x)
    k, largest = g.int(1, x.shape[a]), g.flip()
    return lambda x: x.topk(k, a, largest)


@op("a", 1, weight=6)
def move(g, x):
    n = g.choice(
        ("permute", "transpose", "unsqueeze", "squeeze", "roll", "flip", "movedim", "unflatten", "flatten", "swap")
    )
    a, k = g.axis(x), g.axis(x)
    if n == "permute":
        p = g.rng.sample(range(x.dim()), x.dim())
        return lambda x: x.permute(p)
    if n == "unsqueeze":
        return lambda x: x.unsqueeze(a)
    if n == "roll":
        s = g.int(-3, 3)
        return lambda x: x.roll(s, a)
    if n == "unflatten":
        d = g.choice([d for d in range(1, x.shape[a] + 1) if x.shape[a] % d == 0])
        return lambda x: x.unflatten(a, (-1, d))
    if n == "flatten":
        lo = g.int(0, x.dim() - 1)
        return lambda x: x.flatten(lo)
    if n == "movedim":
        return lambda x: x.movedim(a, k)
    return {"squeeze": lambda x: x.squeeze(a), "flip": lambda x: x.flip(a)}.get(n, lambda x: x.transpose(a, k))


@op("a", 1, weight=6)
def cut(g, x):
    a = g.axis(x)
    d, size = a % x.dim(), x.shape[a]
    lo, hi, step = g.int(-size, size), g.choice((None, size, -1, size // 2 + 1, 1000)), g.int(1, 3)
    index = (slice(None),) * d
    return g.choice(
        (
            lambda x: x[index + (slice(lo, hi, step),)],
            lambda x: x[index + (-1,)],
            lambda x: x[index + (None, 0)],
            lambda x: x.narrow(a, 0, max(1, size // 2)),
            lambda x: x.chunk(2, a),
            lambda x: x.split(2, a),
            lambda x: x[..., -1:],
            lambda x: x.unbind(a)[0],
            lambda x: x.select(a, -1),
        )
    )


@op("n", 1, weight=3)
def repeat(g, x):
    a, k = g.axis(x), g.int(2, 3)
    times = [g.int(1, 2) for _ in range(x.dim() + g.int(0, 1))]
    return g.choice(
        (
            lambda x: x.repeat(times),
            lambda x: x.repeat_interleave(k, a),
            lambda x: torch.cat([x, x], a),
            lambda x: torch.stack([x, x], a),
            lambda x: x.unsqueeze(a).expand(*x.shape[: a % x.dim()], k, *x.shape[a % x.dim() :]),
            lambda x: torch.tile(x, tuple(times)),
        )
    )


@op("nst", 1, weight=2)
def join(g, x, y):
    a = g.axis(x)
    return g.choice((lambda x, y: torch.cat([x, y], a), lambda x, y: torch.stack([y, x], a)))


@op("f", 2, weight=3)
def pad(g, x):
    mode = g.choice(("constant", "reflect", "replicate", "circular"))
    p = [g.int(-1 if mode == "constant" else 0, 2) for _ in range(2 * (1 if mode == "constant" else x.dim() - 2))]
    return lambda x: F.pad(x, p, mode)


@op("n", 1, weight=3)
def index(g, x):
    a = g.axis(x)
    i = torch.tensor([g.int(0, x.shape[a] - 1) for _ in range(g.int(1, 4))])
    d = (slice(None),) * (a % x.dim())
    value = g.int(-2, 2)

    def put(x):
        y = x.clone()
        y[d + (i,)] = value
        return y

    return g.choice(
        (
            lambda x: x.index_select(a, i),
            lambda x: x[d + (i[:, None],)],
            put,
            lambda x: x.index_fill(a, i, value),
            lambda x: x.index_add(a, i, x.index_select(a, i)),
            lambda x: x.index_copy(a, i.unique(), x.index_select(a, i.unique())),
        )
    )


@op("f", 1, weight=3)
def gather(g, x):
    a = g.axis(x)
    r = g.choice(("sum", "amax", "amin", "prod", "mean"))
    where = lambda x: x.argsort(a)
    return g.choice(
        (
            lambda x: x.gather(a, where(x)),
            lambda x: x.take_along_dim(where(x), a),
            lambda x: x.scatter(a, where(x), 1.5),
            lambda x: torch.zeros_like(x).scatter_add(a, where(x) // 2, x),
            lambda x: x.scatter_reduce(a, where(x) // 2, x * 0.5, r, include_self=g_false),
        )
    )


g_false = False


@op("f", 2, weight=3)
def linear(g, x):
    n = g.int(1, 9)
    g.weight(n, x.shape[-1])
    if g.flip():
        return lambda x, w: F.linear(x, w)
    return lambda x, w: x @ w.mT


@op("ff", 2, weight=3)
def product(g, x, y):
    return g.choice(
        (
            torch.matmul,
            lambda x, y: x @ y.mT,
            lambda x, y: torch.einsum("...ij,...kj->...ik", x, y),
            torch.cdist,
            lambda x, y: torch.einsum("...ij,...ij->...j", x, y),
            lambda x, y: torch.softmax(x @ y.mT, -1) @ y,
            lambda x, y: torch.tensordot(x, y, ([-1], [-1])),
        )
    )


@op("fss", 3, weight=2)
def attention(g, q, k, v):
    c = g.flip()
    return g.choice(
        (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=c),
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, (q @ k.mT) > -1, scale=0.3),
        )
    )


@op("f", 2, weight=4)
def norm(g, x):
    c = x.shape[1]
    groups = g.choice([d for d in range(1, c + 1) if c % d == 0])
    n = g.int(1, 2)
    return g.choice(
        (
            lambda x: F.layer_norm(x, x.shape[-n:]),
            lambda x: F.rms_norm(x, x.shape[-1:]),
            lambda x: F.group_norm(x, groups),
            lambda x: F.instance_norm(x),
            lambda x: F.normalize(x, dim=-1),
            lambda x: F.local_response_norm(x, 3),
            lambda x: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt(),
            lambda x: F.batch_norm(x, torch.zeros(c), torch.full((c,), 2.0)),
        )
    )


@op("f", 3, 5, weight=5)
def conv(g, x):
    n, c = x.dim() - 2, x.shape[1]
    groups = g.choice([d for d in range(1, c + 1) if c % d == 0])
    out, k = groups * g.int(1, 3), [g.int(1, 3) for _ in range(n)]
    kw = dict(stride=g.int(1, 2), dilation=g.int(1, 2), groups=groups, padding=g.int(0, 2))
    if g.flip():
        g.weight(out, c // groups, *k)
        return lambda x, w: (F.conv1d, F.conv2d, F.conv3d)[n - 1](x, w, **kw)
    g.weight(c, out // groups, *k)
    return lambda x, w: (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1](x, w, **kw)


@op("f", 3, 5, weight=4)
def pool(g, x):
    n = x.dim() - 2
    k, s, ceil, p = g.int(2, 3), g.int(1, 3), g.flip(), g.int(0, 1)
    f = lambda name: getattr(F, f"{name}{n}d")
    size = [g.int(1, 3) for _ in range(n)]
    return g.choice(
        (
            lambda x: f("max_pool")(x, k, s, p, ceil_mode=ceil),
            lambda x: f("avg_pool")(x, k, s, p, ceil, g_false),
            lambda x: f("avg_pool")(x, k, s, p, ceil),
            lambda x: f("adaptive_avg_pool")(x, size),
            lambda x: f("adaptive_max_pool")(x, size),
        )
    )


@op("f", 3, 5, weight=3)
def resize(g, x):
    n = x.dim() - 2
    modes = ["nearest", "nearest-exact", ["linear", "bilinear", "trilinear"][n - 1]] + ["bicubic"] * (n == 2)
    kw = dict(mode=g.choice(modes))
    if "linear" in kw["mode"] or kw["mode"] == "bicubic":
        kw["align_corners"] = g.flip()
    if g.flip():
        return lambda x: F.interpolate(x, size=[5] * n, **kw)
    s = g.choice((2.0, 1.5, 0.7, 3.0))
    return lambda x: F.interpolate(x, scale_factor=s, **kw)


@op("f", 4, 4, weight=3)
def image(g, x):
    return g.choice(
        (
            lambda x: F.unfold(x, 2, padding=1),
            lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
            lambda x: F.channel_shuffle(x, x.shape[1]),
            lambda x: F.grid_sample(
                x, x[:, :1].expand(-1, 2, -1, -1).permute(0, 2, 3, 1).tanh(), align_corners=False
            ),
            lambda x: F.grid_sample(x, torch.stack([x[:, 0].tanh(), x[:, -1].sin()], -1), "nearest", "border", True),
            lambda x: x.unfold(2, 2, 1).mean(-1),
            lambda x: x * F.adaptive_avg_pool2d(x, 1).sigmoid(),
            lambda x: F.pixel_unshuffle(x.repeat(1, 1, 2, 2), 2),
            lambda x: x * x.new_ones(x.shape[1])[:, None, None],
            lambda x: F.lp_pool2d(x, 2.0, 2),
        )
    )


@op("f", 2, weight=3)
def masks(g, x):
    k = g.int(-1, 1)
    return g.choice(
        (
            lambda x: x.tril(k),
            lambda x: x.triu(k),
            lambda x: x.diagonal(dim1=-2, dim2=-1),
            lambda x: torch.diag_embed(x),
            lambda x: x + torch.arange(x.shape[-1]) * 0.1,
            lambda x: x * torch.linspace(0, 1, x.shape[-1]),
            lambda x: x.masked_fill(torch.ones(x.shape[-2], x.shape[-1]).triu(1).bool(), -math.inf).softmax(-1),
            lambda x: x + torch.eye(x.shape[-2], x.shape[-1]),
            lambda x: x + torch.full((x.shape[0], 1), 0.5) if x.dim() == 2 else x,
            lambda x: torch.meshgrid(torch.arange(x.shape[0]), torch.arange(x.shape[1]), indexing="ij")[1] * 0.5,
            lambda x: torch.outer(x[..., 0].flatten(), x.flatten()[:3]),
        )
    )


@op("f", 1, weight=2)
def numbers(g, x):
    lo, hi = sorted((g.rng.uniform(-1, 1), g.rng.uniform(-1, 1)))
    return g.choice(
        (
            lambda x: x.clamp(lo, hi),
            lambda x: x.clamp(min=lo),
            lambda x: x.clamp_max(hi),
            lambda x: torch.bucketize(x, torch.linspace(-1, 1, 5)),
            lambda x: F.threshold(x, lo, hi),
            lambda x: x.new_zeros(x.shape) + lo,
            lambda x: torch.full_like(x, hi),
            lambda x: x * x.shape[0],
            lambda x: x / x.numel() ** 0.5,
            lambda x: F.glu(torch.cat([x, x], -1)),
            lambda x: F.gelu(x, approximate="tanh"),
            lambda x: x.view(-1, x.shape[-1]),
            lambda x: x.reshape(x.shape[0], -1),
            lambda x: F.one_hot(x.abs().long() % 4, 5),
        )
    )


@op("i", 1, weight=3)
def embedding(g, x):
    if g.flip():
        g.weight(7, g.int(1, 6))
        return lambda x, w: F.embedding(x.abs() % 7, w)
    return g.choice(
        (lambda x: F.one_hot(x.long() % 4, 5), lambda x: x.cumsum(-1), lambda x: x.amax(-1), lambda x: x.sum(0))
    )


@op("f", 1, weight=1)
def spectrum(g, x):
    return g.choice(
        (
            lambda x: torch.fft.rfft(x, norm="ortho").abs(),
            lambda x: torch.view_as_real(torch.fft.fft(x)),
            lambda x: torch.fft.fft2(x).real if x.dim() > 1 else x,
        )
    )


@op("f", 2, 3, weight=1)
def recurrent(g, x):
    cell, n, b = g.choice((nn.LSTM, nn.GRU, nn.RNN)), g.int(2, 5), g.flip()
    m = cell(x.shape[-1], n, bidirectional=b)
    if x.dim() == 2:
        return lambda x: m(x.unsqueeze(1))[0]
    return lambda x: m(x)[0]


@op("b", 1, weight=1)
def chosen(g, x):
    return g.choice(
        (lambda x: x.nonzero(), lambda x: x.any(-1), lambda x: x.long().cumsum(0), lambda x: x.float().argmax(-1))
    )
