"""variants.py [--only REGEXP] DIR FOLDER...: makes other forms of exported models, and writes them to DIR as models.py
does.

A FOLDER is one that models.py wrote. The forms are: weights in another file; f16, with inputs in f32 and f16, mixed
with f32, and bf16; quantized statically and dynamically by ONNX Runtime, and optimized after that; optimized by ONNX
Runtime and by its optimizer of transformers, also in f16 and quantized; weights in 2, 4 and 8 bits; simplified; and
later opsets. REGEXP chooses forms. It needs onnxconverter-common and onnxsim beside what models.py needs. A form of
which ONNX Runtime has no kernels on a CPU is compared with the results of the model that it was made from.
"""

import functools, glob, logging, os, re, shutil, sys, tempfile

logging.disable(logging.WARNING)
import numpy as np, onnx, onnxruntime as ort
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quant_pre_process, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer

LEVEL = ort.GraphOptimizationLevel
u8, s8, u16, s16, s4 = QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16, QuantType.QInt16, QuantType.QInt4
QDQ, QOPERATOR = QuantFormat.QDQ, QuantFormat.QOperator
KINDS = ["bert", "gpt2", "vit", "unet", "clip", "t5", "bart", "swin", "vae", "phi", "conformer"]  # of the optimizer


class Reader:
    """Gives the inputs for a calibration."""

    def __init__(self, sets):
        self.rest = iter([dict(x) for x in sets])

    def get_next(self):
        return next(self.rest, None)


def session(path, level=LEVEL.ORT_ENABLE_ALL, out=""):
    o = ort.SessionOptions()
    o.log_severity_level, o.graph_optimization_level, o.optimized_model_filepath = 3, level, out
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def inputs(folder):
    out = []
    for i in range(len(glob.glob(os.path.join(folder, "input_*.pb")))):
        t = onnx.load_tensor(os.path.join(folder, f"input_{i}.pb"))
        out.append((t.name, numpy_helper.to_array(t)))
    return out


def half(src, to, keep):
    from onnxconverter_common import float16

    onnx.save(float16.convert_float_to_float16(onnx.load(src), keep_io_types=keep), to)


def mixed(src, to):
    from onnxruntime.transformers import float16

    kept = ["Softmax", "LayerNormalization", "Resize", "ReduceMean"]
    onnx.save(float16.convert_float_to_float16(onnx.load(src), keep_io_types=True, op_block_list=kept), to)


def bf16(src, to):
    """Makes all floats bf16."""
    import ml_dtypes

    m = onnx.load(src)
    F, B = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16

    def tensor(t):
        if t.data_type == F:
            a = numpy_helper.to_array(t).astype(ml_dtypes.bfloat16)
            name = t.name
            t.Clear()
            t.name, t.data_type, t.raw_data = name, B, a.tobytes()
            t.dims.extend(a.shape)

    def graph(g):
        for t in g.initializer:
            tensor(t)
        del g.value_info[:]
        for n in g.node:
            for a in n.attribute:
                if a.HasField("g"):
                    graph(a.g)
                if a.HasField("t"):
                    tensor(a.t)
                if n.op_type == "Cast" and a.name == "to" and a.i == F:
                    a.i = B

    graph(m.graph)
    cast = lambda a, b, t: onnx.helper.make_node("Cast", [a], [b], to=t)
    inner = {v.name: v.name + "__bf16" for v in [*m.graph.input, *m.graph.output] if v.type.tensor_type.elem_type == F}
    for n in m.graph.node:
        n.input[:] = [inner.get(i, i) for i in n.input]
        n.output[:] = [inner.get(o, o) for o in n.output]
    for k, v in enumerate(v for v in m.graph.input if v.name in inner):
        m.graph.node.insert(k, cast(v.name, inner[v.name], B))
    m.graph.node.extend(cast(inner[v.name], v.name, F) for v in m.graph.output if v.name in inner)
    onnx.save(m, to)


def bits(src, to, count=4, block=16, symmetric=False, **kw):
    if count == 4:
        q = MatMulNBitsQuantizer(onnx.load(src), block_size=block, is_symmetric=symmetric, **kw)
    else:
        from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig as Config

        q = MatMulNBitsQuantizer(
            onnx.load(src), algo_config=Config(block_size=block, is_symmetric=symmetric, bits=count, **kw)
        )
    q.process()
    onnx.save(q.model.model, to)


def hqq(src, to):
    from onnxruntime.quantization.matmul_nbits_quantizer import HQQWeightOnlyQuantConfig

    q = MatMulNBitsQuantizer(onnx.load(src), algo_config=HQQWeightOnlyQuantConfig(block_size=16))
    q.process()
    onnx.save(q.model.model, to)


def bnb(src, to, kind):
    from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer

    q = MatMulBnb4Quantizer(onnx.load(src), kind, 16)
    q.process()
    onnx.save(q.model.model, to)


def simplified(src, to):
    import onnxsim

    onnx.save(onnxsim.simplify(onnx.load(src))[0], to)


def after(make, then, to):
    """Makes a form of a form."""
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "m.onnx")
        make(path)
        then(path, to)


def optimized(level):
    return lambda src, to: session(src, level, to)


def external(src, to):
    onnx.save(onnx.load(src), to, save_as_external_data=True, location="weights.bin", size_threshold=0)


def fused(src, to, kind="bert", level=0, f16=False):
    size = dict(num_heads=4, hidden_size=48) if kind == "bert" else {}
    m = optimizer.optimize_model(src, model_type=kind, opt_level=level, **size)
    if f16:
        m.convert_float_to_float16(keep_io_types=True)
    if not any(n.domain == "com.microsoft" for n in m.model.graph.node):
        raise ValueError("nothing is fused")
    m.save_model_to_file(to)


def forms(src, prepared, sets):
    """Returns, by name, a function that writes a form, and the tolerance."""
    static = lambda to, **kw: quantize_static(prepared, to, Reader(sets), **kw)
    dynamic = lambda to, **kw: quantize_dynamic(prepared, to, **kw)
    p = functools.partial
    qdq, all_levels = p(static, quant_format=QDQ), (LEVEL.ORT_ENABLE_EXTENDED, LEVEL.ORT_ENABLE_ALL)
    out = {
        "external": (p(external, src), 1e-4),
        "simplified": (p(simplified, src), 1e-4),
        "f16": (lambda to: half(src, to, False), 2e-2),
        "f16_inputs_f32": (lambda to: half(src, to, True), 2e-2),
        "mixed": (p(mixed, src), 2e-2),
        "bf16": (p(bf16, src), 1e-1),
        "qdq": (p(qdq, activation_type=u8, weight_type=s8, per_channel=True), 2e-2),
        "qdq_signed": (p(qdq, activation_type=s8, weight_type=s8), 2e-2),
        "qdq_unsigned": (p(qdq, activation_type=u8, weight_type=u8), 2e-2),
        "qdq_16": (p(qdq, activation_type=u16, weight_type=s8), 2e-2),
        "qdq_16_16": (p(qdq, activation_type=s16, weight_type=s16), 2e-2),
        "qdq_4": (p(qdq, activation_type=u8, weight_type=s4), 2e-2),
        "qdq_options": (
            p(qdq, activation_type=s8, weight_type=s8, extra_options={
                "ActivationSymmetric": True, "QuantizeBias": False, "DedicatedQDQPair": True,
                "AddQDQPairToWeight": True}), 2e-2),
        "qoperator": (p(static, quant_format=QOPERATOR, activation_type=u8, weight_type=u8), 2e-2),
        "qoperator_signed": (
            p(static, quant_format=QOPERATOR, activation_type=s8, weight_type=s8, per_channel=True), 2e-2),
        "dynamic": (p(dynamic, weight_type=u8), 2e-2),
        "dynamic_signed": (p(dynamic, weight_type=s8, per_channel=True), 2e-2),
        "dynamic_all": (p(dynamic, weight_type=u8, extra_options={"MatMulConstBOnly": False}), 2e-2),
        "basic": (lambda to: session(src, LEVEL.ORT_ENABLE_BASIC, to), 1e-4),
        "extended": (lambda to: session(src, LEVEL.ORT_ENABLE_EXTENDED, to), 1e-4),
        "all": (lambda to: session(src, LEVEL.ORT_ENABLE_ALL, to), 1e-4),
        "4_bits": (p(bits, src), 2e-2),
        "4_bits_symmetric": (p(bits, src, block=32, symmetric=True, accuracy_level=4), 2e-2),
        "4_bits_128": (p(bits, src, block=128, accuracy_level=1), 2e-2),
        "4_bits_qdq": (p(bits, src, quant_format=QDQ), 2e-2),
        "4_bits_rows": (p(bits, src, block=32, op_types_to_quantize=("MatMul", "Gather")), 2e-2),
        "8_bits": (p(bits, src, count=8, block=32), 2e-2),
        "2_bits": (p(bits, src, count=2, block=32), 2e-2),
        "4_bits_hqq": (p(hqq, src), 2e-2),
        "bnb_fp4": (p(bnb, src, 0), 2e-2),
        "bnb_nf4": (p(bnb, src, 1), 2e-2),
        "fused_extended": (p(fused, src, level=2), 1e-3),
        "fused_all": (p(fused, src, level=99), 1e-3),
        "fused_f16": (p(fused, src, f16=True), 2e-2),
        "fused_dynamic": (p(after, p(fused, src), lambda a, to: quantize_dynamic(a, to, weight_type=s8)), 2e-2),
        "fused_4_bits": (p(after, p(fused, src), bits), 2e-2),
    }
    for kind in KINDS:
        out["fused_" + kind] = (p(fused, src, kind=kind), 1e-3)
    for name in ["qdq", "qdq_signed", "qoperator", "dynamic", "4_bits_qdq", "f16"]:
        for level in all_levels:
            label = f"{name}_then_{'all' if level == LEVEL.ORT_ENABLE_ALL else 'extended'}"
            out[label] = (p(after, out[name][0], optimized(level)), 2e-2)
    for v in (19, 21, 23):
        later = lambda to, v=v: onnx.save(onnx.version_converter.convert_version(onnx.load(src), v), to)
        out[f"opset{v}"] = (later, 1e-4)
    return out


NUMPY = {"tensor(float16)": np.float16, "tensor(float)": np.float32}


def write(folder, tolerance, sets, source):
    try:
        s = session(os.path.join(folder, "model.onnx"), LEVEL.ORT_DISABLE_ALL)
    except Exception as e:
        if "NOT_IMPLEMENTED" not in str(e) and "No Op registered" not in str(e) and "bfloat16" not in str(e):
            raise
        s = session(os.path.join(source, "model.onnx"), LEVEL.ORT_DISABLE_ALL)
    types = {i.name: i.type for i in s.get_inputs()}
    for k, x in enumerate(sets):
        d = os.path.join(folder, f"size{k}") if k else folder
        os.makedirs(d, exist_ok=True)
        feed = {n: a.astype(np.float16) if types[n] == "tensor(float16)" else a for n, a in x}
        for i, (n, a) in enumerate(feed.items()):
            onnx.save_tensor(numpy_helper.from_array(a, n), os.path.join(d, f"input_{i}.pb"))
        for i, y in enumerate(s.run(None, feed)):
            onnx.save_tensor(numpy_helper.from_array(y), os.path.join(d, f"output_{i}.pb"))
    open(os.path.join(folder, "tolerance"), "w").write(f"largest {tolerance}")


args, only = sys.argv[1:], ""
if args[0] == "--only":
    only, args = args[1], args[2:]
for source in args[1:]:
    sets = [inputs(d) for d in [source, *sorted(glob.glob(os.path.join(source, "size*")))]]
    src = os.path.join(source, "model.onnx")
    with tempfile.TemporaryDirectory() as scratch:
        prepared = os.path.join(scratch, "prepared.onnx")
        quant_pre_process(src, prepared, skip_symbolic_shape=True)
        for form, (make, tolerance) in forms(src, prepared, sets).items():
            name = os.path.basename(source) + "_" + form
            folder = os.path.join(args[0], name)
            if not re.search(only, form):
                continue
            os.makedirs(folder, exist_ok=True)
            try:
                make(os.path.join(folder, "model.onnx"))
                write(folder, tolerance, sets, source)
                print("ok", name, flush=True)
            except Exception as e:
                shutil.rmtree(folder)
                print("FAIL", name, type(e).__name__, str(e)[:200].replace("\n", " "), flush=True)
