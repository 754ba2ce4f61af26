"""Norms and softmax."""
import torch
import torch.nn.functional as F

from write import F32, case, inf, nan, onnx_nodes, rand

for shape, eps in ((3, 9), 1e-5), ((2, 3, 16), 1e-6), ((1, 1), 1e-5), ((4, 33), 0.1), ((0, 5), 1e-5):
    x, r, g, b = rand(*shape), rand(*shape), rand(shape[-1]), rand(shape[-1])
    for scale in 1, 1000:
        x = x * scale + (scale - 1)
        ln, rms = lambda t: F.layer_norm(t, t.shape[-1:], g, b, eps), lambda t: F.rms_norm(t, t.shape[-1:], g, eps) + b
        case("layer_norm x, g, b {eps=%r}" % eps, ln(x), x=x, g=g, b=b)
        case("rms_norm x, g, b {eps=%r}" % eps, rms(x), x=x, g=g, b=b)
        case("fused_residual_layer_norm x, r, g, b {eps=%r}" % eps, ln(x + r), x=x, r=r, g=g, b=b)
        case("fused_residual_rms_norm x, r, g, b {eps=%r}" % eps, rms(x + r), x=x, r=r, g=g, b=b)
        case("fused_add_layer_norm x, r, g, b {eps=%r}" % eps, [x + r, ln(x + r)], x=x, r=r, g=g, b=b)
        case("fused_add_rms_norm x, r, g, b {eps=%r}" % eps, [x + r, rms(x + r)], x=x, r=r, g=g, b=b)

for shape, axis in ((3, 9), 0), ((3, 9), 1), ((2, 5, 3), 1), ((1,), 0), ((2, 0, 3), 2), ((4, 70), 1):
    x = rand(*shape)
    for scale in 1, 300:
        case("softmax x" + (" {axis=%d}" % axis if axis else ""), F.softmax(x * scale, axis), x=x * scale)
        case("log_softmax x" + (" {axis=%d}" % axis if axis else ""), F.log_softmax(x * scale, axis), x=x * scale)
x = rand(5, 6)
x[0, 1], x[1, 2], x[2, 3], x[3, :] = nan, inf, -inf, -inf
case("softmax x {axis=1}", F.softmax(x, 1), x=x)
case("log_softmax x {axis=1}", F.log_softmax(x, 1), x=x)
for source, a, ins, outs in onnx_nodes("LogSoftmax"):
    axis = a.get("axis", -1) % ins[0].ndim
    case("log_softmax x" + (" {axis=%d}" % axis if axis else ""), outs[0], source, tol=F32, x=ins[0])

# Norms over channels.
for shape, groups, eps in ((2, 6, 5), 3, 1e-5), ((2, 6, 3, 4), 1, 1e-6), ((1, 4, 5), 4, 0.1), ((3, 8, 2, 2, 3), 2,
    1e-5), ((0, 4, 3), 2, 1e-5), ((4, 6), 2, 1e-3):
    x, c = rand(*shape), shape[1]
    g, b, m, v = rand(c), rand(c), rand(c), rand(c).abs() + 1 / 64
    for scale in 1, 1000:
        x = x * scale + (scale - 1)
        if shape[0]:  # PyTorch's group_norm refuses an empty batch
            case("group_norm x, g, b {groups=%d, eps=%r}" % (groups, eps), F.group_norm(x, groups, g, b, eps), x=x, g=g,
                 b=b)
        if len(shape) > 2 and shape[0]:
            case("instance_norm x, g, b {eps=%r}" % eps, F.instance_norm(x, weight=g, bias=b, eps=eps), x=x, g=g, b=b)
        case("batch_norm x, g, b, m, v {eps=%r}" % eps, F.batch_norm(x, m, v, g, b, eps=eps), x=x, g=g, b=b, m=m, v=v)
x, g, b = rand(2, 4, 3), rand(4), rand(4)
x[0, 0, 1], x[1, 3, 0] = nan, inf
case("group_norm x, g, b {groups=2, eps=1e-05}", F.group_norm(x, 2, g, b, 1e-5), x=x, g=g, b=b)
for kind, line in ("GroupNormalization", "group_norm x, g, b {groups=%d, eps=%r}"), ("InstanceNormalization",
    "instance_norm x, g, b {eps=%r}"), ("BatchNormalization", "batch_norm x, g, b, m, v {eps=%r}"):
    for source, a, ins, outs in onnx_nodes(kind):
        if len(outs) == 1:  # not in training
            eps = round(a.get("epsilon", 1e-5), 9)
            case(line % ((a["num_groups"], eps) if "num_groups" in a else eps), outs[0], source, tol=F32,
                 **dict(zip("xgbmv", ins)))

for shape, axes in ((3, 9), (1,)), ((3, 9), (0,)), ((2, 5, 3), (1,)), ((2, 5, 3), (0, 2)), ((1,), (0,)), ((2, 0, 3),
    (2,)), ((2, 3, 4), (0, 1, 2)):
    x = rand(*shape)
    for eps in 1e-12, 4.0:
        case("l2_norm x {axes=[%s], eps=%r}" % (",".join(map(str, axes)), eps), F.normalize(x, 2, axes, eps), x=x)
x = rand(5, 6)
x[0, 1], x[1, 2], x[2, :] = nan, inf, 0
case("l2_norm x {axes=[1], eps=1e-12}", F.normalize(x, 2, 1, 1e-12), x=x)
for source, a, ins, outs in onnx_nodes("LpNormalization"):
    if a.get("p", 2) == 2:
        case("l2_norm x {axes=[%d], eps=1e-30}" % (a.get("axis", -1) % ins[0].ndim), outs[0], source, tol=F32, x=ins[0])
