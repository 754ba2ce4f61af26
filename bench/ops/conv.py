import torch
import torch.nn.functional as F

from peer import case, op, rand

LAYOUT = {1: "ncw", 2: "nchw", 3: "ncdhw"}


def line(name, operands, axes, **a):
    a["layout"] = '"%s"' % LAYOUT[axes]
    return "%s %s {%s}" % (name, operands, ", ".join(
        "%s=%s" % (k, str(v if isinstance(v, (int, str)) else list(v)).replace(" ", "")) for k, v in sorted(a.items())))


def convs(name, f, shapes):
    axes = int(name[-2])
    for x, w, a in shapes:
        x, w, b = rand(*x), rand(*w) / 8, rand(w[1] * a.get("groups", 1) if "transpose" in name else w[0])
        yield case(line(name, "x, w, bias=b", axes, **a), lambda: f(x, w, b, **a), weights=("w", "b"), x=x, w=w, b=b)


@op("conv1d")
def conv1d():
    # a causal depthwise layer of a state-space model, the first layers of a speech encoder
    yield from convs("conv1d", F.conv1d, [((1, 1536, 1024), (1536, 1, 4), dict(padding=(3,), groups=1536)),
                                          ((1, 80, 3000), (384, 80, 3), dict(padding=(1,))),
                                          ((1, 384, 3000), (384, 384, 3), dict(padding=(1,), stride=(2,)))])


@op("conv2d")
def conv2d():
    # SAM's patches (at 512 pixels) and neck, depthwise layers of ConvNeXt and MobileNet, layers of a ResNet
    yield from convs("conv2d", F.conv2d, [((1, 3, 512, 512), (768, 3, 16, 16), dict(stride=(16, 16))),
                                          ((1, 768, 64, 64), (256, 768, 1, 1), {}),
                                          ((1, 256, 32, 32), (256, 256, 3, 3), dict(padding=(1, 1))),
                                          ((1, 96, 64, 64), (96, 1, 7, 7), dict(padding=(3, 3), groups=96)),
                                          ((1, 32, 112, 112), (32, 1, 3, 3), dict(padding=(1, 1), groups=32)),
                                          ((1, 96, 112, 112), (96, 1, 3, 3),
                                           dict(padding=(1, 1), stride=(2, 2), groups=96)),
                                          ((1, 3, 224, 224), (64, 3, 7, 7), dict(padding=(3, 3), stride=(2, 2))),
                                          ((1, 64, 56, 56), (64, 64, 3, 3), dict(padding=(1, 1))),
                                          ((1, 512, 7, 7), (512, 512, 3, 3), dict(padding=(1, 1)))])


@op("conv3d")
def conv3d():
    # layers of a video network, one of them depthwise
    yield from convs("conv3d", F.conv3d, [((1, 64, 8, 28, 28), (64, 64, 3, 3, 3), dict(padding=(1, 1, 1))),
                                          ((1, 3, 8, 112, 112), (64, 3, 3, 7, 7),
                                           dict(padding=(1, 3, 3), stride=(1, 2, 2))),
                                          ((1, 64, 8, 28, 28), (64, 1, 3, 3, 3), dict(padding=(1, 1, 1), groups=64))])


@op("conv_transpose1d")
def conv_transpose1d():
    yield from convs("conv_transpose1d", F.conv_transpose1d,
                     [((1, 256, 512), (256, 128, 16), dict(stride=(8,), padding=(4,)))])


@op("conv_transpose2d")
def conv_transpose2d():
    yield from convs("conv_transpose2d", F.conv_transpose2d, [((1, 256, 64, 64), (256, 64, 2, 2), dict(stride=(2, 2))),
                                                              ((1, 64, 128, 128), (64, 32, 2, 2), dict(stride=(2, 2))),
                                                              ((1, 128, 32, 32), (128, 64, 4, 4),
                                                                  dict(stride=(2, 2), padding=(1, 1)))])


@op("conv_transpose3d")
def conv_transpose3d():
    yield from convs("conv_transpose3d", F.conv_transpose3d,
                     [((1, 64, 4, 28, 28), (64, 32, 2, 2, 2), dict(stride=(2, 2, 2)))])


@op("pool")
def pool():
    # pooling of a ResNet and a VGG, of signals and of videos
    for shape, f, a in ((1, 64, 112, 112), F.max_pool2d, dict(kernel=(3, 3), stride=(2, 2), padding=(1, 1))), \
            ((1, 128, 112, 112), F.max_pool2d, dict(kernel=(2, 2), stride=(2, 2))), \
            ((1, 256, 56, 56), F.avg_pool2d, dict(kernel=(2, 2), stride=(2, 2))), \
            ((1, 256, 4096), F.max_pool1d, dict(kernel=(4,), stride=(4,))), \
            ((1, 64, 8, 56, 56), F.max_pool3d, dict(kernel=(2, 2, 2), stride=(2, 2, 2))):
        x = rand(*shape)
        kind = '"max"' if "max" in f.__name__ else '"mean"'
        yield case(line("pool", "x", len(a["kernel"]), kind=kind, **a),
                   lambda: f(x, a["kernel"], a["stride"], a.get("padding", 0)), x=x)


@op("adaptive_avg_pool")
def adaptive_avg_pool():
    for shape, out in ((8, 2048, 7, 7), (1, 1)), ((1, 512, 28, 28), (7, 7)), ((1, 256, 50, 50), (6, 6)):
        x = rand(*shape)
        yield case(line("adaptive_avg_pool", "x", 2, output=out), lambda: F.adaptive_avg_pool2d(x, out), x=x)


@op("im2col")
def im2col():
    for shape, k, s in ((1, 64, 56, 56), 3, 1), ((1, 3, 512, 512), 16, 16):
        x, p = rand(*shape), k // 2 if s == 1 else 0
        a = dict(kernel=(k, k), stride=(s, s), padding=(p, p))
        yield case("im2col x {kernel=[%d,%d], padding=[%d,%d], stride=[%d,%d]}" % (k, k, p, p, s, s),
                   lambda: F.unfold(x, k, padding=p, stride=s).transpose(1, 2).contiguous().flatten(0, 1), x=x)
