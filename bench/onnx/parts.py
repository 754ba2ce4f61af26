"""Modules for more.py: detection, generation, graphs, caches."""

import math

import torch
from torch import nn

from shared import Wrapped


def segmentation(name):
    def make():
        import torchvision.models.segmentation as s

        m = getattr(s, name)(weights=None, weights_backbone=None, num_classes=5).eval()
        return Wrapped(m, ["x"], lambda y: y["out"]).eval(), (torch.randn(2, 3, 64, 64),), {"x": {0: "batch"}}

    def wrapped():
        m, a, axes = make()
        m.forward = lambda x: m.m(x)["out"]
        return m, a, axes

    return wrapped


class Heads(nn.Module):
    """Faster R-CNN up to its heads: the pyramid and the predictions for all anchors."""

    def __init__(self):
        super().__init__()
        import torchvision.models.detection as d

        m = d.fasterrcnn_mobilenet_v3_large_fpn(weights=None, weights_backbone=None).eval()
        self.backbone, self.head = m.backbone, m.rpn.head

    def forward(self, x):
        f = list(self.backbone(x).values())
        scores, deltas = self.head(f)
        return torch.cat([s.flatten(1) for s in scores], 1), torch.cat([s.flatten(1) for s in deltas], 1)


class RoiPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 3, 2, 1)

    def forward(self, x, boxes):
        from torchvision.ops import roi_align

        rois = torch.cat([torch.zeros_like(boxes[:, :1]), boxes.abs()], 1)
        return roi_align(self.c(x), rois, 4, 0.5, 2, True)


class Spatial(nn.Module):
    """A spatial transformer network: an affine grid that the image decides."""

    def __init__(self):
        super().__init__()
        self.c, self.l = nn.Conv2d(3, 4, 5, 4), nn.Linear(4 * 7 * 7, 6)

    def forward(self, x):
        theta = self.l(torch.relu(self.c(x)).flatten(1)).view(-1, 2, 3)
        grid = nn.functional.affine_grid(theta, list(x.shape), align_corners=False)
        return nn.functional.grid_sample(x, grid, align_corners=False)


class Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        c = lambda i, o, s: nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.SiLU())
        self.a, self.b, self.d = c(3, 8, 2), c(8, 16, 2), c(16, 32, 2)
        self.up, self.h1, self.h2 = c(48, 16, 1), nn.Conv2d(16, 27, 1), nn.Conv2d(32, 27, 1)

    def forward(self, x):
        p1 = self.b(self.a(x))
        p2 = self.d(p1)
        u = self.up(torch.cat([nn.functional.interpolate(p2, scale_factor=2.0, mode="nearest"), p1], 1))
        out = []
        for y, stride in ((self.h1(u), 4.0), (self.h2(p2), 8.0)):
            n, _, h, w = y.shape
            y = y.view(n, 3, 9, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack((gx, gy), 2).float()
            xy = (y[..., :2] * 2 - 0.5 + grid) * stride
            out.append(torch.cat([xy, (y[..., 2:4] * 2) ** 2, y[..., 4:]], -1).view(n, -1, 9))
        return torch.cat(out, 1)


class HifiGAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre = nn.utils.parametrizations.weight_norm(nn.Conv1d(20, 32, 7, 1, 3))
        self.ups = nn.ModuleList([nn.ConvTranspose1d(32, 16, 8, 4, 2), nn.ConvTranspose1d(16, 8, 4, 2, 1)])
        self.res = nn.ModuleList([nn.Conv1d(16, 16, 3, 1, 3, 3), nn.Conv1d(8, 8, 3, 1, 5, 5)])
        self.post = nn.Conv1d(8, 1, 7, 1, 3)

    def forward(self, x):
        x = self.pre(x)
        for u, r in zip(self.ups, self.res):
            x = u(nn.functional.leaky_relu(x, 0.1))
            x = x + r(nn.functional.leaky_relu(x, 0.1))
        return torch.tanh(self.post(nn.functional.leaky_relu(x)))


def timesteps(t, dim):
    f = torch.exp(-math.log(10000) * torch.arange(dim // 2).float() / (dim // 2))
    a = t[:, None].float() * f[None]
    return torch.cat([a.cos(), a.sin()], -1)


class Cross(nn.Module):
    def __init__(self, c, ctx):
        super().__init__()
        self.n, self.q, self.k, self.v, self.o = (
            nn.GroupNorm(4, c),
            nn.Linear(c, c),
            nn.Linear(ctx, c),
            nn.Linear(ctx, c),
            nn.Linear(c, c),
        )

    def forward(self, x, ctx):
        b, c, h, w = x.shape
        y = self.n(x).flatten(2).transpose(1, 2)
        heads = lambda t: t.view(b, -1, 4, c // 4).transpose(1, 2)
        a = nn.functional.scaled_dot_product_attention(heads(self.q(y)), heads(self.k(ctx)), heads(self.v(ctx)))
        return x + self.o(a.transpose(1, 2).reshape(b, h * w, c)).transpose(1, 2).reshape(b, c, h, w)


class DiffusionUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.t, self.i = nn.Sequential(nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 16)), nn.Conv2d(4, 16, 3, 1, 1)
        self.down, self.mid, self.up = nn.Conv2d(16, 32, 3, 2, 1), Cross(32, 24), nn.Conv2d(48, 16, 3, 1, 1)
        self.n, self.o = nn.GroupNorm(4, 16), nn.Conv2d(16, 4, 3, 1, 1)

    def forward(self, x, t, ctx):
        h = self.i(x) + self.t(timesteps(t, 32))[:, :, None, None]
        m = self.mid(nn.functional.silu(self.down(h)), ctx)
        u = nn.functional.interpolate(m, size=h.shape[2:], mode="nearest")
        return self.o(nn.functional.silu(self.n(self.up(torch.cat([u, h], 1)))))


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.a, self.n = nn.Conv2d(4, 32, 3, 1, 1), Cross(32, 32), nn.GroupNorm(8, 32)
        self.u, self.o = nn.Conv2d(32, 16, 3, 1, 1), nn.Conv2d(16, 3, 3, 1, 1)

    def forward(self, z):
        h = self.i(z)
        h = self.a(h, h.flatten(2).transpose(1, 2))
        return self.o(nn.functional.silu(self.u(nn.functional.interpolate(self.n(h), scale_factor=2.0))))


class GraphLayer(nn.Module):
    """A graph convolution: messages along edges, added at their targets."""

    def __init__(self):
        super().__init__()
        self.l, self.s = nn.Linear(8, 16), nn.Linear(8, 16)

    def forward(self, x, edges):
        m = self.l(x)[edges[0]]
        y = torch.zeros_like(self.s(x)).index_add(0, edges[1], m)
        return torch.relu(y + self.s(x))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.l, self.o = nn.Embedding(50, 24), nn.LSTM(24, 32, 2, batch_first=True), nn.Linear(32, 50)

    def forward(self, x, h, c):
        y, (h, c) = self.l(self.e(x), (h, c))
        return self.o(y), h, c


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.g, self.w = nn.Linear(16, 4), nn.Parameter(torch.randn(4, 16, 16) / 4)

    def forward(self, x):
        p, i = self.g(x).softmax(-1).topk(2, -1)
        y = torch.einsum("bsd,edf->bsef", x, self.w)
        return (torch.gather(y, 2, i[..., None].expand(-1, -1, -1, 16)) * p[..., None]).sum(2)


class Decoder(nn.Module):
    """A decoder of Transformers with a cache: the logits and the cache that follows."""

    def __init__(self, m, layers, cross, encoder):
        super().__init__()
        self.m, self.layers, self.cross, self.encoder = m, layers, cross, encoder

    def forward(self, ids, states, *cache):
        import transformers.cache_utils as c

        pairs = [(cache[2 * i], cache[2 * i + 1]) for i in range(self.layers)]
        try:
            own = c.DynamicCache(pairs)
        except TypeError:
            own = c.DynamicCache.from_legacy_cache(pairs)
        past = c.EncoderDecoderCache(own, c.DynamicCache()) if self.cross else own
        y = self.m(decoder_input_ids=ids, encoder_outputs=(states,), past_key_values=past, use_cache=True)
        kept = y.past_key_values.self_attention_cache
        out = []
        for layer in kept.layers:
            out += [layer.keys, layer.values]
        return (y.logits, *out)


def decoder(model, config, hidden, heads, layers, encoder_axes, **kw):
    def make():
        import transformers as t

        m = getattr(t, model)(getattr(t, config)(**kw)).eval()
        try:
            m.set_attn_implementation("eager")
        except Exception:
            pass
        cache = [torch.randn(2, heads, 5, hidden // heads) for _ in range(2 * layers)]
        args = (torch.randint(3, 90, (2, 1)), torch.randn(2, 50 if "Whisper" in model else 7, hidden), *cache)
        axes = {"ids": {0: "batch"}, "states": {0: "batch", **encoder_axes}}
        for i in range(2 * layers):
            axes[f"past_{i}"] = {0: "batch", 2: "past"}
        return Decoder(m, layers, True, hidden).eval(), args, axes

    return make
