"""What orders elements. A stable sort of -x puts the largest first, equal elements (0 and -0 too) in the order of their indices, and NaN
last."""
import numpy as np

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
