import torch

from peer import case, op, rand


@op("top_k")
def top_k():
    for shape, k in ((8, 32000), 40), ((512, 2048), 8), ((1, 128256), 50), ((4096, 64), 2):
        # distinct elements: which of equal ones come first is open in PyTorch
        x = torch.stack([torch.randperm(shape[1]) for _ in range(shape[0])]).float()
        outs = torch.empty(shape[0], k), torch.empty(shape[0], k, dtype=torch.int64)
        yield case("top_k x {index_dtype=i64, k=%d}" % k, lambda: list(torch.topk(x, k, out=outs)), x=x)
