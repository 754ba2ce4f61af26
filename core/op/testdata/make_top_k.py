"""Makes top_k.json: the k largest elements of rows, found by NumPy, for top_k to agree with.

Usage: python make_top_k.py > top_k.json    (made with NumPy 2.4.6)

A stable sort of -x puts the largest first, equal elements (0 and -0 too) in the order of their indices, and NaN last.
Elements are written as their bits, so that NaN and -0 survive JSON.
"""
import json
import numpy as np

rng = np.random.default_rng(7)
cases = []


def case(what, x, k):
    keys = -x.astype(np.float64) if x.dtype.kind == "f" else -x.astype(np.int64)
    indices = np.argsort(keys, axis=-1, kind="stable")[..., :k]
    values = np.take_along_axis(x, indices, axis=-1)
    bits = {2: np.uint16, 4: np.uint32}[x.itemsize]
    cases.append({"what": what, "dtype": {"float32": "f32", "float16": "f16", "int32": "i32", "uint32": "u32"}[x.dtype.name],
                  "shape": list(x.shape), "k": k, "x": x.view(bits).reshape(-1).tolist(),
                  "values": values.copy().view(bits).reshape(-1).tolist(), "indices": indices.reshape(-1).tolist()})


def among(pool, shape, dtype=np.float32):
    return rng.choice(np.array(pool, dtype), shape)


nan, inf = np.nan, np.inf
case("distinct", rng.standard_normal((3, 17)).astype(np.float32), 5)
case("all of a row", rng.standard_normal((2, 9)).astype(np.float32), 9)
case("three axes", rng.standard_normal((2, 3, 11)).astype(np.float32), 1)
case("long rows", rng.standard_normal((2, 700)).astype(np.float32), 40)
case("ties", among([1, 2, 3], (4, 50)), 20)
case("all equal", np.full((1, 30), 2.5, np.float32), 30)
case("zeros of both signs", among([0.0, -0.0], (3, 12)), 12)
case("denormals", among([0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40], (3, 24)), 24)
case("nan", among([nan, 1, 2], (4, 16)), 16)
case("nan and infinities", among([nan, inf, -inf, 0, -0.0, 1, -1], (6, 40)), 40)
case("mostly nan", among([nan, nan, nan, nan, -inf], (5, 12)), 4)
case("only nan", np.full((1, 7), nan, np.float32), 3)
case("half", rng.standard_normal((3, 33)).astype(np.float16), 8)
case("half with ties and nan", among([nan, inf, -inf, 0, -0.0, 1, 6e-8, -6e-8], (4, 40), np.float16), 40)
case("integers", rng.integers(-(2**31), 2**31, (3, 20), np.int32), 6)
case("integers with ties", among([-(2**31), -1, 0, 1, 2**31 - 1], (4, 30), np.int32), 30)
case("unsigned", among([0, 1, 2**31, 2**32 - 1], (3, 18), np.uint32), 18)

print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
