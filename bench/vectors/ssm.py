"""Recurrences, the convolution before them, and ops that select experts and neighbours."""
import numpy as np
import scipy.spatial
import torch
import torch.nn.functional as F
from transformers import __version__ as transformers_version
from transformers.models.qwen3_next.modeling_qwen3_next import (
    torch_chunk_gated_delta_rule, torch_recurrent_gated_delta_rule)

import write
from write import EXACT, F32, NUMPY, SCIPY, among, case, inf, nan, rand

TRANSFORMERS = "transformers " + transformers_version


def gated_delta(b, t, groups, heads, n, m, carried):
    q, k, v = rand(b, t, groups, n), rand(b, t, groups, n, scale=0.25), rand(b, t, heads, m)
    g, beta = -rand(b, t, heads).abs(), torch.sigmoid(rand(b, t, heads))
    beta = (beta * 64).round() / 64
    inputs = {"q": q, "k": k, "v": v, "g": g, "beta": beta}
    if carried:
        inputs["state"] = rand(b, heads, n, m)
    line = "gated_delta_net q, k, v, g, beta" + ", state=state" * carried
    each = lambda x: x.repeat_interleave(heads // groups, 2)
    # S = exp(g) (1 - beta k^T k) S + beta k^T v, as matrices
    s, o = inputs.get("state", torch.zeros(b, heads, n, m).double()), []
    for i in range(t):
        kt, qt = each(k)[:, i, :, :, None], each(q)[:, i, :, None]
        bt, gt = beta[:, i, :, None, None], g[:, i, :, None, None]
        s = gt.exp() * (torch.eye(n).double() - bt * kt @ kt.mT) @ s + bt * kt @ v[:, i, :, None]
        o.append((qt @ s)[:, :, 0] / n**0.5)
    case(line, [torch.stack(o, 1) if t else v, s], **inputs)
    for f in (torch_recurrent_gated_delta_rule, torch_chunk_gated_delta_rule) if t else ():
        out, final = f(each(q).float(), each(k).float(), v.float(), g=g.float(), beta=beta.float(),
                       initial_state=inputs["state"].float() if carried else None,
                       output_final_state=True, use_qk_l2norm_in_kernel=False)
        case(line, [out.double(), final.double()], TRANSFORMERS, tol=(5e-6, 2e-5), **inputs)


gated_delta(1, 1, 1, 1, 4, 4, True)
gated_delta(2, 5, 1, 3, 3, 7, True)
gated_delta(1, 9, 2, 4, 8, 5, False)
gated_delta(1, 70, 1, 1, 4, 3, True)
gated_delta(1, 0, 1, 2, 3, 2, True)
# by hand: q = k = (1, 0), v = (2, 4), beta = 1/2, without decay and with a decay of 1/2
one = torch.tensor([1.0, 0]).double().reshape(1, 1, 1, 2)
double = lambda *v: torch.tensor(v, dtype=torch.float64)
for decay, first, start in (1, 0.5**0.5, 0), (0.5, 0.625 * 2**0.5, 1):
    case("gated_delta_net q, k, v, g, beta, state=state",
         [double(first, 2 * first).reshape(1, 1, 1, 2),
          double(first * 2**0.5, 2 * first * 2**0.5, 0, 0).reshape(1, 1, 2, 2)], "by hand", q=one, k=one,
         v=double(2, 4).reshape(1, 1, 1, 2), g=double(decay).log().reshape(1, 1, 1), beta=double(0.5).reshape(1, 1, 1),
         state=double(start, 2 * start, 0, 0).reshape(1, 1, 2, 2))


def selective_scan(b, t, c, n, carried):
    x, delta, a = rand(b, t, c), rand(b, t, c).abs(), -rand(c, n).abs()
    bm, cm = rand(b, t, n), rand(b, t, n)
    inputs = {"x": x, "delta": delta, "a": a, "b": bm, "c": cm}
    if carried:
        inputs["state"] = rand(b, c, n)
    # without recurrence: the state is a sum over earlier tokens, each times the decay since then
    time = torch.cumsum(delta, 1)
    # [b, to, from, c]
    since = (time[:, :, None] - time[:, None]).masked_fill(torch.ones(t, t).triu(1)[None, :, :, None] > 0, inf)
    decay = torch.exp(since[..., None] * a.clamp(max=-1e-300))
    s = torch.einsum("btfcn,bfc,bfn,bfc->btcn", decay, delta, bm, x)
    if carried:
        s = s + torch.exp(time[..., None] * a) * inputs["state"][:, None]
    case("selective_scan x, delta, a, b, c" + ", state=state" * carried,
         [torch.einsum("btcn,btn->btc", s, cm), s[:, -1]], **inputs)


selective_scan(1, 1, 3, 4, True)
selective_scan(2, 5, 3, 2, True)
selective_scan(1, 12, 7, 3, False)
selective_scan(2, 3, 1, 16, True)
selective_scan(1, 2, 5, 1, False)


def causal_conv1d(b, t, c, k, bias, pad, silu):
    x, w = rand(b, t, c), rand(c, k)
    inputs, attrs = {"x": x, "w": w}, []
    if bias:
        inputs["bias"] = rand(c)
    if pad:
        inputs["pad"] = rand(b, k - 1, c)
    z = torch.cat([inputs.get("pad", torch.zeros(b, k - 1, c).double()), x], 1)
    y = F.conv1d(z.mT, w[:, None], inputs.get("bias"), groups=c).mT
    if silu:
        y = F.silu(y)
        attrs.append("silu=true")
    line = "causal_conv1d x, w" + ", bias=bias" * bias + ", pad=pad" * pad + (
        " {%s}" % ", ".join(attrs) if attrs else "")
    case(line, [y, z[:, t:]], **inputs)


for k in 1, 2, 4:
    causal_conv1d(2, 5, 3, k, True, True, True)
    causal_conv1d(1, 1, 7, k, False, True, True)
    causal_conv1d(1, 2, 3, k, True, False, False)
causal_conv1d(1, 9, 5, 4, False, False, False)


def gate(tokens, experts, groups, kept, k, r=None):
    p = torch.sigmoid(rand(tokens, experts)).float().double()
    r = torch.stack([torch.randperm(experts) for _ in range(tokens)]).double() / experts if r is None else r
    scores = r.view(tokens, groups, -1)
    best = scores.topk(min(2, scores.shape[2]), -1).values.sum(-1).float()
    mask = torch.zeros(tokens, groups).scatter_(1,
                                                torch.sort(best, dim=-1, descending=True, stable=True).indices[:,
                                                    :kept], 1)
    left = r.masked_fill(mask.repeat_interleave(experts // groups, 1) == 0, -inf)
    picked = torch.sort(left, dim=-1, descending=True, stable=True).indices[:, :k]
    weights = p.gather(1, picked)
    if k > 1:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    case("group_limited_gate p, r {groups=%d, groups_kept=%d, k=%d, scale=2.5}" % (groups, kept, k),
         [picked.int(), weights * 2.5], p=p, r=r)


gate(3, 8, 4, 2, 3)
gate(2, 64, 8, 4, 8)
gate(4, 6, 6, 3, 2)
gate(5, 9, 1, 1, 1)
gate(2, 12, 3, 3, 5)
gate(3, 12, 4, 2, 4, among([0, 0.5], 3, 12))


def knn(n, k):
    """By SciPy's k-d tree. The points have no ties."""
    points = write.rng.standard_normal((n, 3))
    near, index = scipy.spatial.KDTree(points).query(points, k + 1)
    case("knn x {k=%d}" % k, [index[:, 1:].astype(np.int32), near[:, 1:]], SCIPY,
         x=scipy.spatial.distance.cdist(points, points))


def knn_numpy(x, k):
    n = len(x)
    keys = np.where(np.eye(n, dtype=bool) | np.isnan(x), inf, x)
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    near = np.take_along_axis(keys, order, 1)
    case("knn x {k=%d}" % k,
         [np.where(near == inf, n, order).astype(np.int32),
          np.where(near == inf, float(np.finfo(np.float32).max), near)], NUMPY, tol=EXACT, x=x)


knn(9, 4)
knn(30, 7)
knn(2, 1)
knn_numpy(np.ones((6, 6)), 3)
knn_numpy(write.rng.integers(0, 3, (12, 12)).astype(np.float64), 11)
knn_numpy(write.rng.choice(np.array([nan, 1, 2]), (7, 7)), 5)
