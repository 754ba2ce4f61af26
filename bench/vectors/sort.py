"""Ops that order elements. A stable sort of -x puts the largest first, equal elements (also 0 and -0) in the order of
their indices, and NaN last."""
import numpy as np
import torch

import write
from write import NUMPY, case, inf, nan, typed

rng = write.rng


def top_k(x, k):
    keys = -x.astype(np.float64) if x.dtype.kind == "f" else -x.astype(np.int64)
    indices = np.argsort(keys, axis=-1, kind="stable")[..., :k]
    values = np.take_along_axis(x, indices, axis=-1)
    for name in "", "i32", "i64", "u32", "f32":
        attrs = "{index_dtype=%s, k=%d}" % (name, k) if name else "{k=%d}" % k
        index = typed(name or "i32", indices.astype(np.float64) if name == "f32" else indices)
        case("top_k x " + attrs, [values, index], NUMPY, bits=True, x=x)


def pick(pool, shape, dtype=np.float32):
    return rng.choice(np.array(pool, dtype), shape)


def normal(*shape):
    return (rng.standard_normal(shape) * 64).round().astype(np.float32) / 64


top_k(rng.permutation(51).reshape(3, 17).astype(np.float32) / 4, 5)
top_k(normal(2, 9), 9)
top_k(normal(2, 3, 11), 1)
top_k(normal(2, 700), 40)
top_k(pick([1, 2, 3], (4, 50)), 20)
top_k(np.full((1, 30), 2.5, np.float32), 30)
top_k(pick([0.0, -0.0], (3, 12)), 12)
top_k(pick([0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40], (3, 24)), 24)
top_k(pick([nan, 1, 2], (4, 16)), 16)
top_k(pick([nan, inf, -inf, 0, -0.0, 1, -1], (6, 40)), 40)
top_k(pick([nan, nan, nan, nan, -inf], (5, 12)), 4)
top_k(np.full((1, 7), nan, np.float32), 3)
top_k(normal(3, 33).astype(np.float16), 8)
top_k(pick([nan, inf, -inf, 0, -0.0, 1, 6e-8, -6e-8], (4, 40), np.float16), 40)
top_k(rng.integers(-(2**31), 2**31, (3, 20), np.int32), 6)
top_k(pick([-(2**31), -1, 0, 1, 2**31 - 1], (4, 30), np.int32), 30)
top_k(pick([0, 1, 2**31, 2**32 - 1], (3, 18), np.uint32), 18)


def sort(x, axis, descending=False):
    """x must have neither NaN nor zeros of both signs, because torch orders these differently."""
    values, indices = torch.sort(x, dim=axis, descending=descending, stable=True)
    attrs = "{axis=%d, descending=true}" % axis if descending else "{axis=%d}" % axis
    case("sort x " + attrs, [values, indices.int()], tol=write.EXACT, x=x)


def sort_numpy(x, descending=False):
    """Sorts the last axis, where NaN is less than all numbers: it comes first, or last if the order is descending."""
    keys = np.where(np.isnan(x), -inf, x.astype(np.float64))
    keys = np.lexsort((np.broadcast_to(np.arange(x.shape[-1]), x.shape), -keys if descending else keys,
                       ~np.isnan(x) != descending))
    case("sort x {axis=%d, descending=%s}" % (x.ndim - 1, str(descending).lower()),
         [np.take_along_axis(x, keys, -1), typed("i32", keys)], NUMPY, bits=True, x=x)


for descending in False, True:
    sort(write.rand(7), 0, descending)
    sort(write.rand(3, 17), 1, descending)
    sort(write.rand(17, 3), 0, descending)
    sort(write.rand(2, 9, 5), 1, descending)
    sort(write.randint(0, 3, 3, 33), 1, descending)
    sort(write.randint(-9, 9, 33, dtype=torch.int64), 0, descending)
    sort(write.randint(-9, 9, 5, 9, dtype=torch.int8), 1, descending)
    sort(write.rand(4, 11).half(), 1, descending)
    sort(write.rand(4, 11).bfloat16(), 1, descending)
    sort(torch.empty(0, 3), 0, descending)
    sort_numpy(pick([nan, inf, -inf, 0, -0.0, 1, -1, 1e-45, -1e-45], (1, 60)), descending)
    sort_numpy(pick([nan, 1, 2], (1, 16)), descending)
    sort_numpy(np.full((1, 5), nan, np.float32), descending)


def threefry(counter, key):
    """threefry2x32-20, written as the loop in Random123."""
    rotations = [13, 15, 26, 6, 17, 29, 16, 24]
    key = [int(key[0]), int(key[1]), 0x1BD11BDA ^ int(key[0]) ^ int(key[1])]
    x = [(int(counter[i]) + key[i]) & 0xFFFFFFFF for i in range(2)]
    for i in range(20):
        x[0] = (x[0] + x[1]) & 0xFFFFFFFF
        x[1] = (x[1] << rotations[i % 8] | x[1] >> 32 - rotations[i % 8]) & 0xFFFFFFFF ^ x[0]
        if i % 4 == 3:
            s = i // 4 + 1
            x = [(x[0] + key[s % 3]) & 0xFFFFFFFF, (x[1] + key[(s + 1) % 3] + s) & 0xFFFFFFFF]
    return x


assert threefry([0, 0], [0, 0]) == [0x6B200159, 0x99BA4EFE]  # kat_vectors of Random123
assert threefry([0x243F6A88, 0x85A308D3], [0x13198A2E, 0x03707344]) == [0xC4923A9C, 0x483DF7A0]


def sample(x, temperature, top_k, top_p, seed, step, min_p=None):
    """Temperature, top_k, top_p and min_p by the logits warpers of Transformers, the rest by torch."""
    rows = x.reshape(-1, x.shape[-1])
    one = lambda v, row: v.reshape(-1)[row if v.numel() > 1 else 0].item()
    pair = lambda v, row: v.reshape(-1, 2)[row if v.numel() > 2 else 0].tolist()
    out = []
    for r, logits in enumerate(rows.double()):
        t, k, p = one(temperature, r), one(top_k, r), one(top_p, r)
        logits = logits.masked_fill(logits.isnan(), -inf)
        if t <= 0:
            out.append(int(torch.argmax(logits)))
            continue
        logits = logits / t
        order = torch.sort(logits, descending=True, stable=True).indices
        order = order[logits[order] > -inf]
        if k > 0:
            order = order[:k]
        probabilities = torch.softmax(logits[order], 0)
        if p < 1:
            order = order[: 1 + int((torch.cumsum(probabilities, 0) < p).sum())]
        if min_p is not None:
            probabilities = torch.softmax(logits[order], 0)
            order = order[probabilities >= one(min_p, r) * probabilities.max()]
        key = threefry(pair(step, r), pair(seed, r))
        u = torch.tensor([max((threefry([r, int(i)], key)[0] >> 8) / 2**24, 1e-30) for i in order], dtype=torch.float64)
        out.append(int(order[torch.argmax(logits[order] - torch.log(-torch.log(u)))]))
    u32 = lambda v: typed("u32", v)
    more = {} if min_p is None else {"min_p": min_p.float()}
    case("sample x, temperature, top_k, top_p, seed, step" + "".join(", %s=%s" % (name, name) for name in more),
         torch.tensor(out, dtype=torch.int32).reshape(x.shape[:-1]), tol=write.EXACT, x=x,
         temperature=temperature.float(), top_k=top_k.int(), top_p=top_p.float(), seed=u32(seed), step=u32(step),
         **more)


def word(*shape):
    return torch.from_numpy(rng.integers(0, 2**32, shape, np.int64))


one, off, number = torch.tensor(1.0), torch.tensor(0), torch.tensor
for _ in range(3):
    sample(write.rand(4, 33), one, off, one, word(2), word(2))
    sample(write.rand(4, 33), number(0.5), number(7), one, word(2), word(2))
    sample(write.rand(4, 33), number(1.5), off, number(0.75), word(2), word(2))
    sample(write.rand(2, 3, 40), write.among([0, 0.5, 1, 2], 2, 3), write.randint(0, 40, 2, 3),
           write.among([0, 0.25, 0.5, 0.875, 1], 2, 3), word(2, 3, 2), word(2, 3, 2))
    sample(write.rand(3, 300), one, number(50), number(0.9), word(2), number([0, 0]))
    sample(write.among([nan, -inf, 1, 2], 3, 20), one, number(3), number(0.9), word(2), word(2))
sample(write.rand(5, 9), number(-1.0), number(3), number(0.5), word(2), word(2))
sample(torch.zeros(9, 50), one, number(4), one, number([0, 0]), number([0, 0]))  # all equal: the first four survive
sample(write.rand(2, 30).half(), one, number(9), number(0.9), word(2), word(2))

for _ in range(2):
    sample(write.rand(4, 33), one, off, one, word(2), word(2), number(0.25))
    sample(write.rand(4, 33), number(2.0), number(20), number(0.9), word(2), word(2), number(0.5))
    sample(write.rand(5, 300), number(0.5), off, number(0.97), word(2), word(2),
           write.among([0, 0.01, 0.125, 0.75, 1], 5))
