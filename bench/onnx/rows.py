"""rows.py DIR: writes models whose numbers of rows and iterations depend on the data, with ONNX Runtime's results.

    python bench/onnx/rows.py models/onnx/testdata

writes dynamic_rows (ops along an axis whose number of used rows depends on the data), dynamic_parts (Slice and Split
at positions that depend on the data), dynamic_loops (Loop whose number of iterations is a size), dynamic_whiles (Loop
that a condition ends), dynamic_scans (Scan over an open axis), dynamic_branches (If), dynamic_expanded (GatherElements
and ScatterElements with an index for each row), dynamic_picked (GatherElements with such indices for each batch, or
along the last axis), dynamic_signal (Fourier transforms and parts of an axis of open size), dynamic_windows
(convolutions and pools of images of open sizes), dynamic_past (caches whose length may be 0) and dynamic_joined (If
whose branches have different shapes).
"""

import os, sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


class Model:
    """A graph that is built node by node."""

    def __init__(self, **inputs):
        self.inputs = [helper.make_tensor_value_info(k, *v) for k, v in inputs.items()]
        self.nodes, self.outputs, self.constants = [], [], []

    def const(self, value, dtype=np.int64):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(self, op, *inputs, outputs=1, **attrs):
        names = [f"{op}{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attrs))
        return names[0] if outputs == 1 else names

    def returns(self, value, kind=TensorProto.FLOAT):
        name = f"y{len(self.outputs)}"
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def digest(self, rows):
        """Returns the sum of the rows, each times its number, which says whether each is in its place."""
        zero = self.op("Mul", rows, self.const(0, np.float32))
        number = self.op("CumSum", self.op("Add", zero, self.const(1, np.float32)), self.const(0))
        self.returns(self.op("ReduceSum", self.op("Mul", rows, number), self.const([0]), keepdims=0))

    def write(self, path, *feeds):
        g = helper.make_graph(self.nodes, "main", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        m = helper.make_model(g, opset_imports=opsets, ir_version=8)
        s = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
        for k, feed in enumerate(feeds):
            d = path if k == 0 else os.path.join(path, f"size{k}")
            os.makedirs(d, exist_ok=True)
            for kind, values in ("input", feed.values()), ("output", s.run(None, feed)):
                for i, v in enumerate(values):
                    name = list(feed)[i] if kind == "input" else ""
                    with open(os.path.join(d, f"{kind}_{i}.pb"), "wb") as f:
                        f.write(numpy_helper.from_array(np.asarray(v), name).SerializeToString())
        with open(os.path.join(path, "model.onnx"), "wb") as f:
            f.write(m.SerializeToString())
        with open(os.path.join(path, "tolerance"), "w") as f:
            f.write("largest 1e-4")


def chosen(m, x):
    """Returns the rows of x that begin with a positive number, their positions, and their number as [1]."""
    mask = m.op("Greater", m.op("Gather", x, m.const(0), axis=1), m.const(0, np.float32))
    at = m.op("Squeeze", m.op("NonZero", mask), m.const([0]))
    count = m.op("ReduceSum", m.op("Cast", mask, to=TensorProto.INT64), m.const([0]))
    return m.op("Gather", x, at, axis=0), at, count


def rows():
    m = Model(x=(TensorProto.FLOAT, ["n", 3]))
    r, at, _ = chosen(m, "x")
    for name in "Sum Mean Max Min Prod L1 L2 LogSumExp SumSquare".split():
        m.returns(m.op("Reduce" + name, r, m.const([0]), keepdims=0))
        m.returns(m.op("Reduce" + name, r))
    for name in "Max Min Sum".split():
        m.returns(m.op("Reduce" + name, at, m.const([0])), TensorProto.INT64)
    for name in "ArgMax", "ArgMin":
        m.returns(m.op(name, r, axis=0), TensorProto.INT64)
    for name in "Softmax", "LogSoftmax":
        m.digest(m.op(name, r, axis=0))
    for reverse in 0, 1:
        m.digest(m.op("CumSum", r, m.const(0), reverse=reverse, exclusive=reverse))
    m.digest(m.op("Concat", r, "x", m.op("Mul", r, m.const(2, np.float32)), axis=0))
    most = 1 << 62
    for start, end in (1, most), (-2, most), (0, -1), (1, 3), (-3, -1), (5, 2):
        m.digest(m.op("Slice", r, m.const([start]), m.const([end])))
    m.digest(m.op("Slice", r, m.const([1, 1]), m.const([most, 3]), m.const([0, 1])))
    m.returns(m.op("Gather", r, m.const([0, -1]), axis=0))
    small = m.op("Less", m.op("Gather", r, m.const(1), axis=1), m.const(0.5, np.float32))
    again = m.op("Squeeze", m.op("NonZero", small), m.const([0]))
    m.returns(m.op("ReduceSum", again, m.const([0])), TensorProto.INT64)
    some = [helper.make_node("ReduceMax", [r, "first"], ["w"], keepdims=0)]
    none = [helper.make_node("ReduceMin", [r, "first"], ["w"], keepdims=0)]
    m.constants.append(numpy_helper.from_array(np.array([0]), "first"))
    out = [helper.make_tensor_value_info("w", TensorProto.FLOAT, None)]
    then, other = (helper.make_graph(nodes, "branch", [], out) for nodes in (some, none))
    large = m.op("Greater", m.op("ReduceSum", "x", keepdims=0), m.const(0, np.float32))
    m.returns(m.op("If", large, then_branch=then, else_branch=other))
    number = m.op("Range", m.const(0), m.op("Squeeze", m.op("Shape", r, start=0, end=1)), m.const(1))
    m.returns(m.op("ReduceSum", number, m.const([0])), TensorProto.INT64)
    m.returns(m.op("MatMul", m.op("Transpose", r, perm=[1, 0]), r))
    other, _, _ = chosen(m, m.op("Add", "x", m.const(0, np.float32)))
    m.digest(m.op("Sub", m.op("Mul", r, m.const(3, np.float32)), other))
    m.digest(m.op("Gather", m.op("Concat", "x", "x", axis=0), m.op("Sub", at, m.const(2)), axis=0))
    return m


def parts():
    m = Model(x=(TensorProto.FLOAT, ["n", 3]))
    _, _, count = chosen(m, "x")
    rest = m.op("Sub", m.op("Shape", "x", start=0, end=1), count)
    a, b = m.op("Split", "x", m.op("Concat", count, rest, axis=0), outputs=2, axis=0)
    m.digest(a)
    m.digest(b)
    joined = m.op("Concat", b, a, axis=0)
    m.digest(joined)
    m.returns(m.op("Add", joined, "x"))
    m.returns(m.op("Expand", joined, m.op("Shape", "x")))
    one = m.const([1])
    m.digest(m.op("Slice", "x", count, m.const([1 << 62])))
    m.digest(m.op("Slice", "x", m.const([0]), count))
    m.digest(m.op("Slice", "x", m.op("Sub", count, one), m.op("Add", count, one)))
    m.digest(m.op("Slice", "x", m.op("Neg", count), m.const([-1])))
    return m


def loop(m, trip, threshold, stacked):
    """Adds a Loop that sums the first lens[i] elements of row i, and ends after a sum of more than threshold."""
    f, i = TensorProto.FLOAT, TensorProto.INT64
    node = helper.make_node
    body = helper.make_graph(
        [
            node("Gather", ["x", "i"], ["row"]),
            node("Gather", ["lens", "i"], ["len"]),
            node("Unsqueeze", ["len", "zero"], ["end"]),
            node("Slice", ["row", "zero", "end"], ["part"]),
            node("ReduceSum", ["part"], ["sum"], keepdims=0),
            node("Add", ["acc", "sum"], ["next"]),
            node("Less", ["sum", threshold], ["go"]) if threshold else node("Identity", ["cond"], ["go"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", i, []),
            helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
            helper.make_tensor_value_info("acc", f, []),
        ],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_tensor_value_info("next", f, [])]
        + [helper.make_tensor_value_info("sum", f, [])] * stacked,
    )
    start, yes = m.const(0.5, np.float32), m.const(True, np.bool_)
    return m.op("Loop", trip, yes, start, outputs=1 + stacked, body=body)


def loops():
    m = Model(x=(TensorProto.FLOAT, ["b", "s"]), lens=(TensorProto.INT64, ["b"]))
    m.constants.append(numpy_helper.from_array(np.array([0]), "zero"))
    b = m.op("Squeeze", m.op("Shape", "x", start=0, end=1))
    for trip in b, m.op("Sub", b, m.const(1)):
        state, sums = loop(m, trip, None, 1)
        m.returns(state)
        m.returns(sums)
    for threshold in 0.3, -99, 99:
        state, sums = loop(m, b, m.const(threshold, np.float32), 1)
        m.returns(state)
        m.digest(sums)
    positive = m.op("Greater", m.op("Gather", "x", m.const(0), axis=1), m.const(0, np.float32))
    count = m.op("Squeeze", m.op("Shape", m.op("NonZero", positive), start=1))
    state, sums = loop(m, count, None, 1)
    m.returns(state)
    m.digest(sums)
    return m


def branches():
    """Several If whose graphs have the same names and read the same weights, as the graph around them does."""
    m = Model(x=(TensorProto.FLOAT, ["n", 3]))
    small, large = m.const([1, 2, 3], np.float32), m.const(np.linspace(-1, 1, 4200).reshape(1400, 3), np.float32)
    rows = m.op("Slice", large, m.const([0]), m.const([1]))
    before = m.op("Add", "x", small)

    def branch(op, weight):
        out = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        first = helper.make_node("ReduceMax", [weight, "axes"], ["w"])
        return helper.make_graph([first, helper.make_node(op, ["x", "w"], ["z"])], "branch", [], [out])

    m.constants.append(numpy_helper.from_array(np.array([0]), "axes"))
    for limit in -99, 99:
        positive = m.op("Greater", m.op("ReduceSum", "x", keepdims=0), m.const(limit, np.float32))
        m.returns(m.op("If", positive, then_branch=branch("Mul", small), else_branch=branch("Sub", large)))
    m.returns(m.op("Mul", before, rows))
    return m


def expanded():
    """One index for each row, expanded to its elements: to all of a row, to some, and along another axis."""
    m = Model(x=(TensorProto.FLOAT, ["n", 3]), i=(TensorProto.INT64, ["k"]), u=(TensorProto.FLOAT, ["k", 3]))
    column = m.op("Unsqueeze", "i", m.const([1]))
    whole = m.op("Expand", column, m.op("Shape", "u"))
    some = m.op("Expand", column, m.const([1, 2]))
    part = m.op("Slice", "u", m.const([0]), m.const([2]), m.const([1]))
    for idx, updates in (whole, "u"), (some, part):
        m.returns(m.op("GatherElements", "x", idx, axis=0))
        for how in "add", "max":
            m.returns(m.op("ScatterElements", "x", idx, updates, axis=0, reduction=how))
    turned = m.op("Transpose", "x", perm=[1, 0])
    across = m.op("Expand", m.op("Unsqueeze", "i", m.const([0])), m.const([3, 1]))
    m.returns(m.op("GatherElements", turned, across, axis=1))
    deep = m.op("Unsqueeze", "x", m.const([2]))
    m.returns(m.op("GatherElements", deep, m.op("Unsqueeze", whole, m.const([2])), axis=0))
    return m


def signal():
    """Fourier transforms along an axis of open size, parts of it, and a shape of which one size is replaced."""
    m = Model(x=(TensorProto.FLOAT, ["b", "n"]))
    wave = m.op("Unsqueeze", "x", m.const([2]))
    window = m.const(np.hanning(8), np.float32)
    m.returns(m.op("STFT", wave, m.const(3), window, m.const(8), onesided=1))
    m.returns(m.op("STFT", wave, m.const(5), "", m.const(6), onesided=0))
    whole = m.op("DFT", wave, axis=1)
    for y in whole, m.op("DFT", wave, axis=1, onesided=1), m.op("DFT", whole, axis=1, inverse=1):
        m.returns(y)
    for part in m.op("Split", "x", outputs=3, axis=1, num_outputs=3):
        m.returns(part)
    shape = m.op("ScatterElements", m.op("Shape", "x"), m.const([-1]), m.const([2]))
    m.returns(m.op("Expand", m.op("Slice", "x", m.const([0]), m.const([1]), m.const([1])), shape))
    return m


def windows():
    """Windows that need a smallest image."""
    m = Model(x=(TensorProto.FLOAT, [1, 2, "h", "w"]))
    weight = lambda *shape: m.const(np.random.default_rng(1).standard_normal(shape), np.float32)
    y = m.op("Conv", "x", weight(3, 2, 3, 3))
    y = m.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = m.op("Conv", y, weight(2, 3, 3, 2))
    m.returns(m.op("ConvTranspose", y, weight(2, 1, 2, 2), pads=[1, 1, 1, 1]))
    m.returns(m.op("TopK", y, m.const([2]), outputs=2)[0])
    return m


def whiles():
    """Loop that only a condition on the data ends, and one with a large limit of its iterations."""
    m = Model(x=(TensorProto.FLOAT, ["n", 3]))
    half, one = m.const(0.5, np.float32), m.const(1, np.float32)
    yes = m.const(True, np.bool_)

    def body(value):
        node, info = helper.make_node, helper.make_tensor_value_info
        nodes = [node("Mul", ["v", half], ["w"]), node("Add", ["c", value], ["d"]), node("Abs", ["w"], ["a"]),
                 node("ReduceMax", ["a"], ["top"], keepdims=0), node("Greater", ["top", one], ["go"])]
        inputs = [info("i", TensorProto.INT64, []), info("run", TensorProto.BOOL, []),
                  info("v", TensorProto.FLOAT, ["n", 3]), info("c", TensorProto.FLOAT, [])]
        outputs = [info(k, TensorProto.BOOL if k == "go" else TensorProto.FLOAT, None) for k in ["go", "w", "d"]]
        return helper.make_graph(nodes, "body", inputs, outputs)

    start = m.op("ReduceMin", "x", keepdims=0)
    for trip in "", m.const(500):
        for y in m.op("Loop", trip, yes, "x", start, outputs=2, body=body(start)):
            m.returns(y)
    large = m.op("Greater", start, m.const(-2, np.float32))
    for y in m.op("Loop", "", large, "x", start, outputs=2, body=body(half)):
        m.returns(y)
    return m


def scans():
    """Scan over an open axis, in both directions, with a state and several axes."""
    m = Model(x=(TensorProto.FLOAT, ["n", 3]), z=(TensorProto.FLOAT, [2, "n"]))
    node, info = helper.make_node, helper.make_tensor_value_info
    nodes = [node("Mul", ["s", m.const(0.5, np.float32)], ["h"]), node("Add", ["h", "a"], ["t"]),
             node("ReduceSum", ["b"], ["r"], keepdims=1), node("Mul", ["t", "r"], ["u"]), node("Neg", ["a"], ["w"])]
    inputs = [info("s", TensorProto.FLOAT, [3]), info("a", TensorProto.FLOAT, [3]), info("b", TensorProto.FLOAT, [2])]
    outputs = [info(k, TensorProto.FLOAT, [3]) for k in ["t", "u", "w"]]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    start = m.const([1, -1, 2], np.float32)
    for into, back in ([0, 1], [0, 0]), ([1, 0], [1, 0]):
        for y in m.op("Scan", start, "x", "z", outputs=3, body=body, num_scan_inputs=2, scan_input_axes=[0, 1],
                      scan_input_directions=into, scan_output_axes=[1, 0], scan_output_directions=back):
            m.returns(y)
    return m


def past():
    """Three caches: rows that come first, rows that are transposed in between, and GroupQueryAttention's."""
    f, i32 = TensorProto.FLOAT, TensorProto.INT32
    cache = [f, ["b", 2, "r", 8]]
    m = Model(x=[f, ["b", "s", 16]], v=[f, ["b", "p", 16]], w=[f, ["b", "q", 2, 8]], k=cache, l=cache, n=[i32, ["b"]])
    m.returns(m.op("ReduceSum", m.op("Concat", "v", "x", axis=1), m.const([1]), keepdims=0))
    split = m.op("Reshape", "x", m.const([0, 0, 2, 8]))
    new, old = (m.op("Transpose", y, perm=[0, 2, 1, 3]) for y in (split, "w"))
    keys = m.op("Concat", old, new, axis=2)
    scores = m.op("Softmax", m.op("MatMul", new, m.op("Transpose", keys, perm=[0, 1, 3, 2])))
    m.returns(m.op("MatMul", scores, keys))
    long = lambda y, axis: m.op("Gather", m.op("Shape", y), m.const(axis))
    total = m.op("Cast", m.op("Add", long("x", 1), long("k", 2)), to=i32)
    attention = dict(num_heads=2, kv_num_heads=2, domain="com.microsoft", outputs=3)
    for y in m.op("GroupQueryAttention", "x", "x", "x", "k", "l", "n", total, **attention):
        m.returns(y)
    return m


def joined():
    """If whose branches have different numbers of rows, or different ranks, where the size x_rows decides."""
    f, k = TensorProto.FLOAT, lambda v: m.const(v)
    m = Model(x=[f, ["x_rows", 4]], p=[f, ["p_rows", 4]], use=[TensorProto.BOOL, []])

    def either(condition, yes, no):
        def graph(name, *node):
            result = helper.make_tensor_value_info("z", f, None)
            return helper.make_graph([helper.make_node(*node[:1], list(node[1:]), ["z"])], name, [], [result])

        return m.op("If", condition, then_branch=graph("yes", *yes), else_branch=graph("no", *no))

    n = m.op("Gather", m.op("Shape", "x"), k(0))
    both = m.op("Concat", "p", "x", axis=0)
    pads, axis, first = k([0, 0, 1, 0]), k([1]), k(0)
    odd = m.op("Equal", m.op("Mod", n, k(2)), k(1))
    for y in either("use", ["Identity", both], ["Relu", "x"]), either(odd, ["Pad", "x", pads], ["Identity", "x"]):
        m.digest(y)
    for c in m.op("Equal", n, k(1)), m.op("Not", m.op("Greater", n, k(1))), m.op("LessOrEqual", n, k(1)):
        m.returns(either(c, ["Gather", "x", first], ["Relu", "x"]))
    return m


def picked():
    """GatherElements along axes behind a batch: of whole rows, of rows in part, and along the last axis."""
    m = Model(x=(TensorProto.FLOAT, ["b", 4, "s", 3]), i=(TensorProto.INT64, ["b", 4, "k", 1]),
              j=(TensorProto.INT64, ["b", 4, "s", 2]))
    first = m.op("Slice", "i", m.const([0]), m.const([2]), m.const([1]))
    of = lambda i, n: m.op("Expand", i, m.const([1, 1, 1, n]))
    for data, kind in ("x", TensorProto.FLOAT), (m.op("Cast", "x", to=TensorProto.INT64), TensorProto.INT64):
        m.returns(m.op("GatherElements", data, of("i", 3), axis=2), kind)
        m.returns(m.op("GatherElements", data, of("i", 2), axis=2), kind)
        m.returns(m.op("GatherElements", data, of(first, 3), axis=-2), kind)
        m.returns(m.op("GatherElements", data, "j", axis=-1), kind)
    return m


def main(out):
    rng = np.random.default_rng(7)

    def x(*shape):
        v = rng.standard_normal(shape).astype(np.float32)
        v[0, 0] = abs(v[0, 0])
        return v

    rows().write(os.path.join(out, "dynamic_rows"), {"x": x(7, 3)}, {"x": abs(x(5, 3))}, {"x": x(16, 3)})
    parts().write(os.path.join(out, "dynamic_parts"), {"x": x(7, 3)}, {"x": abs(x(5, 3))}, {"x": x(16, 3)})
    branches().write(os.path.join(out, "dynamic_branches"), {"x": x(2, 3)}, {"x": x(5, 3)})
    feeds = []
    for b, s in (4, 3), (7, 5), (1, 2):
        feeds.append({"x": x(b, s), "lens": rng.integers(0, s + 1, b)})
    loops().write(os.path.join(out, "dynamic_loops"), *feeds)
    whiles().write(os.path.join(out, "dynamic_whiles"), {"x": 9 * x(4, 3)}, {"x": x(1, 3)}, {"x": 99 * x(6, 3)})
    scans().write(os.path.join(out, "dynamic_scans"), *[{"x": x(n, 3), "z": x(2, n)} for n in (4, 1, 7)])
    feeds = []
    for n, k in (5, 4), (2, 9), (7, 1):
        feeds.append({"x": x(n, 3), "i": rng.integers(-n, n, k), "u": x(k, 3)})
    signal().write(os.path.join(out, "dynamic_signal"), *({"x": x(*s)} for s in ((2, 17), (1, 10), (3, 9))))
    windows().write(os.path.join(out, "dynamic_windows"), *({"x": x(1, 2, *s)} for s in ((12, 10), (10, 8), (11, 13))))
    expanded().write(os.path.join(out, "dynamic_expanded"), *feeds)
    feeds = []
    for b, s, p in (2, 3, 0), (1, 2, 4), (3, 1, 5):
        cache = {"v": x(b, p + 1, 16)[:, 1:], "w": x(b, p + 1, 2, 8)[:, 1:], "k": x(b, 2, p, 8), "l": x(b, 2, p, 8)}
        feeds.append({"x": x(b, s, 16), **cache, "n": np.full(b, s + p - 1, np.int32)})
    sizes = (3, 2, True), (2, 5, False), (5, 1, True)
    branched = [{"x": x(n, 4), "p": x(p, 4), "use": np.array(use)} for n, p, use in sizes]
    joined().write(os.path.join(out, "dynamic_joined"), *branched)
    past().write(os.path.join(out, "dynamic_past"), *feeds)
    feeds = []
    for b, n, k in (2, 5, 3), (1, 2, 9), (3, 7, 1):
        feeds.append({"x": x(b, 4, n, 3) * 9, "i": rng.integers(-n, n, (b, 4, k, 1)),
                      "j": rng.integers(-3, 3, (b, 4, n, 2))})
    picked().write(os.path.join(out, "dynamic_picked"), *feeds)


if __name__ == "__main__":
    main(sys.argv[1])
