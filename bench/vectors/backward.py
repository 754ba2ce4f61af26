"""Backward ops, by PyTorch's autograd."""
import torch
import torch.nn.functional as F

from write import case, rand


def gradients(f, *operands):
    """A random gradient of f's result, and the gradients of the operands."""
    x = [t.clone().requires_grad_() for t in operands]
    y = f(*x)
    dy = rand(*y.shape)
    return dy, list(torch.autograd.grad(y, x, dy))


for shape, eps in ((3, 9), 1e-5), ((2, 3, 16), 1e-6), ((1, 1), 1e-2), ((4, 33), 0.1), ((0, 5), 1e-5), ((7,), 1e-3):
    x, g, b = rand(*shape), rand(shape[-1]), rand(shape[-1])
    dy, d = gradients(lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b, eps), x, g, b)
    case("layer_norm_backward x, g, dy {eps=%r}" % eps, d, x=x, g=g, dy=dy)
    dy, d = gradients(lambda x, g, b: F.rms_norm(x, x.shape[-1:], g, eps) + b, x, g, b)
    case("rms_norm_backward x, g, dy {eps=%r}" % eps, d, x=x, g=g, dy=dy)

for shape, groups, eps in ((2, 6, 5), 3, 1e-5), ((2, 6, 3, 4), 1, 1e-6), ((1, 4, 5), 4, 0.1), ((3, 8, 2, 2, 3), 2,
    1e-5), ((4, 6), 2, 1e-3):
    x, g, b = rand(*shape), rand(shape[1]), rand(shape[1])
    dy, d = gradients(lambda x, g, b: F.group_norm(x, groups, g, b, eps), x, g, b)
    case("group_norm_backward x, g, dy {groups=%d, eps=%r}" % (groups, eps), d, x=x, g=g, dy=dy)
