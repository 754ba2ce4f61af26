import torch
import torch.nn.functional as F

from peer import case, op, rand


def attrs(**a):
    return ", ".join("%s=%s" % (k, str(v if isinstance(v, int) else list(v)).replace(" ", "")) for k, v in sorted(a.items()))


@op("conv2d")
def conv2d():
    # SAM's patches (at 512 pixels) and neck, a depthwise layer, a layer of a ResNet
    for x, w, a in ((1, 3, 512, 512), (768, 3, 16, 16), dict(stride=(16, 16))), ((1, 768, 64, 64), (256, 768, 1, 1), {}), \
            ((1, 256, 32, 32), (256, 256, 3, 3), dict(padding=(1, 1))), ((1, 96, 64, 64), (96, 1, 7, 7), dict(padding=(3, 3), groups=96)), \
            ((1, 64, 56, 56), (64, 64, 3, 3), dict(padding=(1, 1))):
        x, w, b = rand(*x), rand(*w) / 8, rand(w[0])
        line = 'conv2d x, w, b {%s}' % ", ".join(filter(None, [attrs(**a), 'layout="nchw"']))
        yield case(line, lambda: F.conv2d(x, w, b, **a), weights=("w", "b"), x=x, w=w, b=b)


@op("conv_transpose2d")
def conv_transpose2d():
    for x, w in ((1, 256, 64, 64), (256, 64, 2, 2)), ((1, 64, 128, 128), (64, 32, 2, 2)):
        x, w, b = rand(*x), rand(*w) / 8, rand(w[1])
        yield case('conv_transpose2d x, w, b {layout="nchw", stride=[2,2]}', lambda: F.conv_transpose2d(x, w, b, stride=2), weights=("w", "b"), x=x, w=w, b=b)
