"""Architectures for models.py: single layers and functions of PyTorch in unusual settings."""

import torch
from torch import nn

from shared import *

F = nn.functional


class Of(nn.Module):
    """A module that calls f with its weights' module first."""

    def __init__(self, f, **parts):
        super().__init__()
        self.parts, self.f = nn.ModuleDict(parts), f

    def forward(self, *a):
        return self.f(self.parts, *a)


def layer(f, axes, *inputs, **parts):
    def make():
        return Of(f, **{k: p() for k, p in parts.items()}).eval(), tuple(i() for i in inputs), axes

    return make


def complex_product(p, x):
    y = torch.view_as_complex(x)
    z = y * torch.polar(torch.ones(4), torch.arange(4.0))
    return torch.view_as_real(z).flatten(2)


def spectrum(p, x):
    y = torch.fft.rfft(x, norm="ortho")
    return torch.fft.irfft(y * torch.complex(torch.ones(13), torch.zeros(13)), n=24, norm="ortho")


def spectrogram(p, x):
    y = torch.stft(x, 32, 8, window=torch.hann_window(32), center=True, return_complex=True)
    return torch.view_as_real(y).pow(2).sum(-1).clamp_min(1e-5).log()


class Gate(nn.Module):
    """A branch that depends on the data."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: self.l(y).relu(), lambda y: y * 2.0 + 1.0, (x,))


class Running(nn.Module):
    """A recurrence written with scan."""

    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        return scan(lambda c, y: ((c * 0.5 + y), (c * 0.5 + y).tanh()), torch.zeros(2, 8), x)[1]


class Cells(nn.Module):
    """Cells in a Python loop."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LSTMCell(8, 16), nn.GRUCell(16, 8)

    def forward(self, x):
        h, c = torch.zeros(x.shape[1], 16), torch.zeros(x.shape[1], 16)
        g, out = torch.zeros(x.shape[1], 8), []
        for i in range(5):
            h, c = self.a(x[i], (h, c))
            g = self.b(h, g)
            out.append(g)
        return torch.stack(out)


@torch.jit.script
def looped(x: torch.Tensor, w: torch.Tensor):
    for _ in range(4):
        x = torch.tanh(x @ w)
    return x


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8) / 3)

    def forward(self, x):
        return looped(x, self.w)


def open_shapes(p, x, y):
    """Numbers that open sizes decide: a falling range below 0, last rows, some axes resized, folded patches."""
    n = x.shape[1]
    falling = torch.arange(n, -n, -2, dtype=torch.float32)[:, None] * x[:1, -3:].sum(1)
    cubic = F.interpolate(y, size=(5, 11), mode="bicubic")
    corners = F.interpolate(y, scale_factor=1.7, mode="bilinear", align_corners=True)
    return falling, cubic, corners, F.fold(F.unfold(y, 2), (4, 5), 2)


def open_images(p, x):
    """Resizes by fractions, windows that round up, and what is cut off, for images of any size."""
    return (
        F.interpolate(x, scale_factor=1.5, mode="bilinear"),
        F.interpolate(x, scale_factor=0.5, mode="bilinear"),
        F.interpolate(x, scale_factor=0.5, mode="nearest"),
        F.interpolate(x, scale_factor=1.5, mode="bicubic"),
        F.interpolate(x[:, :, ::2], size=x.shape[2:], mode="bilinear"),
        F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.max_pool2d(x, 3, 2, 1, dilation=2),
        F.pad(x, (-1, 2, 1, -2)),
        p["u"](x),
    )


class ChannelAttention(nn.Module):
    """Attention among channels, as in DaViT: the rows of the scores are those of a head, and tokens are added up."""

    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 3, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = ((k * 0.5).transpose(-1, -2) @ v).softmax(-1) @ q.transpose(-1, -2)
        return self.o(y.transpose(-1, -2).transpose(1, 2).reshape(b, n, c))


class Chosen(nn.Module):
    """A layer for the rows that a mask chooses, which are written back."""

    def __init__(self):
        super().__init__()
        self.l, self.n = nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x, mask):
        y = x * 2
        y[mask] = self.n(self.l(x[mask])).softmax(-1)
        return y


class Bags(nn.Module):
    """Sums of embeddings, which the older exporter of PyTorch makes a Loop over the bags."""

    def __init__(self):
        super().__init__()
        self.e = nn.EmbeddingBag(20, 8, mode="sum")

    def forward(self, x, starts):
        return self.e(x, starts.sort().values)


class Experts(nn.Module):
    """A mixture of experts that computes only the tokens of each, as Transformers had it."""

    def __init__(self):
        super().__init__()
        self.g, self.e = nn.Linear(6, 3), nn.ModuleList(
            [nn.Sequential(nn.Linear(6, 9), nn.SiLU(), nn.Linear(9, 6)) for _ in range(3)]
        )

    def forward(self, x):
        weights, chosen = self.g(x).softmax(-1).topk(2)
        hit, y = F.one_hot(chosen, 3).permute(2, 1, 0), torch.zeros_like(x)
        for e, layer in enumerate(self.e):
            place, row = torch.where(hit[e])
            y = y.index_add(0, row, layer(x[row]) * weights[row, place, None])
        return y


t = {0: "batch", 1: "time"}
whole = lambda n, *s: (lambda: torch.randint(0, n, s))
M = {
    "channel_attention": one(ChannelAttention, {"x": b}, r(2, 7, 12)),
    "sort_open": layer(lambda p, x: x.sort(1, descending=True), {"x": t}, r(2, 7, 3)),
    "chosen_rows": one(Chosen, {"x": t, "mask": t}, r(2, 7, 6), lambda: torch.arange(14).view(2, 7) % 3 == 1),
    "embedding_bag": one(Bags, {"x": {0: "n"}, "starts": {0: "bags"}}, whole(20, 9), lambda: torch.tensor([2, 0, 3])),
    "chosen_experts": one(Experts, {"x": {0: "rows"}}, r(7, 6)),
    "open_shapes": layer(open_shapes, {"x": t, "y": b}, r(2, 8, 3), r(2, 3, 4, 5)),
    "open_images": layer(
        open_images,
        {"x": {0: "batch", 2: "h", 3: "w"}},
        r(2, 2, 9, 12),
        u=lambda: nn.ConvTranspose2d(2, 3, 4, (2, 3), (1, 0), (1, 2)),
    ),
    "lstm_no_bias": layer(
        lambda p, x: torch.cat(p["l"](x)[1], -1),
        {"x": {1: "batch", 0: "time"}},
        r(7, 2, 8),
        l=lambda: nn.LSTM(8, 16, bias=False),
    ),
    "gru_deep": layer(
        lambda p, x, h: p["l"](x, h),
        {"x": t, "h": {1: "batch"}},
        r(2, 7, 8),
        r(6, 2, 12),
        l=lambda: nn.GRU(8, 12, 3, batch_first=True, bidirectional=True),
    ),
    "rnn_relu": layer(
        lambda p, x: p["l"](x)[0],
        {"x": t},
        r(2, 7, 8),
        l=lambda: nn.RNN(8, 12, 2, nonlinearity="relu", batch_first=True),
    ),
    "cells": one(Cells, dict(x={1: "batch"}), r(5, 2, 8)),
    "cond": one(Gate, dict(x=b), r(2, 8)),
    "scan": one(Running, dict(x={}), r(6, 2, 8)),
    "scripted_loop": one(Scripted, dict(x=b), r(2, 8)),
    "transformer_norm_first": layer(
        lambda p, x: p["t"](x),
        {"x": t},
        r(2, 7, 16),
        t=lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu"),
            2,
            enable_nested_tensor=False,
        ),
    ),
    "attention_weights": layer(
        lambda p, x: p["a"](x, x, x, average_attn_weights=False),
        {"x": t},
        r(2, 7, 16),
        a=lambda: nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True),
    ),
    "einsums": layer(
        lambda p, x, y: (
            torch.einsum("bij,bkj->bik", x, y),
            torch.einsum("bij->bj", x),
            torch.einsum("bij,bkj,bmj->bm", x, y, x),
            torch.einsum("bii->bi", x[:, :, :5]),
        ),
        {"x": b, "y": {0: "batch", 1: "n"}},
        r(2, 5, 6),
        r(2, 7, 6),
    ),
    "scatters": layer(
        lambda p, x, i: (
            torch.zeros_like(x).scatter_add(1, i, x),
            x.scatter(1, i, 2.0),
            torch.zeros_like(x).scatter_reduce(1, i, x, "amax", include_self=False),
            x.gather(1, i),
        ),
        {"x": t, "i": t},
        r(2, 7),
        whole(2, 2, 7),
    ),
    "masked": layer(
        lambda p, x: (
            x.masked_fill(x > 0, -1.0),
            torch.where(x.isnan(), torch.zeros(()), x).cumsum(1),
            x.clamp(min=-0.5),
        ),
        {"x": t},
        r(2, 7),
    ),
    "grid_samples": layer(
        lambda p, x, g: (
            F.grid_sample(x, g, mode="bicubic", padding_mode="reflection", align_corners=False),
            F.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True),
        ),
        {"x": b, "g": {0: "batch", 1: "h"}},
        r(2, 3, 9, 7),
        lambda: torch.rand(2, 5, 6, 2) * 2.4 - 1.2,
    ),
    "grid_sample_3d": layer(
        lambda p, x, g: F.grid_sample(x, g, align_corners=False),
        {"x": b, "g": b},
        r(2, 3, 5, 6, 7),
        lambda: torch.rand(2, 4, 3, 2, 3) * 2 - 1,
    ),
    "complex": layer(complex_product, {"x": t}, r(2, 7, 4, 2)),
    "fft": layer(spectrum, {"x": b}, r(2, 24)),
    "fft2": layer(lambda p, x: torch.fft.fft2(x).real, {"x": b}, r(2, 6, 8)),
    "stft": layer(spectrogram, {"x": b}, r(2, 128)),
    "resizes": layer(
        lambda p, x: (
            F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True),
            F.interpolate(x, size=(5, 11), mode="bicubic"),
            F.adaptive_avg_pool2d(x, (3, 1)),
        ),
        {"x": b},
        r(2, 3, 9, 7),
    ),
    "resize_dynamic": layer(
        lambda p, x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
        {"x": {0: "batch", 2: "h", 3: "w"}},
        r(2, 3, 9, 7),
    ),
    "antialias": layer(
        lambda p, x: F.interpolate(x, size=(5, 4), mode="bilinear", antialias=True), {"x": b}, r(2, 3, 9, 7)
    ),
    "conv_dynamic": layer(
        lambda p, x: p["c"](F.pad(p["a"](x), (1, 2, 0, 1), mode="reflect")),
        {"x": {0: "batch", 2: "h", 3: "w"}},
        r(2, 3, 17, 13),
        a=lambda: nn.Conv2d(3, 6, 3, 2, 1, bias=False),
        c=lambda: nn.Conv2d(6, 6, (3, 1), 1, "same", groups=3, dilation=2),
    ),
    "conv3d": layer(
        lambda p, x: p["u"](F.max_pool3d(p["c"](x), 2, ceil_mode=True)),
        {"x": b},
        r(2, 3, 7, 9, 5),
        c=lambda: nn.Conv3d(3, 6, 3, padding=1),
        u=lambda: nn.ConvTranspose3d(6, 4, 3, 2, 1, output_padding=1),
    ),
    "conv1d_causal": layer(
        lambda p, x: p["b"](F.elu(p["a"](F.pad(x, (4, 0))))),
        {"x": {0: "batch", 2: "time"}},
        r(2, 3, 21),
        a=lambda: nn.Conv1d(3, 8, 5),
        b=lambda: nn.Conv1d(8, 4, 3, stride=2, dilation=2, padding_mode="circular", padding=2),
    ),
    "pools": layer(
        lambda p, x: (
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.max_pool2d(x, 3, 2, 1, dilation=2),
            F.lp_pool2d(x, 2.0, 2),
            F.adaptive_max_pool2d(x, (1, 1)),
        ),
        {"x": b},
        r(2, 3, 13, 11),
    ),
    "unfold_fold": layer(
        lambda p, x: F.fold(F.unfold(x, 3, padding=1, stride=2), (9, 7), 3, padding=1, stride=2),
        {"x": b},
        r(2, 3, 9, 7),
    ),
    "pixel_shuffles": layer(
        lambda p, x: F.pixel_unshuffle(F.channel_shuffle(F.pixel_shuffle(x, 2), 2), 2) + x.roll((1, 2), (2, 3)),
        {"x": b},
        r(2, 16, 5, 7),
    ),
    "norms": layer(
        lambda p, x: (p["i"](x), p["g"](x), F.normalize(x, dim=1), F.local_response_norm(x, 3), F.rms_norm(x, (7,))),
        {"x": b},
        r(2, 6, 5, 7),
        i=lambda: nn.InstanceNorm2d(6, affine=True),
        g=lambda: nn.GroupNorm(3, 6, affine=False),
    ),
    "activations": layer(
        lambda p, x: torch.cat(
            [
                F.celu(x),
                F.selu(x),
                F.softsign(x),
                F.hardshrink(x),
                F.softshrink(x),
                F.tanhshrink(x),
                F.logsigmoid(x),
                F.glu(x),
                F.mish(x),
                F.gelu(x, approximate="tanh"),
                F.hardtanh(x),
                F.relu6(x),
                F.threshold(x, 0.1, 2.0),
                F.softmin(x, -1),
                p["p"](x),
                F.gumbel_softmax(x) * 0,
            ],
            -1,
        ),
        {"x": b},
        r(2, 8),
        p=lambda: nn.PReLU(),
    ),
    "reductions": layer(
        lambda p, x: (
            x.std(1),
            x.var(2, unbiased=False),
            x.logsumexp(1),
            x.norm(3, 1),
            x.amax((1, 2)),
            x.prod(1),
            x.argmax(1),
            (x > 0).any(1),
            (x > 0).all(2),
            x.mean((1, 2)),
        ),
        {"x": t},
        r(2, 7, 5),
    ),
    "sorts": layer(
        lambda p, x: (*x.sort(1, descending=True), *x.topk(3, 2, largest=False), x.argsort(2)), {"x": b}, r(2, 7, 5)
    ),
    "integers": layer(
        lambda p, x: (
            x // 3,
            x % 3,
            torch.remainder(x, -3),
            torch.fmod(x, 3),
            torch.div(x, 2, rounding_mode="trunc"),
            x.bitwise_and(3),
            x << 1,
            x.float() / 3,
        ),
        {"x": b},
        lambda: torch.randint(-9, 9, (2, 7)),
    ),
    "slices": layer(
        lambda p, x: (
            x[:, 1:-1:2],
            x[:, -3:],
            x.flip(1),
            x[:, None, :, 0],
            x.narrow(2, 1, 3),
            *x.chunk(2, 2),
            *x.split([1, 4], 2),
            *x.unbind(2)[:1],
        ),
        {"x": t},
        r(2, 7, 5),
    ),
    "masks": layer(
        lambda p, x: (
            torch.triu(x, 1),
            torch.tril(x, -1),
            torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()[None] & (x > 0),
        ),
        {"x": {0: "batch", 1: "n", 2: "n"}},
        r(2, 7, 7),
    ),
    "meshgrid": layer(
        lambda p, x: torch.stack(torch.meshgrid(torch.linspace(0, 1, 5), torch.arange(4.0), indexing="ij"), -1)[None]
        * x[:, None, None, :],
        {"x": b},
        r(2, 2),
    ),
    "one_hot": layer(
        lambda p, x: F.one_hot(x, 7).float() @ torch.arange(14.0).view(7, 2),
        {"x": b},
        whole(7, 3, 6),
    ),
    "matrices": layer(
        lambda p, x: (
            torch.linalg.det(x),
            torch.baddbmm(x, x, x, beta=0.5, alpha=2),
            torch.kron(x[0], x[1]),
            torch.outer(x[0, 0], x[1, 0]),
            x.diagonal(dim1=1, dim2=2),
            torch.diag_embed(x[:, 0]),
            torch.linalg.vector_norm(x, dim=1),
            x.sum(),
        ),
        {"x": {}},
        r(2, 4, 4),
    ),
    "double": layer(
        lambda p, x: F.softmax(x @ x.transpose(1, 2), -1) @ x,
        {"x": t},
        lambda: torch.randn(2, 7, 5, dtype=torch.float64),
    ),
    "half": layer(
        lambda p, x: (x @ x.transpose(1, 2)).softmax(-1),
        {"x": b},
        lambda: torch.randn(2, 7, 5, dtype=torch.float16) / 2,
    ),
    "searchsorted": layer(lambda p, x: torch.bucketize(x, torch.linspace(-1, 1, 5)), {"x": b}, r(2, 7)),
    "tiles": layer(
        lambda p, x: (
            x.repeat(1, 2, 1),
            x.repeat_interleave(2, dim=1),
            x[:, :1].expand(-1, 4, -1),
            torch.cartesian_prod(torch.arange(3), torch.arange(2)),
        ),
        {"x": t},
        r(2, 7, 5),
    ),
}
