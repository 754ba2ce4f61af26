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
        yield case('fused_matmul x, w, bias=b {act="gelu", trans_b=true}', lambda: F.gelu(F.linear(x, w, b)),
                   weights=("w", "b"), x=x, w=w, b=b)
        yield case('fused_matmul x, w, bias=b, residual=r {trans_b=true}', lambda: F.linear(x, w, b) + r,
                   weights=("w", "b"), x=x, w=w, b=b, r=r)


@op("dot_general", "grouped_matmul", "lora_matmul")
def products():
    a, b = rand(12, 196, 64), rand(12, 196, 64)
    yield case("dot_general a, b {a_batch=[0], a_contract=[2], b_batch=[0], b_contract=[2]}",
               into(torch.bmm, a, b.transpose(1, 2)), a=a, b=b)
    x, w = rand(256, 1024), rand(8, 1024, 1024)
    idx = torch.randint(0, 8, (256,))
    out = torch.empty(256, 1024)

    def experts():  # as PyTorch code computes mixtures of experts
        for e in range(8):
            rows = (idx == e).nonzero()[:, 0]
            out.index_copy_(0, rows, x.index_select(0, rows) @ w[e])
        return out

    yield case("grouped_matmul x, w, idx", experts, weights=("w",), x=x, w=w, idx=idx)
    x, w, a, b = rand(512, 1024), rand(1024, 1024), rand(1024, 16), rand(16, 1024)
    yield case("lora_matmul x, w, a, b {scale=0.5}", lambda: x @ w + 0.5 * ((x @ a) @ b), weights=("w", "a", "b"), x=x,
               w=w, a=a, b=b)


@op("quantize", "dequantize", "qmatmul", "qconv2d")
def quantised():
    x, scale = rand(4096, 768), torch.tensor(0.05)
    q = torch.quantize_per_tensor(x, 0.05, 3, torch.qint8)
    yield case("quantize x, scale {dtype=i8, zero=3}",
               lambda: torch.quantize_per_tensor(x, 0.05, 3, torch.qint8).int_repr(), tol=0.01, x=x, scale=scale)
    i = q.int_repr()
    yield case("dequantize i, scale {zero=3}", lambda: q.dequantize(), i=i, scale=scale)
    for m, k, n in (512, 768, 768), (1024, 256, 1024):
        x = torch.randint(-128, 128, (m, k), dtype=torch.int8)
        w = torch.randint(-128, 128, (n, k), dtype=torch.int8)
        mult = torch.tensor(0.0005)

        def call(x=x, w=w):  # PyTorch's integer product on a CPU; its quantised linear layer takes other inputs
            acc = torch._int_mm(x, w.T)
            return (acc * mult).round_().clamp_(-128, 127).to(torch.int8)

        yield case("qmatmul x, w, mult {trans_b=true}", call, tol=0.01, weights=("w", "mult"), x=x, w=w, mult=mult)
    x = torch.randint(0, 128, (1, 64, 56, 56), dtype=torch.uint8)
    w = torch.randint(-64, 64, (64, 64, 3, 3), dtype=torch.int8)
    mult = torch.tensor(0.0005)
    torch.backends.quantized.engine = "onednn" if "onednn" in torch.backends.quantized.supported_engines else "fbgemm"
    packed = torch.ops.quantized.conv2d_prepack(torch._make_per_tensor_quantized_tensor(w, 0.01, 0), None, [1, 1],
                                                [1, 1], [1, 1], 1)
    qx = torch._make_per_tensor_quantized_tensor(x, 0.05, 0)
    # The result's scale is 1, so mult is 0.05 * 0.01 / 1.
    yield case("qconv2d x, w, mult {padding=[1,1]}", lambda: torch.ops.quantized.conv2d(qx, packed, 1.0, 0).int_repr(),
               tol=0.01, weights=("w", "mult"), x=x, w=w, mult=mult)
