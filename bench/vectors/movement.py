"""Ops that move elements: views, copies, slices, concatenation, padding, gathering; and tensors made by a rule, such as
iota."""
import numpy as np
import torch
import torch.nn.functional as F

from write import F32, NUMPY, among, case, inf, nan, onnx_nodes, rand, randint, typed


def ints(v):
    return "[%s]" % ",".join(map(str, v))


def attrs(**a):
    a = {k: v for k, v in a.items() if v not in (0, None)}
    return " {%s}" % ", ".join("%s=%s" % (k, ints(v) if isinstance(v, (list, tuple)) else v) for k,
                               v in sorted(a.items())) if a else ""


def kinds(*shape):
    """A tensor of each element type, with values that a move must not change."""
    yield rand(*shape)
    yield among([nan, inf, -inf, 0.0, -0.0, 1e-45], *shape, dtype=torch.float32)
    yield rand(*shape).half()
    yield rand(*shape).bfloat16()
    yield randint(-128, 127, *shape, dtype=torch.int8)
    yield randint(-2**62, 2**62, *shape, dtype=torch.int64)
    yield randint(0, 1, *shape, dtype=torch.bool)


for x in kinds(3, 4):
    case("copy x", x.clone(), bits=True, x=x)
    case("reshape x", x.reshape(2, 6), bits=True, x=x)
    case("transpose x {perm=[1,0]}", x.T, bits=True, x=x)
    case("expand x", x.expand(2, 3, 4), bits=True, x=x)
    case("narrow x {axis=1, len=2, start=1}", x.narrow(1, 1, 2), bits=True, x=x)
    case("concat x, y {axis=1}", torch.cat([x, x.flip(0)], 1), bits=True, x=x, y=x.flip(0))
    case("split x {axis=1, sizes=[1,3]}", list(x.split([1, 3], 1)), bits=True, x=x)
    case("split x {axis=1, parts=2}", list(x.chunk(2, 1)), bits=True, x=x)
    case("gather x, i", x[torch.tensor([2, 0, 0])], bits=True, x=x, i=torch.tensor([2, 0, 0]))
    case("pad x {after=[1,0], before=[0,2]}",
         F.pad(x.to(torch.int64) if x.dtype == torch.bool else x, (2, 0, 0, 1)).to(x.dtype), bits=True, x=x)

for shape, to in ((2, 3, 4), (24,)), ((24,), (4, 1, 6)), ((), (1, 1)), ((2, 0), (0, 5)):
    x = rand(*shape)
    case("reshape x", x.reshape(to), x=x)
for shape, perm in ((2, 3, 4), (2, 0, 1)), ((2, 3, 4, 5), (0, 2, 1, 3)), ((2, 3, 4, 5), (3, 2, 1, 0)), ((0, 3),
    (1, 0)), ((5,), (0,)):
    x = rand(*shape)
    case("transpose x {perm=%s}" % ints(perm), x.permute(perm), x=x)
    case("transpose x {perm=%s}" % ints(perm), np.transpose(x.numpy(), perm), NUMPY, x=x)
for shape, to in ((1, 3), (4, 3)), ((2, 1, 3), (2, 5, 3)), ((), (2, 2)), ((1,), (0,)):
    x = rand(*shape)
    case("expand x", x.expand(to), x=x)
for shape, axis, start, n in ((7,), 0, 2, 3), ((2, 3, 5), 2, 4, 1), ((2, 3, 5), 0, 0, 2), ((4, 2), 0, 1, 0):
    x = rand(*shape)
    case("narrow x" + attrs(axis=axis, start=start, len=n), x.narrow(axis, start, n), x=x)
for axis, shapes in (0, [(2, 3), (1, 3), (4, 3)]), (1, [(2, 1, 4), (2, 3, 4)]), (2, [(1, 2, 3)]), (0, [(0, 2), (3, 2)]):
    x = {"x%d" % i: rand(*s) for i, s in enumerate(shapes)}
    case("concat %s%s" % (", ".join(x), attrs(axis=axis)), torch.cat(list(x.values()), axis), **x)
for shape, axis, sizes in ((7, 2), 0, [3, 0, 4]), ((2, 7, 3), 1, [1, 6]), ((5,), 0, [5]):
    x = rand(*shape)
    case("split x" + attrs(axis=axis, sizes=sizes), list(x.split(sizes, axis)), x=x)
for shape, axis, idx in ((5, 3), 0, (2, 2)), ((2, 6, 3), 1, (4,)), ((2, 3, 7), 2, (1, 3)), ((4,), 0, ()), ((3, 2), 1,
    (0,)):
    for d in torch.int32, torch.int64, None:
        x, i = rand(*shape), randint(0, shape[axis] - 1, *idx, dtype=torch.int64)
        y = np.take(x.numpy(), i.numpy(), axis)
        case("gather x, i" + attrs(axis=axis), y, NUMPY, x=x, i=i.to(d) if d else typed("u32", i))
for shape, before, after, value in ((3, 4), (1, 3), (0, 2), 0.5), ((2,), (2,), (3,), -1.0), ((2, 0, 2), (0, 1, 0),
    (1, 0, 0), 2.0), ((1, 1, 2, 2), (0, 0, 1, 1), (0, 0, 1, 1), None):
    x = rand(*shape)
    case("pad x" + attrs(before=before, after=after, value=value),
         np.pad(x.numpy(), list(zip(before, after)), constant_values=value or 0), NUMPY, x=x)

for value, x in (1.5, torch.full((2, 3), 1.5)), (0.0, torch.zeros(4)), (-7.0,
    torch.full((3,), -7, dtype=torch.int32)), (1.0, torch.ones(2, 2, dtype=torch.bool)), \
        (0.1, torch.full((3,), 0.1)), (0.1, torch.full((2,), 0.1).half()), (0.5, torch.full((), 0.5)):
    case("const" + attrs(value=value), x)
for axis, shape in (0, (5,)), (1, (2, 4)), (0, (3, 2)), (2, (2, 1, 3)):
    y = torch.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))]).expand(shape)
    for d in torch.float64, torch.int32, torch.uint8:
        case("iota" + attrs(axis=axis), y.to(d))
case("iota", torch.arange(300).to(torch.uint8))

for shape, axis, rows, pos in ((6, 2), 0, 2, 3), ((2, 5, 3), 1, 1, 0), ((2, 5, 3), 1, 5, 0), ((4,), 0, 1,
    3), ((1, 2, 4, 2), 2, 3, 1):
    for d in torch.int32, torch.int64:
        state, new = rand(*shape), rand(*[rows if i == axis else n for i, n in enumerate(shape)])
        y = state.clone()
        y.narrow(axis, pos, rows).copy_(new)
        case("kv_append s, rows, pos" + attrs(axis=axis), y, s=state, rows=new, pos=torch.tensor(pos, dtype=d))

for x in kinds(3, 4):
    case("flip x {axes=[1]}", x.flip(1), bits=True, x=x)
    case("flip x {axes=[0,1]}", x.flip(0, 1), bits=True, x=x)
    case("roll x {axes=[0,1], shifts=[1,-3]}", x.roll((1, -3), (0, 1)), bits=True, x=x)
    case("stack x, y {axis=1}", torch.stack([x, x.flip(0)], 1), bits=True, x=x, y=x.flip(0))
    case("tile x {repeats=[2,3]}", x.repeat(2, 3), bits=True, x=x)
    case("repeat x {axis=1, times=3}", x.repeat_interleave(3, 1), bits=True, x=x)
    case("tril x {diagonal=1}", x.tril(1), bits=True, x=x)
    case("triu x {diagonal=-1}", x.triu(-1), bits=True, x=x)
    case("dynamic_slice x, s {axis=1, len=2}", x.narrow(1, 2, 2), bits=True, x=x, s=torch.tensor(2))
    case("gather_batched x, i {batch_dims=1}", torch.stack([r[[3, 0]] for r in x]), bits=True, x=x,
         i=torch.tensor([[3, 0]] * 3))
for shape, axes in ((7,), (0,)), ((2, 3, 4), (0, 2)), ((2, 0, 3), (1, 2)), ((1, 5, 2), (1,)):
    x = rand(*shape)
    case("flip x" + attrs(axes=axes), np.flip(x.numpy(), axes), NUMPY, x=x)
for shape, axes, shifts in ((7,), (0,), (-9,)), ((2, 5, 4), (0, 2), (1, 5)), ((0, 3), (0, 1), (2, 1)), ((1, 8, 8, 2),
    (1, 2), (-3, -3)):
    x = rand(*shape)
    case("roll x" + attrs(axes=axes, shifts=shifts), np.roll(x.numpy(), shifts, axes), NUMPY, x=x)
for axis, shape in (0, ()), (2, (2, 3)), (1, (2, 0)):
    x, y, z = rand(*shape), rand(*shape), rand(*shape)
    case("stack x, y, z" + attrs(axis=axis), np.stack([x, y, z], axis), NUMPY, x=x, y=y, z=z)
for shape, repeats in ((3,), (0,)), ((2, 1, 3), (1, 4, 2)), ((), ()), ((1, 2, 1, 3), (3, 1, 2, 2)):
    x = rand(*shape)
    case("tile x {repeats=%s}" % ints(repeats), np.tile(x.numpy(), repeats), NUMPY, x=x)
for shape, axis, times in ((4,), 0, 1), ((2, 3, 2), 0, 2), ((2, 3, 2), 2, 5), ((0, 2), 0, 3):
    x = rand(*shape)
    case("repeat x" + attrs(axis=axis, times=times), np.repeat(x.numpy(), times, axis), NUMPY, x=x)
for shape, k in ((5, 5), 0), ((3, 7), -2), ((2, 7, 3), 4), ((4, 4), -9), ((2, 0, 3), 0):
    x = rand(*shape)
    case("tril x" + attrs(diagonal=k), np.tril(x.numpy(), k), NUMPY, x=x)
    case("triu x" + attrs(diagonal=k), np.triu(x.numpy(), k), NUMPY, x=x)
for d, name in (torch.float64, "f32"), (torch.int32, "i32"), (torch.bool, "bool"), (torch.uint8, "u8"), (torch.float16,
    "f16"):
    i = randint(0, 5, 2, 3, dtype=torch.int64)
    case("one_hot i {depth=6, dtype=%s}" % name, F.one_hot(i, 6).to(d), i=i)
for shape, axis, start, n in ((7,), 0, 0, 7), ((2, 3, 5), 2, 4, 1), ((4, 2), 0, 1, 0):
    for d in torch.int32, torch.int64:
        x = rand(*shape)
        case("dynamic_slice x, s" + attrs(axis=axis, len=n), x.narrow(axis, start, n), x=x,
             s=torch.tensor(start, dtype=d))
for shape, b, idx in ((2, 3, 5), 2, ()), ((2, 3, 5), 1, (4,)), ((3, 4, 2, 2), 2, (2, 3)), ((1, 6), 1, (0,)):
    x, i = rand(*shape), randint(0, shape[b] - 1, *shape[:b], *idx, dtype=torch.int64)
    flat = x.reshape(-1, *shape[b:])
    y = torch.stack([t[k] for t, k in zip(flat, i.reshape(len(flat), *idx))]).reshape(*shape[:b], *idx, *shape[b + 1:])
    case("gather_batched x, i" + attrs(batch_dims=b), y, x=x, i=i)
for shape, rows in ((6,), 3), ((9, 2), 4), ((5, 2, 3), 1), ((0, 2), 3), ((40, 3), 7):
    for d in torch.float64, torch.int32:
        x, i = rand(*shape) if d == torch.float64 else randint(-9, 9, *shape, dtype=d), randint(0, rows - 1, shape[0],
            dtype=torch.int64)
        y, r = x.new_zeros(rows, *shape[1:]) + 2, {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
        for how in r:
            u = i.reshape(-1, *(1 for _ in shape[1:])).expand(*shape)
            case('scatter y, i, x {reduce="%s"}' % how, y.scatter_reduce(0, u, x, r[how]), y=y, i=i, x=x)
        p = torch.randperm(max(rows, 1))[: min(rows, shape[0])]
        case("scatter y, p, z", y.index_copy(0, p, x[: len(p)]), y=y, p=p, z=x[: len(p)])
        case("scatter_add x, i", torch.zeros(rows, *shape[1:], dtype=x.dtype).index_add(0, i, x), x=x, i=i)

for shape, to in ((1, 2, 3, 4), (6, 8)), ((1, 1, 5, 7), (3, 4)), ((2, 1, 4, 6), (9, 5)), ((1, 1, 1, 1),
    (3, 2)), ((1, 2, 8, 3), (8, 7)):
    x = rand(*shape)
    case('resize x {coords="asymmetric", mode="nearest"}', F.interpolate(x, to, mode="nearest"), x=x)
    case('resize x {coords="half_pixel", mode="nearest"}', F.interpolate(x, to, mode="nearest-exact"), x=x)
    case('resize x {coords="half_pixel", mode="linear"}', F.interpolate(x, to, mode="bilinear"), x=x)
    case('resize x {coords="align_corners", mode="linear"}', F.interpolate(x, to, mode="bilinear", align_corners=True),
         x=x)
for shape, size in ((1, 4, 2, 3), 2), ((2, 18, 2, 1), 3), ((1, 3, 2, 2), 1), ((0, 4, 2, 2), 2):
    x = rand(*shape)
    y = F.pixel_shuffle(x, size) if shape[0] else torch.zeros(0, shape[1] // size**2, shape[2] * size, shape[3] * size,
        dtype=x.dtype)
    case('depth_to_space x {order="crd", size=%d}' % size, y, x=x)
    case('space_to_depth x {order="crd", size=%d}' % size, x, x=y)
for node, op in ("DepthToSpace", "depth_to_space"), ("SpaceToDepth", "space_to_depth"):
    for source, attrs_of, ins, outs in onnx_nodes(node):
        order = attrs_of.get("mode", b"DCR").decode().lower()
        case('%s x {order="%s", size=%d}' % (op, order, attrs_of["blocksize"]), outs[0], source, tol=F32, x=ins[0])

from onnx import helper, TensorProto
from onnx.reference import ReferenceEvaluator
from torchvision.ops import roi_align


def evaluate_roi_align(x, boxes, i, **a):
    """The result of ONNX's reference implementation."""
    kinds = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64]
    values = [helper.make_tensor_value_info(n, k, None) for n, k in zip("xbi", kinds)]
    graph = helper.make_graph([helper.make_node("RoiAlign", list("xbi"), ["y"], **a)], "g", values,
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)])
    return ReferenceEvaluator(model).run(None, dict(x=x.float().numpy(), b=boxes.float().numpy(), i=i.numpy()))[0]


for shape, count, out, ratio, scale in ((1, 1, 1, 1), 1, (1, 1), 1, 1.0), ((2, 3, 5, 7), 4, (2, 3), 2, 0.5), (
    (3, 2, 9, 20), 6, (7, 5), 3, 0.25), ((1, 4, 6, 5), 3, (1, 2), 1, 2.0), ((2, 2, 5, 4), 0, (2, 2), 2, 1.0):
    x, i = rand(*shape), randint(0, shape[0] - 1, count, dtype=torch.int64)
    boxes = (rand(count, 4) + 0.5) * torch.tensor([shape[3], shape[2]] * 2) / scale  # some leave the image
    for half in False, True:
        y = roi_align(x, torch.cat([i[:, None].to(x.dtype), boxes], 1), out, scale, ratio, half)
        line = "roi_align x, boxes, i {%%soutput=[%d,%d], ratio=%d, scale=%s}" % (*out, ratio, scale)
        case(line % ("half=true, " if half else ""), y, "torchvision", x=x, boxes=boxes, i=i)
        if count and ratio > 1:
            y = evaluate_roi_align(x, boxes, i, mode="max", output_height=out[0], output_width=out[1],
                                   sampling_ratio=ratio, spatial_scale=scale, coordinate_transformation_mode=
                                   "half_pixel" if half else "output_half_pixel")
            case(line % ("half=true, max=true, " if half else "max=true, "), y, "onnx reference", tol=F32,
                 x=x.float(), boxes=boxes.float(), i=i)

for shape, out in ((1, 1, 1, 1), (2, 2)), ((2, 3, 5, 7), (4, 3)), ((1, 2, 6, 5), (3, 5)), ((2, 0, 3, 4), (2, 2)), (
    (1, 2, 3, 4, 5), (2, 3, 2)):
    x, grid = rand(*shape), rand(shape[0], *out, len(out)) * 1.6
    for mode in "nearest", "linear", "cubic":
        if mode == "cubic" and len(out) == 3:
            continue
        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        for padding in "zeros", "border", "reflection":
            # PyTorch does not limit a position of cubic before it reads elements, as ONNX does.
            g = grid.clamp(-0.98, 0.98) if mode == "cubic" and padding == "border" else grid
            for corners in False, True:
                line = "grid_sample x, grid {%%smode=\"%s\", padding=\"%s\"}" % (mode, padding)
                y = F.grid_sample(x, g, name, padding, corners)
                case(line % ("corners=true, " if corners else ""), y, x=x, grid=g)
x = torch.tensor([nan, 1, inf, 2, 3, -inf, 4, 5, 6]).reshape(1, 1, 3, 3).double()
grid = torch.tensor([-5, 0, 0.1, -0.4, 0.2, 0.9, 1.4, 7, 9, 0.1, -0.2, -8, 0.3, 0.6]).reshape(1, 1, 7, 2).double()
case('grid_sample x, grid {mode="linear", padding="zeros"}', F.grid_sample(x, grid, "bilinear", "zeros", False), x=x,
     grid=grid)
