"""Norms and softmax."""
import torch
import torch.nn.functional as F

from write import case, inf, nan, rand

for shape, eps in ((3, 9), 1e-5), ((2, 3, 16), 1e-6), ((1, 1), 1e-5), ((4, 33), 0.1), ((0, 5), 1e-5):
    x, r, g, b = rand(*shape), rand(*shape), rand(shape[-1]), rand(shape[-1])
    for scale in 1, 1000:
        x = x * scale + (scale - 1)
        ln, rms = lambda t: F.layer_norm(t, t.shape[-1:], g, b, eps), lambda t: F.rms_norm(t, t.shape[-1:], g, eps) + b
        case("layer_norm x, g, b {eps=%r}" % eps, ln(x), x=x, g=g, b=b)
        case("rms_norm x, g, b {eps=%r}" % eps, rms(x), x=x, g=g, b=b)
        case("fused_residual_layer_norm x, r, g, b {eps=%r}" % eps, ln(x + r), x=x, r=r, g=g, b=b)
        case("fused_residual_rms_norm x, r, g, b {eps=%r}" % eps, rms(x + r), x=x, r=r, g=g, b=b)

for shape, axis in ((3, 9), 0), ((3, 9), 1), ((2, 5, 3), 1), ((1,), 0), ((2, 0, 3), 2), ((4, 70), 1):
    x = rand(*shape)
    case("softmax x" + (" {axis=%d}" % axis if axis else ""), F.softmax(x, axis), x=x)
    case("softmax x" + (" {axis=%d}" % axis if axis else ""), F.softmax(x * 300, axis), x=x * 300)
x = rand(5, 6)
x[0, 1], x[1, 2], x[2, 3], x[3, :] = nan, inf, -inf, -inf
case("softmax x {axis=1}", F.softmax(x, 1), x=x)
