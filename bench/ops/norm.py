import torch
import torch.nn.functional as F

from peer import case, op, rand

aten = torch.ops.aten
shapes = (4096, 768), (512, 2048), (196 * 25, 1280)


@op("layer_norm", "rms_norm", "fused_residual_layer_norm", "fused_residual_rms_norm", "fused_add_layer_norm",
    "fused_add_rms_norm")
def norms():
    for shape in shapes:
        x, r, g, b, n = rand(*shape), rand(*shape), rand(shape[1]), rand(shape[1]), shape[1:]
        outs = torch.empty_like(x), torch.empty(shape[0], 1), torch.empty(shape[0], 1)
        w = dict(weights=("g", "b"), g=g, b=b)
        yield case("layer_norm x, g, b {eps=1e-06}",
                   lambda: aten.native_layer_norm.out(x, n, g, b, 1e-6, out0=outs[0], out1=outs[1], out2=outs[2])[0],
                   x=x, **w)
        yield case("rms_norm x, g, b {eps=1e-06}", lambda: F.rms_norm(x, n, g, 1e-6), weights=("g", "b"), x=x, g=g,
                   b=0 * b)
        s = torch.empty_like(x)
        yield case("fused_residual_layer_norm x, r, g, b {eps=1e-06}",
                   lambda: aten.native_layer_norm.out(torch.add(x, r, out=s), n, g, b, 1e-6, out0=outs[0], out1=outs[1],
                       out2=outs[2])[0], x=x, r=r, **w)
        yield case("fused_residual_rms_norm x, r, g, b {eps=1e-06}",
                   lambda: F.rms_norm(torch.add(x, r, out=s), n, g, 1e-6), weights=("g", "b"), x=x, r=r, g=g, b=0 * b)
        # each result is written apart from the operands, which a run needs again
        yield case("fused_add_layer_norm x, r, g, b {eps=1e-06}",
                   lambda: [torch.add(x, r, out=s), aten.native_layer_norm.out(s, n, g, b, 1e-6, out0=outs[0],
                       out1=outs[1], out2=outs[2])[0]], x=x, r=r, **w)
        yield case("fused_add_rms_norm x, r, g, b {eps=1e-06}",
                   lambda: [torch.add(x, r, out=s), F.rms_norm(s, n, g, 1e-6)], weights=("g", "b"), x=x, r=r, g=g,
                   b=0 * b)


@op("group_norm", "instance_norm", "batch_norm")
def channel_norms():
    # shapes: latents and images of diffusion models, images of convolutional networks
    for shape, groups in ((1, 320, 64, 64), 32), ((2, 128, 128, 128), 32), ((8, 64, 56, 56), 8):
        n, c, area = shape[0], shape[1], shape[2] * shape[3]
        x, g, b, m, v = rand(*shape), rand(c), rand(c), rand(c), rand(c).abs() + 1
        w = dict(weights=("g", "b"), g=g, b=b)
        outs = torch.empty_like(x), torch.empty(n, groups), torch.empty(n, groups)
        yield case("group_norm x, g, b {groups=%d, eps=1e-05}" % groups,
                   lambda: aten.native_group_norm.out(x, g, b, n, c, area, groups, 1e-5, out0=outs[0], out1=outs[1],
                       out2=outs[2])[0], x=x, **w)
        yield case("instance_norm x, g, b {eps=1e-05}", lambda: F.instance_norm(x, weight=g, bias=b, eps=1e-5), x=x,
                   **w)
        yield case("batch_norm x, g, b, m, v {eps=1e-05}", lambda: F.batch_norm(x, m, v, g, b, eps=1e-5),
                   weights=("g", "b", "m", "v"), x=x, g=g, b=b, m=m, v=v)


@op("l2_norm")
def l2_norm():
    for shape, axis in ((4096, 768), 1), ((1, 256, 64, 64), 1):
        x = rand(*shape)
        out = torch.empty_like(x)
        yield case("l2_norm x {axes=[%d], eps=1e-12}" % axis, lambda: F.normalize(x, 2, axis, 1e-12, out=out), x=x)


@op("softmax", "log_softmax")
def softmax():
    for shape, axis in ((12, 512, 512), 2), ((512, 32000), 1), ((64, 196, 196), 2), ((1, 64, 4096), 1):
        x = rand(*shape)
        out = torch.empty_like(x)
        yield case("softmax x {axis=%d}" % axis, lambda: aten._softmax.out(x, axis, False, out=out), x=x)
        yield case("log_softmax x {axis=%d}" % axis, lambda: aten._log_softmax.out(x, axis, False, out=out), x=x)
    for d in torch.bfloat16, torch.float16:
        x = rand(12, 512, 512).to(d)
        out = torch.empty_like(x)
        yield case("softmax x {axis=2}", lambda: aten._softmax.out(x, 2, False, out=out), tol=1e-2, x=x)
