"""What keras_models.py exports of JAX and Flax, through jax2onnx."""

import jax, jax.export, jax.numpy as jnp, numpy as np
from flax import nnx


class MLP(nnx.Module):
    def __init__(s, rngs):
        s.a, s.b, s.n = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 8, rngs=rngs), nnx.LayerNorm(32, rngs=rngs)

    def __call__(s, x):
        return s.b(s.n(nnx.gelu(s.a(x))))


class CNN(nnx.Module):
    def __init__(s, rngs):
        s.a = nnx.Conv(3, 8, (3, 3), rngs=rngs)
        s.n = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        s.b = nnx.Conv(8, 16, (3, 3), strides=2, rngs=rngs)
        s.g = nnx.GroupNorm(16, num_groups=4, rngs=rngs)
        s.o = nnx.Linear(16, 10, rngs=rngs)

    def __call__(s, x):
        x = nnx.avg_pool(nnx.relu(s.n(s.a(x))), window_shape=(2, 2), strides=(2, 2))
        x = nnx.max_pool(nnx.silu(s.g(s.b(x))), window_shape=(2, 2), strides=(2, 2))
        return jax.nn.log_softmax(s.o(x.mean((1, 2))))


class Block(nnx.Module):
    def __init__(s, rngs):
        s.n, s.m = nnx.LayerNorm(32, rngs=rngs), nnx.LayerNorm(32, rngs=rngs)
        s.a = nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)
        s.i, s.o = nnx.Linear(32, 64, rngs=rngs), nnx.Linear(64, 32, rngs=rngs)

    def __call__(s, x):
        x = x + s.a(s.n(x))
        return x + s.o(nnx.gelu(s.i(s.m(x))))


class Transformer(nnx.Module):
    def __init__(s, rngs):
        s.e = nnx.Embed(50, 32, rngs=rngs)
        s.p = nnx.Param(jax.random.normal(jax.random.key(1), (12, 32)))
        s.l = nnx.List([Block(rngs), Block(rngs)])

    def __call__(s, x):
        y = s.e(x) + s.p[...]
        for layer in s.l:
            y = layer(y)
        return y @ s.e.embedding[...].T


def recurrent(x):
    """An LSTM written as a scan, as libraries of JAX write it."""
    w = np.random.default_rng(1).standard_normal((16 + 12, 48), np.float32) / 4

    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ w, 4, axis=-1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((2, 12))
    return jax.lax.scan(step, (zero, zero), jnp.swapaxes(x, 0, 1))[1]


def functions(x):
    """Functions of jax.numpy that do not belong to a layer."""
    y = jnp.einsum("bij,bkj->bik", x, jnp.flip(x, 1)) + jnp.cumsum(x, axis=1) @ jnp.swapaxes(x, 1, 2)
    y = jnp.where(y > 0, jnp.log1p(jnp.abs(y)), jax.nn.softplus(y)) + jnp.sort(y, axis=-1) + jax.scipy.special.erf(y)
    return jnp.concatenate([y, jnp.take(y, jnp.array([2, 0]), axis=1), y.max(1, keepdims=True)], 1)


def rotary_attention(x):
    """Attention of one head with rotary positions and a causal mask, as in language models of JAX."""
    t, d = x.shape[1], x.shape[2] // 2
    angle = jnp.arange(t)[:, None] / 100.0 ** (jnp.arange(d)[None] / d)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    turn = lambda v: jnp.concatenate([v[..., :d] * cos - v[..., d:] * sin, v[..., d:] * cos + v[..., :d] * sin], -1)
    scores = turn(x) @ jnp.swapaxes(turn(x * 0.5), 1, 2) / jnp.sqrt(2.0 * d)
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    return jax.nn.softmax(scores, -1) @ x


def loops(x):
    """Loops and branches: a fixed number of steps, one whose number depends on the data, and a choice of functions."""
    a = jax.lax.fori_loop(0, 5, lambda i, v: v * 0.5 + i, x)
    b = jax.lax.while_loop(lambda v: jnp.abs(v).sum() > 1, lambda v: v * 0.6, x)
    c = jax.lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x)
    return a + b + c + jax.lax.switch(jnp.int32(1), [jnp.sin, jnp.cos, jnp.tan], x)


def scatters(x):
    y = x.at[:, 1].set(2.0).at[:, 3].add(x[:, 0]).at[0].multiply(3.0)
    rows = jax.ops.segment_sum(x, jnp.array([0, 2, 0, 1]), 3)
    picked = jnp.take_along_axis(x, jnp.argsort(x, -1), -1)
    moved = jax.lax.dynamic_update_slice(y, x[:2, :2], (1, 1)) + jax.lax.dynamic_slice(x, (0, 0), (4, 5))
    return jnp.concatenate([y, rows, picked, moved])


def convolutions(x):
    w = np.random.default_rng(1).standard_normal((3, 3, 3, 6), np.float32)
    conv = lambda x, w, **k: jax.lax.conv_general_dilated(x, w, dimension_numbers=("NHWC", "HWIO", "NHWC"), **k)
    a = conv(x, w, window_strides=(1, 1), padding="SAME", rhs_dilation=(2, 2))
    b = conv(x, w[:, :, :1], window_strides=(2, 2), padding="SAME", feature_group_count=3)
    c = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    d = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return a.sum((1, 2)), b.mean((1, 2)), c, d


def choices(x):
    v, i = jax.lax.top_k(x, 3)
    return (v, i, jnp.argmax(x, -1), jnp.one_hot(i, 5), jnp.clip(x, -1, 1), jnp.tril(x[:4, :4]), jnp.roll(x, 2, 1),
            jnp.pad(x, ((0, 0), (1, 2)), mode="reflect"), jnp.tile(x, (1, 2)), jnp.repeat(x, 2, 0),
            jnp.triu(x[:4, :4], 1))


def numbers(x):
    return (jnp.floor_divide(x, 0.3), jnp.mod(x, 0.3), jnp.power(jnp.abs(x), 1.5), jnp.arctan2(x, x + 1), jnp.cbrt(x),
            jnp.expm1(x), jnp.sinh(x), jnp.arcsinh(x), jax.scipy.special.logsumexp(x, -1), jnp.std(x, 0), jnp.var(x, 1),
            jnp.nan_to_num(jnp.log(x)), jnp.isfinite(1 / jnp.round(x)), jnp.prod(x, 1), jnp.linalg.norm(x, axis=1))


def images(x):
    return tuple(jax.image.resize(x, (2, 7, 9, 3), m) for m in ("nearest", "bilinear", "cubic")) + (
        jax.image.resize(x, (2, 3, 4, 3), "bilinear"),)


def dot_product_attention(x):
    q = x.reshape(x.shape[0], 9, 4, 4)
    return jax.nn.dot_product_attention(q, q * 0.5, q + 1, is_causal=True)


M = {
    "jax_loops": (loops, "4, 5", jnp.float32),
    "jax_scatters": (scatters, "4, 5", jnp.float32),
    "jax_convolutions": (convolutions, "B, 9, 8, 3", jnp.float32),
    "jax_choices": (choices, "6, 5", jnp.float32),
    "jax_numbers": (numbers, "B, 5", jnp.float32),
    "jax_images": (images, "2, 6, 5, 3", jnp.float32),
    "jax_dot_product_attention": (dot_product_attention, "B, 9, 16", jnp.float32),
    "jax_mlp": (MLP, "B, 16", jnp.float32),
    "jax_cnn": (CNN, "B, 16, 16, 3", jnp.float32),
    "jax_transformer": (Transformer, "B, 12", jnp.int32),
    "jax_lstm": (recurrent, "2, 9, 16", jnp.float32),
    "jax_functions": (functions, "B, 7, 5", jnp.float32),
    "jax_rotary_attention": (rotary_attention, "B, 9, 16", jnp.float32),
}


def export(name, path):
    import onnx
    from jax2onnx import to_onnx

    f, shape, dtype = M[name]
    if isinstance(f, type):
        f = f(nnx.Rngs(1))
    x = jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape), dtype)
    onnx.save(to_onnx(f, inputs=[x], model_name=name), path)
