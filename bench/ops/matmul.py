import torch
import torch.nn.functional as F

from peer import case, into, op, rand


@op("matmul")
def matmul():
    for m, k, n in (4096, 256, 768), (512, 768, 768), (512, 2048, 512), (1, 2048, 5632), (64, 768, 3072):
        x, w = rand(m, k), rand(n, k)
        yield case("matmul x, w {trans_b=true}", into(torch.matmul, x, w.T), weights=("w",), x=x, w=w)
    x, w = rand(12, 196, 64), rand(12, 64, 196)
    yield case("matmul x, w", into(torch.matmul, x, w), x=x, w=w)


@op("fused_matmul")
def fused_matmul():
    for m, k, n in (512, 768, 3072), (1024, 256, 1024):
        x, w, b, r = rand(m, k), rand(n, k) / 16, rand(n), rand(m, n)
        yield case('fused_matmul x, w, b {act="gelu", has_bias=true, trans_b=true}', lambda: F.gelu(F.linear(x, w, b)), weights=("w", "b"), x=x, w=w, b=b)
        yield case('fused_matmul x, w, b, r {has_bias=true, has_residual=true, trans_b=true}', lambda: F.linear(x, w, b) + r, weights=("w", "b"), x=x, w=w, b=b, r=r)
