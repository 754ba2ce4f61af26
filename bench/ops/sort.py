import torch

from peer import case, op, rand


@op("top_k")
def top_k():
    for shape, k in ((8, 32000), 40), ((512, 2048), 8), ((1, 128256), 50), ((4096, 64), 2):
        # distinct elements, because PyTorch does not define the order of equal ones
        x = torch.stack([torch.randperm(shape[1]) for _ in range(shape[0])]).float()
        outs = torch.empty(shape[0], k), torch.empty(shape[0], k, dtype=torch.int64)
        yield case("top_k x {index_dtype=i64, k=%d}" % k, lambda: list(torch.topk(x, k, out=outs)), x=x)


@op("sort")
def sort():
    for shape, axis in ((1, 128256), 1), ((1024, 1024), 1), ((1024, 1024), 0):
        x = rand(*shape)
        outs = torch.empty(shape), torch.empty(shape, dtype=torch.int64)
        yield case("sort x {axis=%d, index_dtype=i64}" % axis,
                   lambda: list(torch.sort(x, dim=axis, stable=True, out=outs)), x=x)


@op("sample")
def sample():
    one, u32 = torch.ones(()), torch.tensor([7, 0], dtype=torch.uint32)
    for k, p in (0, 1.0), (50, 1.0), (50, 0.95):
        x = rand(1, 151936) * 3

        def call():
            values, index = torch.sort(x, descending=True) if k == 0 and p < 1 else torch.topk(x, k) if k else (x, None)
            weights = torch.softmax(values, -1)
            if p < 1:
                weights = weights.masked_fill(torch.cumsum(weights, -1) - weights >= p, 0)
            at = torch.multinomial(weights, 1)
            return (at if index is None else index.gather(1, at))[:, 0].int()

        # PyTorch draws other random numbers.
        yield case("sample x, temperature, top_k, top_p, seed, step", call, same=False, x=x, temperature=one,
                   top_k=torch.tensor(k, dtype=torch.int32), top_p=torch.tensor(p), seed=u32, step=u32)
