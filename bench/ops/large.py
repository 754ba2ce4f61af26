"""Entries for GPUs, with operands of 64 MB and more. run.py --backend wgpu times only these."""
import torch
import torch.nn.functional as F

from peer import case, into, op, rand

aten = torch.ops.aten


@op("copy", "transpose", "expand", "concat", "narrow", "pad", "gather", "flip", "roll", "resize", "scatter_add")
def movement():
    x = rand(8192, 4096)
    out = torch.empty_like(x)
    yield case("copy x", lambda: out.copy_(x), x=x)
    yield case("transpose x {perm=[1,0]}", lambda: x.T.contiguous(), x=x)
    h = rand(8, 1024, 32, 128)
    yield case("transpose x {perm=[0,2,1,3]}", lambda: h.permute(0, 2, 1, 3).contiguous(), x=h)
    v = rand(1, 4096)
    yield case("expand x", lambda: out.copy_(v.expand_as(x)), x=v)
    yield case("concat x, y {axis=1}", into(torch.cat, (x, x), dim=1), x=x, y=x.clone())
    yield case("narrow x {axis=1, len=3072, start=512}", lambda: x[:, 512:3584].contiguous(), moved=2 * 4 * 8192 * 3072,
               x=x)
    yield case("pad x {after=[1,1], before=[1,1]}", lambda: F.pad(x, (1, 1, 1, 1)), x=x)
    i = torch.randint(0, 8192, (8192,), dtype=torch.int32)
    yield case("gather x, i", into(torch.index_select, x, 0, i), x=x, i=i)
    yield case("flip x {axes=[1]}", lambda: x.flip(1), x=x)
    yield case("flip x {axes=[0]}", lambda: x.flip(0), x=x)
    w = rand(16, 64, 64, 256)
    yield case("roll x {axes=[1,2], shifts=[-3,-3]}", lambda: w.roll((-3, -3), (1, 2)), x=w)
    m = rand(8, 4, 512, 512)
    yield case('resize x {coords="half_pixel", mode="linear"}', lambda: F.interpolate(m, (1024, 1024), mode="bilinear"),
               x=m)
    yield case('resize x {coords="asymmetric", mode="nearest"}', lambda: F.interpolate(m, (1024, 1024), mode="nearest"),
               x=m)
    s = torch.randint(0, 2048, (4096,), dtype=torch.int64)
    u = rand(4096, 4096)
    yield case("scatter_add u, i", lambda: torch.zeros(2048, 4096).index_add_(0, s, u), u=u, i=s.int())


@op("add", "gelu", "exp", "where", "cast")
def elementwise():
    x, y = rand(8192, 4096), rand(8192, 4096)
    yield case("add x, y", into(torch.add, x, y), x=x, y=y)
    yield case("gelu x", lambda: F.gelu(x), x=x)
    yield case("exp x", into(torch.exp, x), x=x)
    c = x > 0
    yield case("where c, x, y", into(torch.where, c, x, y), c=c, x=x, y=y)
    h = torch.empty_like(x, dtype=torch.float16)
    yield case("cast x {to=f16}", lambda: h.copy_(x), x=x)


@op("reduce_sum", "reduce_max", "softmax", "layer_norm", "rms_norm", "group_norm", "argmax", "log_softmax", "cumsum",
    "sort", "top_k", "fft")
def rows():
    x, long, tall = rand(8192, 4096), rand(16, 1 << 21), rand(1 << 15, 1024)
    yield case("reduce_sum x {axes=[1]}", into(torch.sum, x, 1), x=x)
    yield case("reduce_sum x {axes=[1]}", into(torch.sum, long, 1), x=long)
    yield case("reduce_sum x {axes=[0]}", into(torch.sum, tall, 0), x=tall)
    yield case("reduce_sum x {axes=[0,1]}", lambda: x.sum(), x=x)
    yield case("reduce_max x {axes=[1]}", into(torch.amax, x, 1), x=x)
    out = torch.empty_like(x)
    yield case("softmax x {axis=1}", lambda: aten._softmax.out(x, 1, False, out=out), x=x)
    big = rand(256, 128256)
    yield case("softmax x {axis=1}", lambda: torch.softmax(big, 1), x=big)
    yield case("log_softmax x {axis=1}", lambda: F.log_softmax(big, 1), x=big)
    g, b = rand(4096), rand(4096)
    yield case("layer_norm x, g, b {eps=1e-06}", lambda: F.layer_norm(x, (4096,), g, b, 1e-6), weights=("g", "b"), x=x,
               g=g, b=b)
    yield case("rms_norm x, g, b {eps=1e-06}", lambda: F.rms_norm(x, (4096,), g, 1e-6), weights=("g", "b"), x=x, g=g,
               b=0 * b)
    image, gc = rand(8, 256, 128, 128), rand(256)
    yield case("group_norm x, g, b {eps=1e-05, groups=32}", lambda: F.group_norm(image, 32, gc, gc, 1e-5),
               weights=("g", "b"), x=image, g=gc, b=gc.clone())
    yield case("argmax x {axis=1}", lambda: big.argmax(1).int(), x=big)
    yield case("cumsum x {axis=1}", into(torch.cumsum, x, 1), x=x)
    yield case("cumsum x {axis=1}", into(torch.cumsum, long, 1), tol=1e-2, x=long)
    yield case("sort x {axis=1}", lambda: (lambda v, i: (v, i.int()))(*torch.sort(x, stable=True, dim=1)), x=x)
    z = rand(16384, 4096)
    yield case('fft x {norm="none"}',
               lambda: (lambda c: torch.cat([c.real, c.imag], 1))(
                   torch.fft.fft(torch.complex(z[:, :2048], z[:, 2048:]))), x=z)
    yield case("top_k x {k=50}", lambda: (lambda v, i: (v, i.int()))(*torch.topk(big, 50)), x=big)


@op("conv2d", "conv3d", "pool", "matmul")
def windows():
    x, w = rand(8, 256, 64, 64), rand(256, 256, 3, 3)
    yield case('conv2d x, w {layout="nchw", padding=[1,1]}', lambda: F.conv2d(x, w, padding=1), weights=("w",), x=x,
               w=w)
    v, w3 = rand(2, 64, 16, 56, 56), rand(64, 64, 3, 3, 3)
    yield case('conv3d x, w {layout="ncdhw", padding=[1,1,1]}', lambda: F.conv3d(v, w3, padding=1), weights=("w",), x=v,
               w=w3)
    p = rand(32, 64, 112, 112)
    yield case('pool x {kernel=[3,3], kind="max", layout="nchw", padding=[1,1], stride=[2,2]}',
               lambda: F.max_pool2d(p, 3, 2, 1), x=p)
    yield case('pool x {kernel=[2,2], kind="mean", layout="nchw", stride=[2,2]}', lambda: F.avg_pool2d(p, 2), x=p)
    a, b = rand(4096, 4096), rand(4096, 4096)
    yield case("matmul a, b", into(torch.mm, a, b), weights=("b",), a=a, b=b)
