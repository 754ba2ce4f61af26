import torch

from peer import case, into, op, rand

fs = {"cumsum": torch.cumsum, "cumprod": torch.cumprod}


@op("cumsum", "cumprod", "cummax")
def scans():
    for shape, axis in ((4096, 768), 1), ((4096, 768), 0), ((1 << 20,), 0):
        for name, f in fs.items():
            x = rand(*shape) if name == "cumsum" else 1 + rand(*shape) / 10000
            yield case("%s x {axis=%d}" % (name, axis), into(f, x, axis), tol=1e-2, x=x)
        x = rand(*shape)
        yield case("cummax x {axis=%d}" % axis, lambda x=x, axis=axis: torch.cummax(x, axis).values, x=x)
