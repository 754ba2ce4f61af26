import torch
import torch.nn.functional as F

from peer import case, op, rand


def delta(q, k, v, g, beta, state):
    """Token by token, as torch_recurrent_gated_delta_rule of Transformers. Heads come before tokens."""
    q, k, v = (x.transpose(1, 2).contiguous() for x in (q * q.shape[-1] ** -0.5, k, v))
    g, beta = g.transpose(1, 2).exp(), beta.transpose(1, 2)
    out = torch.empty_like(v)
    for t in range(q.shape[2]):
        kt = k[:, :, t, :, None]
        state = state * g[:, :, t, None, None]
        d = (v[:, :, t] - (state * kt).sum(-2)) * beta[:, :, t, None]
        state = state + kt * d[:, :, None]
        out[:, :, t] = (state * q[:, :, t, :, None]).sum(-2)
    return [out.transpose(1, 2), state]


@op("gated_delta_net")
def gated_delta_net():
    for tokens in 1, 64:
        q, v = rand(1, tokens, 32, 128), rand(1, tokens, 32, 128)
        k, g, beta = F.normalize(rand(1, tokens, 32, 128), dim=-1), -rand(1, tokens,
            32).abs(), torch.sigmoid(rand(1, tokens, 32))
        state = rand(1, 32, 128, 128)
        yield case("gated_delta_net q, k, v, g, beta, state=state", lambda: delta(q, k, v, g, beta, state), q=q, k=k,
                   v=v, g=g, beta=beta, state=state)


def scan(x, step, a, b, c, state):
    """Token by token, as the slow path of Mamba in Transformers."""
    decay, dx = torch.exp(step[..., None] * a), (step * x)[..., None] * b[:, :, None]
    out = []
    for t in range(x.shape[1]):
        state = decay[:, t] * state + dx[:, t]
        out.append((state * c[:, t, None]).sum(-1))
    return [torch.stack(out, 1), state]


@op("selective_scan")
def selective_scan():
    for tokens in 1, 128:
        x, step, a = rand(1, tokens, 4096), F.softplus(rand(1, tokens, 4096)), -rand(4096, 16).exp()
        b, c, state = rand(1, tokens, 16), rand(1, tokens, 16), rand(1, 4096, 16)
        yield case("selective_scan x, delta, a, b, c, state=state", lambda: scan(x, step, a, b, c, state), x=x,
                   delta=step, a=a, b=b, c=c, state=state)


@op("causal_conv1d")
def causal_conv1d():
    for tokens in 1, 512:
        x, w, pad = rand(1, tokens, 8192), rand(8192, 4), rand(1, 3, 8192)

        def call():
            z = torch.cat([pad, x], 1)
            return [F.silu(F.conv1d(z.mT, w[:, None], groups=8192)).mT, z[:, -3:]]

        yield case("causal_conv1d x, w, pad=pad {silu=true}", call, x=x, w=w, pad=pad)


@op("group_limited_gate")
def group_limited_gate():
    p = torch.stack([torch.randperm(256) for _ in range(512)]).float() / 256

    def call():
        best = p.view(512, 8, 32).topk(2, -1).values.sum(-1)
        mask = torch.zeros(512, 8).scatter_(1, best.topk(4, -1).indices, 1)
        picked = p.masked_fill(mask.repeat_interleave(32, 1) == 0, -float("inf")).topk(8, -1).indices
        weights = p.gather(1, picked)
        return [picked.int(), weights / (weights.sum(-1, keepdim=True) + 1e-20) * 2.5]

    # Of groups with equal sums, either side may keep another one.
    yield case("group_limited_gate p, r {groups=8, groups_kept=4, k=8, scale=2.5}", call, same=False, p=p, r=p)


@op("knn")
def knn():
    points = rand(2000, 3)
    x = torch.cdist(points, points)

    def call():
        near, index = torch.topk(x.masked_fill(torch.eye(2000, dtype=torch.bool), float("inf")), 15, largest=False)
        return [index.int(), near]

    # Equally near elements may come in another order.
    yield case("knn x {k=15}", call, same=False, x=x)
