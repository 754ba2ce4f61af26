"""tf_models.py DIR [REGEXP]: exports small functions of TensorFlow with tf2onnx to DIR/tf_NAME, as models.py does.

They are what models of TensorFlow consist of: slices with masks, resizing, loops, conditions, scatters, segments,
convolutions with dilation by batches, and ops that tf2onnx composes. An input has the shape that is given, or an open
batch. It needs tensorflow-cpu, tf2onnx, onnx and onnxruntime.
"""

import os, re, sys, warnings

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")
warnings.filterwarnings("ignore")
import numpy as np
import tensorflow as tf
import tf2onnx

from folders import export_each

I = tf.image
F, N = (2, 6, 7, 3), None
rng = np.random.default_rng(1)
W = rng.standard_normal((3, 3, 3, 4)).astype(np.float32)
ids = lambda *s: ("int32", s)


def while_static(x):
    return tf.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v * 0.5 + tf.cast(i, tf.float32)), (0, x))[1]


def while_data(x):
    return tf.while_loop(lambda v: tf.reduce_sum(tf.abs(v)) > 1, lambda v: v * 0.7, (x,))[0]


def while_count(x, n):
    return tf.while_loop(lambda i, v: i < n[0], lambda i, v: (i + 1, tf.sin(v) + 1), (0, x))[1]


def while_most(x):
    return tf.while_loop(lambda v: tf.reduce_max(v) > 0.1, lambda v: v / 2, (x,), maximum_iterations=500)[0]


def array(x):
    a = tf.TensorArray(tf.float32, size=4)
    for i in tf.range(4):
        a = a.write(i, x * tf.cast(i, tf.float32))
    return a.stack()


def scan(x):
    return tf.scan(lambda a, b: a * 0.5 + b, x)


def recurrent(x):
    w = tf.constant(rng.standard_normal((3, 5)), tf.float32)
    u = tf.constant(rng.standard_normal((5, 5)) / 3, tf.float32)
    state = tf.zeros([tf.shape(x)[0], 5])
    for t in tf.range(tf.shape(x)[1]):
        state = tf.tanh(x[:, t] @ w + state @ u)
    return state


def stitch(x):
    a, b = tf.dynamic_partition(x, tf.constant([0, 1, 0, 1]), 2)
    return tf.dynamic_stitch([[0, 2], [1, 3]], [a * 2, b - 1])


M = {
    "slice_masks": (lambda x: (x[:, 1:-1, ::2], x[..., 0], x[:, tf.newaxis, -1], x[0], x[:, ::-1, 3:1:-1]), F),
    "slice_dynamic": (lambda x: x[:, : tf.shape(x)[1] // 2, 1 : tf.shape(x)[2]], (N, N, 6, 3)),
    "slice_assign": (lambda x: tf.tensor_scatter_nd_update(x, [[0, 1], [1, 2]], tf.ones([2, 3])), (2, 6, 3)),
    "resize_bilinear": (lambda x: I.resize(x, [9, 5]), F),
    "resize_nearest": (lambda x: I.resize(x, [9, 5], "nearest"), F),
    "resize_bicubic": (lambda x: I.resize(x, [9, 5], "bicubic"), F),
    "resize_area": (lambda x: I.resize(x, [12, 14], "area"), F),
    "resize_antialias": (lambda x: I.resize(x, [4, 3], antialias=True), F),
    "resize_v1": (lambda x: tf.compat.v1.image.resize_bilinear(x, [9, 5]), F),
    "resize_corners": (lambda x: tf.compat.v1.image.resize_bilinear(x, [9, 5], align_corners=True), F),
    "resize_nearest_v1": (lambda x: tf.compat.v1.image.resize_nearest_neighbor(x, [12, 14]), F),
    "resize_twice": (lambda x: I.resize(x, 2 * tf.shape(x)[1:3]), (N, N, N, 3)),
    "crop_resize": (lambda x: I.crop_and_resize(x, [[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]], [0, 1], [4, 5]), F),
    "while_static": (while_static, (2, 3)),
    "while_data": (while_data, (2, 3)),
    "while_count": (while_count, (2, 3), ids(1)),
    "while_most": (while_most, (2, 3)),
    "array": (array, (2, 3)),
    "map": (lambda x: tf.map_fn(lambda r: r * tf.reduce_sum(r), x), (4, 3)),
    "map_open": (lambda x: tf.map_fn(lambda r: r * tf.reduce_sum(r), x), (N, 3)),
    "scan": (scan, (4, 3)),
    "recurrent": (recurrent, (2, 4, 3)),
    "recurrent_open": (recurrent, (N, N, 3)),
    "cond": (lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x - 1), (2, 3)),
    "switch": (lambda x, i: tf.switch_case(i[0], [lambda: x, lambda: x * 2, lambda: -x]), (2, 3), ids(1)),
    "gather_nd": (lambda x: tf.gather_nd(x, [[0, 1], [1, 5]]), F),
    "gather_batch": (lambda x, i: tf.gather(x, i, batch_dims=1, axis=1), (2, 6, 3), ids(2, 4)),
    "scatter_nd": (lambda x: tf.scatter_nd([[1], [3]], x, [5, 3]), (2, 3)),
    "scatter_add": (lambda x: tf.tensor_scatter_nd_add(x, [[1], [1]], tf.ones([2, 3])), (4, 3)),
    "segment_sum": (lambda x: tf.math.segment_sum(x, [0, 0, 1, 2]), (4, 3)),
    "segments": (lambda x: tf.math.unsorted_segment_sum(x, [2, 0, 2, 1], 4), (4, 3)),
    "segments_max": (lambda x: tf.math.unsorted_segment_max(x, [2, 0, 2, 1], 3), (4, 3)),
    "space_to_batch": (lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [1, 0]]), F),
    "atrous": (lambda x: tf.nn.convolution(x, W, dilations=[2, 2], padding="SAME"), (N, 9, 9, 3)),
    "depth_to_space": (lambda x: tf.nn.depth_to_space(tf.nn.space_to_depth(x, 2), 2), (2, 6, 8, 3)),
    "conv_same": (lambda x: tf.nn.conv2d(x, W, 2, "SAME"), (N, N, N, 3)),
    "conv_explicit": (lambda x: tf.nn.conv2d(x, W, 1, [[0, 0], [1, 2], [0, 1], [0, 0]]), F),
    "conv_transpose": (lambda x: tf.nn.conv2d_transpose(x, tf.transpose(W, [0, 1, 3, 2]), [2, 12, 14, 4], 2), F),
    "depthwise": (lambda x: tf.nn.depthwise_conv2d(x, W, [1, 1, 1, 1], "SAME"), F),
    "conv3d": (lambda x: tf.nn.conv3d(x, tf.ones([2, 2, 2, 3, 4]), [1] * 5, "SAME"), (2, 4, 5, 6, 3)),
    "pools": (lambda x: (tf.nn.max_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, 3, 2, "SAME")), F),
    "max_pool_argmax": (lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "VALID"), F),
    "lrn": (lambda x: tf.nn.local_response_normalization(x), F),
    "pads": (
        lambda x: (
            tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], "REFLECT"),
            tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], "SYMMETRIC"),
            tf.pad(x, [[0, 1]] + [[1, 0]] * 3),
        ),
        F,
    ),
    "patches": (lambda x: I.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"), F),
    "sums": (
        lambda x: (tf.cumsum(x, 1), tf.cumsum(x, 1, exclusive=True, reverse=True), tf.math.cumprod(x + 2, 1)),
        (2, 5),
    ),
    "top_k": (lambda x: tf.nn.top_k(x, 3), (2, 5)),
    "sort": (lambda x: (tf.sort(x), tf.argsort(x, direction="DESCENDING")), (2, 5)),
    "arg": (lambda x: (tf.argmax(x, -1), tf.argmin(x, 0), tf.math.in_top_k([1, 2], x, 2)), (2, 5)),
    "band": (lambda x: (tf.linalg.band_part(x, 1, 0), tf.linalg.diag_part(x), tf.linalg.diag(x[0])), (5, 5)),
    "diag_more": (lambda x: tf.linalg.set_diag(x, tf.zeros([2, 5])), (2, 5, 5)),
    "one_hot": (lambda i: tf.one_hot(i, 5, 2.0, -1.0), ids(2, 3)),
    "embedding": (lambda i: tf.nn.embedding_lookup(tf.reshape(tf.range(20.0), [5, 4]), i), ids(N, 3)),
    "einsum": (lambda x: tf.einsum("bhwc,bhwd->bcd", x, x), F),
    "tensordot": (lambda x: tf.tensordot(x, W, [[3], [2]]), (1, 2, 2, 3)),
    "products": (lambda x: (tf.matmul(x, x, transpose_b=True), tf.matmul(x, x, adjoint_a=True)), (2, 4, 3)),
    "reverse": (lambda x: (tf.reverse(x, [1]), tf.reverse_sequence(x, [2, 3], 1), tf.roll(x, 2, 1)), (2, 4, 3)),
    "repeat": (lambda x: (tf.repeat(x, 2, 1), tf.tile(x, [1, 2]), tf.stack(tf.meshgrid(x[0], x[1]))), (2, 3)),
    "ranges": (lambda x: x + tf.linspace(0.0, 1.0, 3) + tf.cast(tf.range(tf.shape(x)[1]), tf.float32), (N, 3)),
    "integers": (lambda i: (i // 3, i % 3, tf.math.floormod(i, -3), tf.bitwise.bitwise_and(i, 5), i << 1), ids(2, 3)),
    "numbers": (
        lambda x: (
            tf.math.floordiv(x, 0.3),
            tf.math.floormod(x, 0.3),
            tf.math.truediv(x, 3.0),
            tf.math.squared_difference(x, 1.0),
            tf.math.divide_no_nan(x, x),
            tf.sign(x),
            tf.round(x),
        ),
        (2, 3),
    ),
    "special": (
        lambda x: (
            tf.math.erf(x),
            tf.math.log1p(tf.abs(x)),
            tf.math.expm1(x),
            tf.math.rsqrt(tf.abs(x) + 1),
            tf.atan2(x, x + 1),
            tf.sinh(x),
            tf.asinh(x),
            tf.math.softplus(x),
            tf.nn.selu(x),
        ),
        (2, 3),
    ),
    "erfc": (lambda x: tf.math.erfc(x), (2, 3)),
    "lgamma": (lambda x: tf.math.lgamma(tf.abs(x) + 1), (2, 3)),
    "where": (lambda x: tf.where(x > 0, x, 0.1 * x), (2, 3)),
    "where_rows": (lambda x: tf.where(x > 0), (2, 3)),
    "mask": (lambda x: tf.reduce_sum(tf.boolean_mask(x, x[:, 0] > 0), 0), (6, 3)),
    "unique": (lambda i: tf.unique(i)[0], ids(6)),
    "stitch": (stitch, (4, 3)),
    "bins": (
        lambda x: (
            tf.searchsorted([-1.0, 0.0, 1.0], tf.reshape(x, [-1])),
            tf.raw_ops.Bucketize(input=x, boundaries=[-1, 0, 1]),
        ),
        (2, 3),
    ),
    "normalize": (lambda x: (tf.nn.l2_normalize(x, -1), tf.nn.moments(x, [0]), tf.math.l2_normalize(x)), (2, 3)),
    "batch_norm": (
        lambda x: tf.compat.v1.nn.fused_batch_norm(
            x, [1.0, 2, 3], [0.0, 1, 2], [0.1, 0, 0], [1.0, 2, 1], is_training=False
        )[0],
        F,
    ),
    "losses": (
        lambda x: (
            tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(-x), x),
            tf.nn.sparse_softmax_cross_entropy_with_logits([0, 2], x),
            tf.nn.sigmoid_cross_entropy_with_logits(tf.sigmoid(-x), x),
        ),
        (2, 3),
    ),
    "nms": (lambda x: I.non_max_suppression(tf.abs(x), tf.reduce_sum(x, 1), 3, 0.5), (6, 4)),
    "nms_combined": (
        lambda x: I.combined_non_max_suppression(tf.abs(x)[None, :, None], tf.abs(x)[None, :, :2], 3, 4, 0.5),
        (6, 4),
    ),
    "fft": (lambda x: (tf.abs(tf.signal.rfft(x)), tf.math.imag(tf.signal.rfft(x))), (2, 8)),
    "stft": (lambda x: tf.abs(tf.signal.stft(x, 8, 4)), (2, 32)),
    "fake_quant": (lambda x: tf.quantization.fake_quant_with_min_max_args(x, -2, 2), (2, 3)),
    "colors": (
        lambda x: (
            I.rgb_to_grayscale(x),
            I.adjust_contrast(x, 1.5),
            I.flip_left_right(x),
            I.per_image_standardization(x),
        ),
        F,
    ),
    "hsv": (lambda x: I.rgb_to_hsv(tf.sigmoid(x)), F),
    "broadcast": (lambda x: tf.broadcast_to(x[:1], [4, 3]) + tf.broadcast_to(tf.constant(2.0), tf.shape(x)), (4, 3)),
    "shapes": (lambda x: tf.reshape(x, [tf.shape(x)[0], -1]) * tf.cast(tf.size(x), tf.float32), (N, 4, 3)),
    "split": (
        lambda x: [tf.concat(tf.split(x, 3, -1)[::-1], -1), *tf.unstack(x, axis=1)[:2], *tf.split(x, [2, -1], 1)],
        F,
    ),
    "ragged_rank": (lambda x: tf.linalg.norm(x, axis=-1), F),
    "solve": (lambda x: tf.linalg.inv(x + 4 * tf.eye(3)), (2, 3, 3)),
    "random": (lambda x: x + 0 * tf.random.uniform(tf.shape(x), seed=1), (2, 3)),
    "f64": (lambda x: tf.cast(tf.cast(x, tf.float64) * 3, tf.float32), (2, 3)),
    "f16": (lambda x: tf.cast(tf.nn.softmax(tf.cast(x, tf.float16)), tf.float32), (2, 3)),
    "text": (lambda x: tf.strings.as_string(x), (2, 3)),
}


def export(name, path):
    f, *inputs = M[name]
    specs, feeds = [], {}
    for i, s in enumerate(inputs):
        kind, s = s if isinstance(s[0], str) else ("float32", s)
        specs.append(tf.TensorSpec(s, kind, f"x{i}"))
        for k in range(3 if None in s else 1):
            shape = [2 + k + a if d is None else d for a, d in enumerate(s)]
            x = rng.standard_normal(shape).astype(kind) if kind == "float32" else rng.integers(0, 3, shape).astype(kind)
            feeds.setdefault(k, {})[f"x{i}"] = x
    tf2onnx.convert.from_function(tf.function(f), specs, opset=18, output_path=path)
    return list(feeds.values())


def main(out, pattern=""):
    def each(name, path):
        feeds = export(name.removeprefix("tf_"), path)
        return lambda _: feeds

    export_each(out, ["tf_" + name for name in M if re.search(pattern, name)], each)


if __name__ == "__main__":
    main(*sys.argv[1:])
