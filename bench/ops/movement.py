import torch
import torch.nn.functional as F

from peer import case, into, op, rand


@op("copy")
def copy():
    for shape in (4096, 768), (4096, 3072):
        x = rand(*shape)
        out = torch.empty_like(x)
        yield case("copy x", lambda: out.copy_(x), x=x)


@op("transpose")
def transpose():
    # heads to the front and back, channels last, a matrix
    for shape, perm in ((1, 512, 16, 128), (0, 2, 1, 3)), ((1, 16, 512, 128), (0, 2, 1, 3)), ((1, 256, 64, 64),
        (0, 2, 3, 1)), ((2048, 2048), (1, 0)):
        x = rand(*shape)
        y = x.permute(perm)
        out = torch.empty(y.shape)
        yield case("transpose x {perm=[%s]}" % ",".join(map(str, perm)), lambda: out.copy_(y), x=x)


@op("expand")
def expand():
    for shape, to in ((1, 768), (4096, 768)), ((1, 4, 1, 512, 128), (1, 4, 4, 512, 128)):
        x = rand(*shape)
        y, out = x.expand(to), torch.empty(to)
        yield case("expand x", lambda: out.copy_(y), x=x)


@op("concat")
def concat():
    for axis, a, b in (0, (2048, 768), (2048, 768)), (1, (4096, 256), (4096, 512)), (2, (1, 16, 511, 128),
        (1, 16, 1, 128)):
        a, b = rand(*a), rand(*b)
        yield case("concat a, b" + (" {axis=%d}" % axis if axis else ""), into(torch.cat, (a, b), dim=axis), a=a, b=b)


@op("narrow")
def narrow():
    for shape, axis, start, n in ((4096, 2304), 1, 768, 768), ((1, 16, 1024, 128), 2, 512, 512):
        x = rand(*shape)
        y = x.narrow(axis, start, n)
        out = torch.empty(y.shape)
        yield case("narrow x {axis=%d, len=%d, start=%d}" % (axis, n, start), lambda: out.copy_(y),
                   moved=2 * out.nbytes, x=x)


@op("split")
def split():
    x = rand(4096, 2304)
    outs = [torch.empty(4096, 768) for _ in range(3)]
    yield case("split x {axis=1, parts=3}", lambda: [o.copy_(p) for o, p in zip(outs, x.chunk(3, 1))], x=x)


@op("pad")
def pad():
    for shape, before, after in ((1, 64, 64, 768), (0, 0, 0, 0), (0, 6, 6, 0)), ((1, 3, 683, 1024), (0, 0, 0, 0),
        (0, 0, 341, 0)), ((1, 64, 256, 256), (0, 0, 1, 1), (0, 0, 1, 1)):
        x = rand(*shape)
        both = [n for pair in reversed(list(zip(before, after))) for n in pair]
        yield case("pad x {after=[%s], before=[%s]}" % (",".join(map(str, after)), ",".join(map(str, before))),
                   lambda: F.pad(x, both), x=x)


@op("gather")
def gather():
    for shape, axis, n in ((32000, 2048), 0, 512), ((4096, 768), 0, 4096), ((512, 4096), 1, 1024):
        x, i = rand(*shape), torch.randint(0, shape[axis], (n,))
        y = torch.index_select(x, axis, i)
        yield case("gather x, i" + (" {axis=%d}" % axis if axis else ""), into(torch.index_select, x, axis, i),
                   moved=2 * y.nbytes + i.nbytes, x=x, i=i)


@op("kv_append")
def kv_append():
    s, rows, pos = rand(1, 16, 2048, 128), rand(1, 16, 512, 128), torch.tensor(700, dtype=torch.int32)
    t = s.clone()
    # the result is the state itself, which is not an output
    yield case("kv_append s, rows, pos {axis=2}", lambda: (t.narrow(2, 700, 512).copy_(rows), t)[1], same=False,
               moved=2 * rows.nbytes, s=s, rows=rows, pos=pos)


@op("depth_to_space", "space_to_depth")
def depth():
    x = rand(1, 256, 128, 128)
    yield case('depth_to_space x {order="crd", size=2}', lambda: F.pixel_shuffle(x, 2), x=x)
    y = rand(1, 64, 256, 256)
    yield case('space_to_depth y {order="crd", size=2}', lambda: F.pixel_unshuffle(y, 2), y=y)


@op("dynamic_slice", "gather_batched", "scatter_add")
def indexed():
    x, start = rand(16, 2048, 128), torch.tensor(700, dtype=torch.int32)
    y = x.narrow(1, 700, 512)
    out = torch.empty(y.shape)
    yield case("dynamic_slice x, start {axis=1, len=512}", lambda: out.copy_(y), moved=2 * out.nbytes, x=x, start=start)
    table, idx = rand(8, 1024, 256), torch.randint(0, 1024, (8, 512))
    wide = idx[:, :, None].expand(8, 512, 256)
    yield case("gather_batched table, idx {batch_dims=1}", into(torch.gather, table, 1, wide),
               moved=2 * wide.numel() * 4, table=table, idx=idx)
    u, rows = rand(1024, 2048), torch.randint(0, 512, (1024,))
    sums = torch.empty(512, 2048)
    yield case("scatter_add u, rows", lambda: sums.zero_().index_add_(0, rows, u), u=u, rows=rows)


@op("flip", "roll", "repeat", "stack", "tile")
def order():
    x = rand(4096, 768)
    for axis in 0, 1:
        yield case("flip x {axes=[%d]}" % axis, lambda: torch.flip(x, (axis,)), x=x)
    y = rand(1, 64, 64, 384)
    yield case("roll y {axes=[1,2], shifts=[-4,-4]}", lambda: torch.roll(y, (-4, -4), (1, 2)), y=y)
    z = rand(8, 512, 128)
    yield case("repeat z {axis=0, times=4}", lambda: torch.repeat_interleave(z, 4, dim=0), z=z)
    yield case("tile z {repeats=[1,2,2]}", lambda: z.repeat(1, 2, 2), z=z)
    a, b = rand(2048, 768), rand(2048, 768)
    for axis in 0, 2:
        yield case("stack a, b {axis=%d}" % axis, into(torch.stack, (a, b), dim=axis), a=a, b=b)


@op("one_hot", "tril", "triu")
def masks():
    i = torch.randint(0, 1024, (4096,))
    yield case("one_hot i {depth=1024, dtype=f32}", lambda: F.one_hot(i, 1024).float(), i=i)
    x = rand(12, 512, 512)
    for name, f in ("tril", torch.tril), ("triu", torch.triu):
        yield case("%s x {diagonal=1}" % name, into(f, x, 1), x=x)


@op("resize")
def resize():
    for shape, to in ((1, 256, 64, 64), 256), ((1, 3, 683, 683), 1024):
        x = rand(*shape)
        for mode, name in ("linear", "bilinear"), ("nearest", "nearest"):
            coords = {"linear": "half_pixel", "nearest": "asymmetric"}[mode]
            yield case('resize x {coords="%s", mode="%s"}' % (coords, mode),
                       lambda: F.interpolate(x, size=(to, to), mode=name), tol=2e-3, x=x)
