import torch
import torch.nn.functional as F

from peer import case, op, packed, rand


def scales(*shape):
    return (rand(*shape).abs() / 100).bfloat16().half()  # numbers that both types can represent


def q8_0(*shape):
    """Weights in q8_0, whose blocks are an f16 scale and 32 bytes; and the scales and the bytes separately, as PyTorch
    takes them."""
    q, scale = torch.randint(-127, 128, shape, dtype=torch.int8).unflatten(-1, (-1, 32)), scales(*shape[:-1],
        shape[-1] // 32, 1)
    return packed("q8_0", torch.cat([scale.view(torch.uint8), q.view(torch.uint8)], -1)), q, scale.float()


def q4_0(n, k):
    """The same for q4_0, with values -8 to 7. The low halves of bytes hold the first half of a block, and the high
    halves the second."""
    q, scale = torch.randint(0, 16, (n, k // 32, 32), dtype=torch.uint8), scales(n, k // 32, 1)
    return packed("q4_0", torch.cat([scale.view(torch.uint8), q[..., :16] | q[..., 16:] << 4], -1)), q, scale.float()


@op("dequant_rows")
def dequant_rows():
    w, q, scale = q8_0(32000, 2048)
    for n in 1, 512:
        idx = torch.randint(0, 32000, (n,))
        yield case('dequant_rows w, idx', lambda: (q[idx] * scale[idx]).flatten(1), weights=("w",), moved=n * 2048 * 5,
                   w=w, idx=idx)


@op("dequant_matmul")
def dequant_matmul():
    line = 'dequant_matmul x, w%s {activations="f32", block=%d, scheme="%s"}'
    for m in 1, 64:  # a token, a prompt
        half = rand(m, 2048).bfloat16()
        x = half.float()
        w, q, scale = q8_0(5632, 2048)
        # PyTorch's product of bytes takes one scale for each row.
        yield case(line % ("", 0, "packed"), lambda: F.linear(x, (q * scale).flatten(1)), weights=("w",), x=x, w=w)
        # Its products with 4-bit weights are ten times slower in f32 than in bf16. So the peer computes in bf16.
        w, q, scale = q4_0(5632, 2048)
        theirs = torch._convert_weight_to_int4pack_for_cpu(q.flatten(1).int(), 1)
        pairs = torch.stack([scale[..., 0].T, torch.zeros(2048 // 32, 5632)], -1).bfloat16()  # scales and zeros
        yield case(line % ("", 0, "packed"),
                   lambda: torch.ops.aten._weight_int4pack_mm_for_cpu(half, theirs, 32, pairs).float(), tol=0.02,
                   weights=("w",), x=x, w=w)
        q, scale = torch.randint(-127, 128, (5632, 2048), dtype=torch.int8), scales(1, 5632).bfloat16()
        yield case(line % (", scale=scale", 2048, "int8"), lambda: torch._weight_int8pack_mm(half, q, scale[0]).float(),
                   tol=0.02, weights=("w", "scale"), x=x,
                   w=q.T.contiguous(), scale=scale.float())


@op("dequant_grouped_matmul")
def dequant_grouped_matmul():
    for m in 4, 256:  # the experts of a token, of a prompt
        x, idx = rand(m, 1024), torch.randint(0, 8, (m,))
        w, q, scale = q8_0(8, 1024, 1024)
        out = torch.empty(m, 1024)

        def experts():
            for e in idx.unique().tolist():
                rows = (idx == e).nonzero()[:, 0]
                out.index_copy_(0, rows, x.index_select(0, rows) @ (q[e] * scale[e]).flatten(1).T)
            return out

        yield case('dequant_grouped_matmul x, w, idx {activations="f32"}', experts, weights=("w",), x=x, w=w, idx=idx)
