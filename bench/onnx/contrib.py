"""contrib.py DIR: writes a model with one op of com.microsoft for each test, with outputs of ONNX Runtime."""

import os, sys

import numpy as np, onnx, onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper as nh

rng = np.random.default_rng(3)
f = lambda *s: rng.standard_normal(s).astype(np.float32)
u8 = lambda *s: rng.integers(0, 256, s).astype(np.uint8)
i8 = lambda *s: rng.integers(-128, 128, s).astype(np.int8)
i32 = lambda *v: np.array(v, np.int32)
sc = lambda v: np.array(v, np.float32)
z = lambda v: np.array(v, np.uint8)
kinds = {
    np.dtype("float32"): T.FLOAT,
    np.dtype("uint8"): T.UINT8,
    np.dtype("int8"): T.INT8,
    np.dtype("int32"): T.INT32,
    np.dtype("int64"): T.INT64,
    np.dtype("float16"): T.FLOAT16,
    np.dtype("bool"): T.BOOL,
}


def test(
    name,
    op,
    inputs,
    outputs=1,
    domain="com.microsoft",
    tolerance="largest 1e-4",
    constant=(),
    same=None,
    want=None,
    **attrs,
):
    """same names a test whose outputs these are, and want has the outputs, for what ONNX Runtime has on GPUs only."""
    d = os.path.join(sys.argv[1], name)
    os.makedirs(d, exist_ok=True)
    names = ["" if x is None else f"in{i}" for i, x in enumerate(inputs)]
    outs = [f"out{i}" if outputs >> i & 1 else "" for i in range(outputs.bit_length())]
    node = h.make_node(op, names, outs, domain=domain, **attrs)
    feed = {n: x for i, (n, x) in enumerate(zip(names, inputs)) if n and i not in constant}
    g = h.make_graph(
        [node],
        "g",
        [h.make_tensor_value_info(n, kinds[x.dtype], x.shape) for n, x in feed.items()],
        [h.make_empty_tensor_value_info(o) for o in outs if o],
        [nh.from_array(inputs[i], names[i]) for i in constant if inputs[i] is not None],
    )
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=8)
    try:
        y = want
        if same:
            y = [nh.to_array(onnx.load_tensor(os.path.join(sys.argv[1], same, "output_0.pb")))]
        o = ort.SessionOptions()
        o.log_severity_level = 3
        y = (
            y
            if same or want
            else ort.InferenceSession(m.SerializeToString(), o, providers=["CPUExecutionProvider"]).run(None, feed)
        )
    except Exception as e:
        print("FAIL", name, str(e)[:200])
        os.rmdir(d)
        return
    for info, v in zip(m.graph.output, y):
        info.CopyFrom(h.make_tensor_value_info(info.name, kinds[v.dtype], v.shape))
    open(os.path.join(d, "model.onnx"), "wb").write(m.SerializeToString())
    for i, (n, v) in enumerate(feed.items()):
        open(os.path.join(d, f"input_{i}.pb"), "wb").write(nh.from_array(v, n).SerializeToString())
    for i, v in enumerate(y):
        open(os.path.join(d, f"output_{i}.pb"), "wb").write(nh.from_array(np.asarray(v)).SerializeToString())
    open(os.path.join(d, "tolerance"), "w").write(tolerance)


x = f(2, 5, 16)
test("gelu", "Gelu", [x])
test("fast_gelu", "FastGelu", [x, f(16)])
test("fast_gelu_plain", "FastGelu", [x])
test("bias_gelu", "BiasGelu", [x, f(16)])
test("quick_gelu", "QuickGelu", [x], alpha=1.5)
for a, b in (0, 0), (1, 0), (0, 1), (1, 1):
    test(
        f"fused_matmul_{a}{b}",
        "FusedMatMul",
        [f(2, *((4, 3) if a else (3, 4))), f(2, *((5, 4) if b else (4, 5)))],
        transA=a,
        transB=b,
        alpha=0.5,
    )
test("fused_matmul_batch", "FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], transBatchA=1)
test("fused_gemm", "FusedGemm", [f(3, 4), f(4, 5), f(5)], activation="Relu")
test("fused_gemm_leaky", "FusedGemm", [f(3, 4), f(4, 5), f(5)], activation="LeakyRelu", activation_alpha=0.2)
test("fused_conv", "FusedConv", [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4)], activation="Relu", pads=[1, 1, 1, 1])
test("skip_layer_norm", "SkipLayerNormalization", [x, f(2, 5, 16), f(16), f(16), f(16)], 9, epsilon=1e-5)
test("skip_layer_norm_plain", "SkipLayerNormalization", [x, f(2, 5, 16), f(16)])
test("skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, f(2, 5, 16), f(16)], 9, epsilon=1e-5)
test("rms_norm", "SimplifiedLayerNormalization", [x, f(16)], domain="", axis=-1, epsilon=1e-5)
ids = lambda *s: rng.integers(0, 9, s).astype(np.int32)
test(
    "embed_layer_norm",
    "EmbedLayerNormalization",
    [ids(2, 5), ids(2, 5) % 2, f(9, 16), f(9, 16), f(2, 16), f(16), f(16), i32([1, 1, 1, 0, 0], [1, 1, 1, 1, 1])],
    3,
)
w, bias = f(16, 48) / 4, f(48)
test("attention", "Attention", [x, w, bias], num_heads=4)
test("attention_causal", "Attention", [x, w, bias], num_heads=4, unidirectional=1)
test("attention_lengths", "Attention", [x, w, bias, i32(3, 5)], num_heads=4)
test("attention_mask", "Attention", [x, w, bias, i32([1, 1, 1, 0, 0], [1, 1, 1, 1, 1])], num_heads=4)
test("attention_past", "Attention", [f(2, 3, 16), w, bias, None, f(2, 2, 4, 6, 4)], 3, num_heads=4, unidirectional=1)
test("attention_bias", "Attention", [x, w, bias, None, None, f(1, 4, 5, 5)], num_heads=4)
test("attention_sizes", "Attention", [x, f(16, 40) / 4, f(40)], num_heads=4, qkv_hidden_sizes=[16, 16, 8])
q, k, v = f(2, 5, 16), f(2, 7, 16), f(2, 7, 16)
test("multi_head", "MultiHeadAttention", [q, k, v], num_heads=4)
test("multi_head_bias", "MultiHeadAttention", [q, k, v, f(48)], num_heads=4)
test("multi_head_mask", "MultiHeadAttention", [q, k, v, None, i32([1] * 7, [1, 1, 1, 1, 0, 0, 0])], num_heads=4)
test("multi_head_score_bias", "MultiHeadAttention", [q, k, v, None, None, f(1, 4, 5, 7)], num_heads=4, scale=0.3)
test(
    "multi_head_past",
    "MultiHeadAttention",
    [q, f(2, 5, 16), f(2, 5, 16), None, None, None, f(2, 4, 3, 4), f(2, 4, 3, 4)],
    7,
    num_heads=4,
)
heads = lambda t: t.reshape(*t.shape[:2], 4, 4)
test(
    "multi_head_packed_kv", "MultiHeadAttention", [q, np.stack([heads(k), heads(v)], 3)], num_heads=4, same="multi_head"
)
k5, v5 = f(2, 5, 16), f(2, 5, 16)
test("multi_head_self", "MultiHeadAttention", [q, k5, v5], num_heads=4)
test(
    "multi_head_packed",
    "MultiHeadAttention",
    [np.stack([heads(q), heads(k5), heads(v5)], 3)],
    num_heads=4,
    same="multi_head_self",
)
test("multi_head_cross", "MultiHeadAttention", [q, f(2, 4, 7, 4), f(2, 4, 7, 4)], num_heads=4)
n = 6
angles = np.arange(32)[:, None] / 10000 ** (np.arange(4) / 4)
wide = np.arange(32)[:, None] / 10000 ** (np.arange(8) / 8)
cos16, sin16 = np.cos(wide).astype(np.float32), np.sin(wide).astype(np.float32)
cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
gq = [f(2, n, 32), f(2, n, 16), f(2, n, 16), None, None, i32(n - 1, n - 1), i32(n)]
test("group_query", "GroupQueryAttention", gq, 7, num_heads=4, kv_num_heads=2)
test(
    "group_query_packed",
    "GroupQueryAttention",
    [f(2, n, 64), None, None, None, None, i32(n - 1, n - 1), i32(n)],
    7,
    num_heads=4,
    kv_num_heads=2,
)
test("group_query_window", "GroupQueryAttention", gq, num_heads=4, kv_num_heads=2, local_window_size=3)
test(
    "group_query_rotary",
    "GroupQueryAttention",
    [f(2, n, 64), f(2, n, 32), f(2, n, 32), *gq[3:], cos16, sin16],
    7,
    num_heads=4,
    kv_num_heads=2,
    do_rotary=1,
)
test("group_query_softcap", "GroupQueryAttention", gq, num_heads=4, kv_num_heads=2, softcap=2.0)
past = [f(2, 1, 32), f(2, 1, 16), f(2, 1, 16), f(2, 2, 5, 8), f(2, 2, 5, 8), i32(5, 5), i32(6)]
test("group_query_past", "GroupQueryAttention", past, 7, num_heads=4, kv_num_heads=2)
test(
    "group_query_past_rotary",
    "GroupQueryAttention",
    [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), f(2, 2, 5, 16), f(2, 2, 5, 16), i32(5, 5), i32(6), cos16, sin16],
    7,
    num_heads=4,
    kv_num_heads=2,
    do_rotary=1,
)
test("rotary", "RotaryEmbedding", [f(2, 5, 32), np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]), cos, sin])
test("rotary_first", "RotaryEmbedding", [f(2, 5, 32), np.array([3]), cos, sin])
test(
    "rotary_4d",
    "RotaryEmbedding",
    [f(2, 4, 5, 8), np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]), cos, sin],
    interleaved=1,
)
for bits, block in (4, 16), (4, 32), (8, 32):
    blocks = -(-40 // block)
    b = u8(6, blocks, block * bits // 8)
    a = dict(K=40, N=6, bits=bits, block_size=block)
    s = np.abs(f(6 * blocks)) / 9
    test(f"matmul_{bits}_{block}", "MatMulNBits", [f(3, 40), b, s], constant=(1, 2), tolerance="largest 1e-3", **a)
    test(
        f"matmul_{bits}_{block}_zero",
        "MatMulNBits",
        [f(2, 3, 40), b, s, u8(6 * -(-blocks * bits // 8))],
        constant=(1, 2, 3),
        tolerance="largest 1e-3",
        **a,
    )
# The groups of weights in any order. ONNX Runtime ignores their zero points on CPUs, so the formula has them.
for name, zero in ("matmul_4_groups", None), ("matmul_4_groups_zero", u8(6, 2)):
    b, s, g, x4 = u8(6, 3, 8), np.abs(f(6, 3)) / 9, rng.integers(0, 3, 40).astype(np.int32), f(3, 40)
    nibbles = lambda v: np.stack([v & 15, v >> 4], -1).reshape(6, -1).astype(np.float32)
    w4 = (nibbles(b)[:, :40] - (nibbles(zero)[:, g] if zero is not None else 8)) * s[:, g]
    test(
        name,
        "MatMulNBits",
        [x4, b, s.reshape(-1), zero if zero is None else zero.reshape(-1), g],
        constant=(1, 2, 3, 4),
        want=None if zero is None else [x4 @ w4.T],
        K=40,
        N=6,
        bits=4,
        block_size=16,
    )
probs, moe = f(5, 4), [f(4, 12, 16), f(4, 12), f(4, 16, 12), f(4, 16)]
for name, kind in ("relu", "relu"), ("gelu", "gelu"), ("silu", "silu"), ("none", "identity"):
    test(f"moe_{name}", "MoE", [f(5, 16), probs, *moe], activation_type=kind, k=2)
glu = dict(activation_type="swiglu", activation_alpha=1.702, activation_beta=1.0, swiglu_limit=2.0, swiglu_fusion=1)
moe[:2] = f(4, 24, 16), f(4, 24)
test("moe_swiglu", "MoE", [f(5, 16), probs, *moe], k=2, normalize_routing_weights=1, **glu)
test("moe_batch", "MoE", [f(1, 5, 16), probs, *moe], k=3, **glu)
for bits in 4, 8:
    per = 8 // bits
    q = [u8(4, 64, 32 // per), np.abs(f(4, 64)) / 99, f(4, 64), u8(4, 32, 32 // per), np.abs(f(4, 32)) / 99, f(4, 32)]
    near = {4: "largest 1e-3", 8: "largest 2e-2"}[bits]  # ONNX Runtime rounds activations to 8 bits
    given = dict(k=2, expert_weight_bits=bits, normalize_routing_weights=1, tolerance=near, **glu)
    test(f"qmoe_{bits}", "QMoE", [f(5, 32), probs, *q], constant=(2, 3, 4, 5, 6, 7), **given)
    q[1], q[4] = np.abs(f(4, 64, 2)) / 99, np.abs(f(4, 32, 2)) / 99
    test(f"qmoe_{bits}_blocks", "QMoE", [f(5, 32), probs, *q], constant=(2, 3, 4, 5, 6, 7), block_size=16, **given)
    zeros = [None] * 3 + [u8(4, 64, 2 // min(per, 2)), u8(4, 32, 2 // min(per, 2))]
    q = q + zeros
    known = (2, 3, 4, 5, 6, 7, 11, 12)
    test(f"qmoe_{bits}_zero", "QMoE", [f(5, 32), probs, *q], constant=known, block_size=16, **given)
step = "0 1.01"  # a unit of the quantized type: a half may round to either side
test("qlinear_add", "QLinearAdd", [u8(3, 4), sc(0.1), z(100), u8(4), sc(0.2), z(3), sc(0.3), z(90)], tolerance=step)
test("qlinear_mul", "QLinearMul", [u8(3, 4), sc(0.1), z(100), u8(4), sc(0.2), z(3), sc(5), z(90)], tolerance=step)
test(
    "qlinear_sigmoid",
    "QLinearSigmoid",
    [u8(3, 4), sc(0.05), z(100), sc(1 / 256), z(0)],
    constant=(1, 2, 3, 4),
    tolerance=step,
)
test(
    "qlinear_leaky_relu",
    "QLinearLeakyRelu",
    [u8(3, 4), sc(0.05), z(100), sc(0.05), z(60)],
    constant=(1, 2, 3, 4),
    tolerance=step,
)
test("qlinear_pool", "QLinearGlobalAveragePool", [u8(2, 3, 4, 5), sc(0.1), z(7), sc(0.1), z(9)], tolerance=step)
test(
    "qlinear_concat",
    "QLinearConcat",
    [sc(0.3), z(90), u8(2, 3), sc(0.1), z(5), u8(2, 4), sc(0.2), z(80)],
    axis=1,
    tolerance=step,
)
test(
    "qlinear_softmax",
    "QLinearSoftmax",
    [u8(3, 6), sc(0.05), z(100), sc(1 / 256), z(0)],
    constant=(1, 2, 3, 4),
    axis=-1,
    opset=13,
    tolerance=step,
)
test(
    "dynamic_quantize_matmul",
    "DynamicQuantizeMatMul",
    [f(3, 8), i8(8, 5), sc(0.02), np.array(0, np.int8), f(5)],
    tolerance="largest 1e-2",
)
test(
    "matmul_integer_to_float",
    "MatMulIntegerToFloat",
    [u8(3, 8), i8(8, 5), sc(0.02), sc(0.1), z(7), np.array(0, np.int8), f(5)],
)
test(
    "qgemm",
    "QGemm",
    [u8(3, 8), sc(0.1), z(100), i8(8, 5), sc(0.2), np.array(0, np.int8), i32(1, 2, 3, 4, 5), sc(9), z(100)],
    constant=(3, 4, 5),
    tolerance=step,
)
test(
    "qattention",
    "QAttention",
    [u8(2, 5, 16), i8(16, 48), bias, sc(0.01), sc(0.01), None, z(128), np.array(0, np.int8)],
    num_heads=4,
)
image = u8(1, 6, 7, 4)
test("nhwc_max_pool", "NhwcMaxPool", [image], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0])
for name, last in ("first", 0), ("last", 1):
    data = image if last else np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    test(
        f"qlinear_conv_{name}",
        "QLinearConv",
        [data, sc(0.1), z(100), i8(5, 4, 3, 3), sc(0.02), np.array(0, np.int8), sc(0.9), z(120), i32(1, 2, 3, 4, 5)],
        constant=(1, 2, 3, 4, 5, 6, 7, 8),
        channels_last=last,
        pads=[1, 1, 1, 1],
        tolerance=step,
    )
    test(
        f"qlinear_pool_{name}",
        "QLinearGlobalAveragePool",
        [data, sc(0.1), z(7), sc(0.1), z(9)],
        channels_last=last,
        tolerance=step,
    )
    test(
        f"qlinear_average_pool_{name}",
        "QLinearAveragePool",
        [data, sc(0.1), z(7), sc(0.1), z(9)],
        channels_last=last,
        kernel_shape=[2, 3],
        tolerance=step,
    )
test(
    "qlinear_where",
    "QLinearWhere",
    [f(3, 4) > 0, u8(3, 4), sc(0.1), z(7), u8(4), sc(0.2), z(9), sc(0.15), z(20)],
    constant=(2, 3, 5, 6, 7, 8),
    tolerance=step,
)
test("trilu", "Trilu", [f(3, 4), np.array(1)], upper=0, constant=(1,))
for metric in "euclidean", "sqeuclidean":
    test(f"cdist_{metric}", "CDist", [f(5, 3), f(4, 3)], metric=metric)
test(
    "qembed_layer_norm",
    "QEmbedLayerNormalization",
    [ids(2, 5), ids(2, 5) % 2, u8(9, 16), u8(9, 16), u8(2, 16), u8(16), u8(16), None]
    + [sc(0.02), sc(0.01), sc(0.03), sc(0.02), sc(0.01)]
    + [z(120), z(110), z(100), z(90), z(128)],
    3,
    constant=tuple(range(2, 18)),
)
for bits, zero in (4, False), (4, True), (8, True):
    test(
        f"gather_blocks_{bits}" + ("_zero" if zero else ""),
        "GatherBlockQuantized",
        [u8(7, 4 * bits), np.array([[3, 0], [6, 2]]), f(7, 2), u8(7, bits // 4) if zero else None],
        constant=(0, 2, 3),
        gather_axis=0,
        quantize_axis=1,
        block_size=16,
        bits=bits,
    )
for kind in 0, 1:
    test(
        f"bnb4_{kind}",
        "MatMulBnb4",
        [f(3, 40), u8(6 * 40 // 2), np.abs(f(15))],
        constant=(1, 2),
        K=40,
        N=6,
        block_size=16,
        quant_type=kind,
    )
b2 = u8(6, 2, 8)
test("matmul_2", "MatMulNBits", [f(3, 40), b2, np.abs(f(12))], constant=(1, 2), K=40, N=6, bits=2, block_size=32)
test(
    "dynamic_lstm",
    "DynamicQuantizeLSTM",
    [f(5, 2, 3), i8(1, 3, 16), i8(1, 4, 16), f(1, 32), None, None, None, None]
    + [sc([0.01]), np.array([0], np.int8), sc([0.01]), np.array([0], np.int8)],
    7,
    constant=(1, 2, 3, 8, 9, 10, 11),
    hidden_size=4,
    tolerance="largest 2e-2",
)
test("group_query_sink", "GroupQueryAttention", gq + [None] * 4 + [f(4)], 7, num_heads=4, kv_num_heads=2)
test("group_query_smooth", "GroupQueryAttention", gq, 7, num_heads=4, kv_num_heads=2, smooth_softmax=1)


def last(x):
    """Returns a tensor with the channels last."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


# The rest has kernels on GPUs only.
def run(op, inputs, **attrs):
    names = [f"x{i}" for i in range(len(inputs))]
    g = h.make_graph(
        [h.make_node(op, names, ["y"], **attrs)],
        "g",
        [h.make_tensor_value_info(n, kinds[x.dtype], x.shape) for n, x in zip(names, inputs)],
        [h.make_empty_tensor_value_info("y")],
    )
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 21)], ir_version=8)
    return ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, dict(zip(names, inputs))
    )


data = u8(2, 3, 4)
mean = np.rint((data - 7.0).mean(1, keepdims=True) / 0.9) + 9
test(
    "qlinear_reduce_mean",
    "QLinearReduceMean",
    [data, sc(0.1), z(7), sc(0.09), z(9)],
    want=[np.clip(mean, 0, 255).astype(np.uint8)],
    axes=[1],
    keepdims=1,
    tolerance=step,
)
pixels, kernel, per_channel = f(2, 4, 6, 5), f(8, 4, 3, 3), f(8)
conv = run("Conv", [pixels, kernel, per_channel], pads=[1, 1, 1, 1])[0]
test("nhwc_conv", "NhwcConv", [last(pixels), last(kernel), per_channel], want=[last(conv)], pads=[1, 1, 1, 1])
z8 = f(2, 8, 6, 5)
test(
    "nhwc_fused_conv",
    "NhwcFusedConv",
    [last(pixels), last(kernel), per_channel, last(z8)],
    want=[last(np.maximum(conv + z8, 0))],
    pads=[1, 1, 1, 1],
    activation="Relu",
)
gain, shift, skip = f(8), f(8), f(2, 8, 6, 5)
normed = lambda x: run("GroupNormalization", [x, gain, shift], num_groups=4, epsilon=1e-5)[0]
silu = lambda x: x / (1 + np.exp(-x))
norm = dict(groups=4, epsilon=1e-5)
test("group_norm", "GroupNorm", [last(z8), gain, shift], want=[last(silu(normed(z8)))], activation=1, **norm)
test("group_norm_first", "GroupNorm", [z8, gain, shift], want=[normed(z8)], activation=0, channels_last=0, **norm)
both = z8 + skip + per_channel[:, None, None]
test(
    "skip_group_norm",
    "SkipGroupNorm",
    [last(z8), gain, shift, last(skip), per_channel],
    3,
    want=[last(normed(both)), last(both)],
    activation=0,
    **norm,
)
both = z8 + skip[:, :, :1, :1]
flat = np.ascontiguousarray(skip[:, :, 0, 0])
test(
    "skip_group_norm_flat",
    "SkipGroupNorm",
    [last(z8), gain, shift, flat],
    want=[last(normed(both))],
    activation=0,
    **norm,
)
wide, bias_wide = f(2, 5, 16), f(16)
a, b = np.split(wide + bias_wide, 2, -1)
test("bias_split_gelu", "BiasSplitGelu", [wide, bias_wide], want=[a * run("Gelu", [b])[0]])
