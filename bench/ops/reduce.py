import torch

from peer import case, into, op, rand

fs = {"reduce_sum": torch.sum, "reduce_mean": torch.mean, "reduce_max": torch.amax, "reduce_min": torch.amin}
# reduced: rows and columns of SAM's residual stream, channels of images, all elements
shapes = ((4096, 768), [1]), ((4096, 768), [0]), ((1, 256, 128, 128), [2, 3]), ((2048, 2048), [0, 1])


@op(*fs, "reduce_prod")
def reductions():
    for name, f in fs.items():
        for shape, axes in shapes:
            x = rand(*shape)
            yield case("%s x {axes=[%s]}" % (name, ",".join(map(str, axes))), into(f, x, axes), tol=1e-2, x=x)
    for axes in [0, 2], [1]:
        x = rand(16, 512, 96)
        yield case("reduce_sum x {axes=[%s]}" % ",".join(map(str, axes)), into(torch.sum, x, axes), tol=1e-2, x=x)
    for d in torch.bfloat16, torch.float16:
        x = rand(4096, 768).to(d)
        for axes in [1], [0]:
            yield case("reduce_mean x {axes=[%d]}" % axes[0], into(torch.mean, x, axes), tol=1e-2, x=x)
    for axis in 1, 0:
        x = 1 + rand(4096, 768) / 100
        yield case("reduce_prod x {axes=[%d]}" % axis, into(torch.prod, x, axis), x=x)


@op("any", "all")
def truth():
    for name, f in ("any", torch.any), ("all", torch.all):
        for axis in 1, 0:
            x = torch.full((4096, 768), name == "all")
            yield case("%s x {axes=[%d]}" % (name, axis), into(f, x, axis), x=x)


@op("logsumexp")
def logsumexp():
    for shape, axes in ((512, 32000), [1]), ((4096, 768), [0]):
        x = rand(*shape)
        yield case("logsumexp x {axes=[%d]}" % axes[0], into(torch.logsumexp, x, axes), x=x)


@op("argmax", "argmin")
def arg():
    for name, f in ("argmax", torch.argmax), ("argmin", torch.argmin):
        for shape, axis in ((1, 128256), 1), ((4096, 768), 1), ((4096, 768), 0), ((512, 32000), 1):
            x = rand(*shape)
            yield case("%s x {%sindex_dtype=i64}" % (name, "axis=1, " if axis else ""), into(f, x, axis), tol=0, x=x)
