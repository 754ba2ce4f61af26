import torch
import torch.nn.functional as F

from peer import case, op, rand

aten = torch.ops.aten
shapes = (4096, 768), (512, 2048), (196 * 25, 1280)


@op("layer_norm", "rms_norm", "fused_residual_layer_norm", "fused_residual_rms_norm")
def norms():
    for shape in shapes:
        x, r, g, b, n = rand(*shape), rand(*shape), rand(shape[1]), rand(shape[1]), shape[1:]
        outs = torch.empty_like(x), torch.empty(shape[0], 1), torch.empty(shape[0], 1)
        w = dict(weights=("g", "b"), g=g, b=b)
        yield case("layer_norm x, g, b {eps=1e-06}", lambda: aten.native_layer_norm.out(x, n, g, b, 1e-6, out0=outs[0], out1=outs[1], out2=outs[2])[0], x=x, **w)
        yield case("rms_norm x, g, b {eps=1e-06}", lambda: F.rms_norm(x, n, g, 1e-6), weights=("g", "b"), x=x, g=g, b=0 * b)
        s = torch.empty_like(x)
        yield case("fused_residual_layer_norm x, r, g, b {eps=1e-06}",
                   lambda: aten.native_layer_norm.out(torch.add(x, r, out=s), n, g, b, 1e-6, out0=outs[0], out1=outs[1], out2=outs[2])[0], x=x, r=r, **w)
        yield case("fused_residual_rms_norm x, r, g, b {eps=1e-06}", lambda: F.rms_norm(torch.add(x, r, out=s), n, g, 1e-6), weights=("g", "b"), x=x, r=r, g=g, b=0 * b)


@op("softmax")
def softmax():
    for shape, axis in ((12, 512, 512), 2), ((512, 32000), 1), ((64, 196, 196), 2), ((1, 64, 4096), 1):
        x = rand(*shape)
        out = torch.empty_like(x)
        yield case("softmax x {axis=%d}" % axis, lambda: aten._softmax.out(x, axis, False, out=out), x=x)
