"""The functions that all families use. case adds a vector, and run.py writes the vectors of a family as JSON. See
README.md."""
import functools
import importlib.metadata
import importlib.util
import warnings

import numpy as np

if importlib.util.find_spec("torch"):
    import torch
else:  # families that compare only with NumPy need nothing else
    torch = None


def version(name):
    return name + " " + importlib.metadata.version(name).split("+")[0] if importlib.util.find_spec(name) else None


TORCH, NUMPY, SCIPY, ONNX = map(version, ("torch", "numpy", "scipy", "onnx"))

F32 = (1e-6, 1e-5)  # tolerance if the other implementation computes in f32
EXACT = (0, 0)

nan, inf = float("nan"), float("inf")
NAMES = {"float64": "f32", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16",
         "int32": "i32",
         "int64": "i64", "uint8": "u8", "uint32": "u32", "bool": "bool"}

cases = []
rng = None  # a NumPy generator; its seed is the same in each run of a family


def start():
    """Begins a family and seeds all random generators."""
    global rng
    cases.clear()
    if torch:
        torch.manual_seed(7)
    rng = np.random.default_rng(7)


def rand(*shape, scale=1):
    """Normally distributed multiples of 1/64 in float64: short in text and exact in every format down to f16."""
    return (torch.randn(shape).double() * 64 * scale).round() / 64


def normal(*shape, scale=1, dtype=np.float64):
    """rand for families that need only NumPy: an array."""
    return ((rng.standard_normal(shape) * 64 * scale).round() / 64).astype(dtype)


def randint(lo, hi, *shape, dtype=None):
    """Integers from lo to hi, both inclusive; i32 unless dtype is another type of PyTorch."""
    return torch.from_numpy(rng.integers(lo, hi + 1, shape)).to(dtype or torch.int32)


def among(pool, *shape, dtype=None):
    """Elements drawn from pool; float64 unless dtype is another type of PyTorch."""
    return torch.tensor(pool, dtype=dtype or torch.float64)[torch.from_numpy(rng.integers(0, len(pool), shape))]


class Typed:
    """A value whose element type differs from that of its array; see typed."""

    def __init__(self, name, value):
        self.name, self.value = name, value


def typed(name, value):
    """The value with the named element type. Use it for f64, because float64 arrays are otherwise written as f32, or
    for u32 with an int64 array."""
    return Typed(name, value)


def case(line, out, source=TORCH or NUMPY, tol=None, bits=False, **inputs):
    """Adds a vector. line is one op in text form without its type, inputs are its operands by name, out is its result
    or a list of its results; all are torch tensors or NumPy arrays. float64 is written as f32, which the reference
    evaluates in float64. tol is (absolute, relative), for implementations that are less precise than the default of
    1e-11 + 1e-10 * |want|. bits compares the signs of zeros, too."""
    outs = out if isinstance(out, (list, tuple)) else [out]
    exact = bits or tol == EXACT
    c = {"line": line, "source": source, "inputs": {k: text(v, True) for k, v in inputs.items()},
         "results": [text(v, exact) for v in outs]}
    if tol is not None:
        c["tol"] = list(tol)
    if bits:
        c["bits"] = True
    cases.append(c)


def text(value, exact):
    """The text of a type and its elements, such as f32[2]: 0.5 nan. float64 results are shortened to 13 digits, other
    values are exact."""
    name = None
    if isinstance(value, Typed):
        name, value = value.name, value.value
    if torch and isinstance(value, torch.Tensor):
        name = name or NAMES[str(value.dtype).removeprefix("torch.")]
        value = (value.detach().float() if value.dtype == torch.bfloat16 else value.detach()).resolve_conj().numpy()
    value = np.asarray(value)
    name = name or NAMES[value.dtype.name]
    # packed: blocks of bytes along the last axis, written as hexadecimal
    if name not in NAMES.values() and name != "f64":
        return " ".join(["%s[%s]:" % (name, ",".join(map(str, value.shape[:-1])))] +
                        [b.tobytes().hex() for b in value.reshape(-1, value.shape[-1])])
    if value.dtype.kind == "f":
        short = value.dtype == np.float64 and not exact
        numbers = [number(float("%.13g" % v) if short else float(v)) for v in value.reshape(-1)]
    else:
        numbers = [str(int(v)) for v in value.reshape(-1)]
    return " ".join(["%s[%s]:" % (name, ",".join(map(str, value.shape)))] + numbers)


def number(v):
    return repr(v).removesuffix(".0")


@functools.cache
def onnx_tests():
    from onnx.backend.test.loader import load_model_tests
    np.random.seed(0)  # the tests draw random values when they are loaded
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(load_model_tests(kind="node"), key=lambda t: t.name)


def onnx_nodes(op_type):
    """The node tests of an ONNX operator that are a single node, as (source, attributes, inputs, outputs) with NumPy
    arrays."""
    import onnx
    for t in onnx_tests():
        nodes = t.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type == op_type:
            attrs = {a.name: onnx.helper.get_attribute_value(a) for a in nodes[0].attribute}
            yield ONNX + " node " + t.name, attrs, t.data_sets[0][0], t.data_sets[0][1]
