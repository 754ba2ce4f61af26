import torch

from peer import case, into, op, rand

fs = {"reduce_sum": torch.sum, "reduce_mean": torch.mean, "reduce_max": torch.amax, "reduce_min": torch.amin}
# rows of SAM's stream, columns of it, channels of images, all
shapes = ((4096, 768), [1]), ((4096, 768), [0]), ((1, 256, 128, 128), [2, 3]), ((2048, 2048), [0, 1])


@op(*fs, "reduce_prod")
def reductions():
    for name, f in fs.items():
        for shape, axes in shapes:
            x = rand(*shape)
            yield case("%s x {axes=[%s]}" % (name, ",".join(map(str, axes))), into(f, x, axes), tol=1e-2, x=x)
    for axis in 1, 0:
        x = 1 + rand(4096, 768) / 100
        yield case("reduce_prod x {axes=[%d]}" % axis, into(torch.prod, x, axis), x=x)
