"""What moves elements: views, copies, slices, concatenation, padding, gathering, and tensors of a rule."""
import numpy as np
import torch
import torch.nn.functional as F

from write import NUMPY, among, case, inf, nan, rand, randint, typed


def ints(v):
    return "[%s]" % ",".join(map(str, v))


def attrs(**a):
    a = {k: v for k, v in a.items() if v not in (0, None)}
    return " {%s}" % ", ".join("%s=%s" % (k, ints(v) if isinstance(v, (list, tuple)) else v) for k, v in sorted(a.items())) if a else ""


def kinds(*shape):
    """A tensor of each kind that moving must keep as it is."""
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
    case("pad x {after=[1,0], before=[0,2]}", F.pad(x.to(torch.int64) if x.dtype == torch.bool else x, (2, 0, 0, 1)).to(x.dtype), bits=True, x=x)

for shape, to in ((2, 3, 4), (24,)), ((24,), (4, 1, 6)), ((), (1, 1)), ((2, 0), (0, 5)):
    x = rand(*shape)
    case("reshape x", x.reshape(to), x=x)
for shape, perm in ((2, 3, 4), (2, 0, 1)), ((2, 3, 4, 5), (0, 2, 1, 3)), ((2, 3, 4, 5), (3, 2, 1, 0)), ((0, 3), (1, 0)), ((5,), (0,)):
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
for shape, axis, idx in ((5, 3), 0, (2, 2)), ((2, 6, 3), 1, (4,)), ((2, 3, 7), 2, (1, 3)), ((4,), 0, ()), ((3, 2), 1, (0,)):
    for d in torch.int32, torch.int64, None:
        x, i = rand(*shape), randint(0, shape[axis] - 1, *idx, dtype=torch.int64)
        y = np.take(x.numpy(), i.numpy(), axis)
        case("gather x, i" + attrs(axis=axis), y, NUMPY, x=x, i=i.to(d) if d else typed("u32", i))
for shape, before, after, value in ((3, 4), (1, 3), (0, 2), 0.5), ((2,), (2,), (3,), -1.0), ((2, 0, 2), (0, 1, 0), (1, 0, 0), 2.0), ((1, 1, 2, 2), (0, 0, 1, 1), (0, 0, 1, 1), None):
    x = rand(*shape)
    case("pad x" + attrs(before=before, after=after, value=value), np.pad(x.numpy(), list(zip(before, after)), constant_values=value or 0), NUMPY, x=x)

for value, x in (1.5, torch.full((2, 3), 1.5)), (0.0, torch.zeros(4)), (-7.0, torch.full((3,), -7, dtype=torch.int32)), (1.0, torch.ones(2, 2, dtype=torch.bool)), \
        (0.1, torch.full((3,), 0.1)), (0.1, torch.full((2,), 0.1).half()), (0.5, torch.full((), 0.5)):
    case("const" + attrs(value=value), x)
for axis, shape in (0, (5,)), (1, (2, 4)), (0, (3, 2)), (2, (2, 1, 3)):
    y = torch.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))]).expand(shape)
    for d in torch.float64, torch.int32, torch.uint8:
        case("iota" + attrs(axis=axis), y.to(d))
case("iota", torch.arange(300).to(torch.uint8))

for shape, axis, rows, pos in ((6, 2), 0, 2, 3), ((2, 5, 3), 1, 1, 0), ((2, 5, 3), 1, 5, 0), ((4,), 0, 1, 3), ((1, 2, 4, 2), 2, 3, 1):
    for d in torch.int32, torch.int64:
        state, new = rand(*shape), rand(*[rows if i == axis else n for i, n in enumerate(shape)])
        y = state.clone()
        y.narrow(axis, pos, rows).copy_(new)
        case("kv_append s, rows, pos" + attrs(axis=axis), y, s=state, rows=new, pos=torch.tensor(pos, dtype=d))
