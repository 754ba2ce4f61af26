"""variants.py DIR FOLDER...: makes other forms of exported models, and writes them to DIR as models.py does.

A FOLDER is one that models.py wrote. The forms are: weights in another file; f16, with inputs in f32 and f16; quantized
statically and dynamically by ONNX Runtime; optimized by ONNX Runtime; weights in 4 bits; and later opsets. It needs
onnxconverter-common beside what models.py needs.
"""

import functools, glob, logging, os, shutil, sys, tempfile

logging.disable(logging.WARNING)
import numpy as np, onnx, onnxruntime as ort
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quant_pre_process, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer

LEVEL = ort.GraphOptimizationLevel
u8, s8, u16 = QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16


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


def bits4(src, to):
    q = MatMulNBitsQuantizer(onnx.load(src), block_size=16, is_symmetric=False)
    q.process()
    onnx.save(q.model.model, to)


def external(src, to):
    onnx.save(onnx.load(src), to, save_as_external_data=True, location="weights.bin", size_threshold=0)


def fused(src, to):
    m = optimizer.optimize_model(src, model_type="bert", num_heads=4, hidden_size=48, opt_level=0)
    m.save_model_to_file(to)


def forms(src, prepared, sets):
    """Returns, by name, a function that writes a form, and the tolerance."""
    static = lambda to, **kw: quantize_static(prepared, to, Reader(sets), **kw)
    dynamic = lambda to, **kw: quantize_dynamic(prepared, to, **kw)
    p = functools.partial
    out = {
        "external": (p(external, src), 1e-4),
        "f16": (lambda to: half(src, to, False), 2e-2),
        "f16_inputs_f32": (lambda to: half(src, to, True), 2e-2),
        "qdq": (p(static, quant_format=QuantFormat.QDQ, activation_type=u8, weight_type=s8, per_channel=True), 2e-2),
        "qdq_signed": (p(static, quant_format=QuantFormat.QDQ, activation_type=s8, weight_type=s8), 2e-2),
        "qdq_16": (p(static, quant_format=QuantFormat.QDQ, activation_type=u16, weight_type=s8), 2e-2),
        "qoperator": (p(static, quant_format=QuantFormat.QOperator, activation_type=u8, weight_type=u8), 2e-2),
        "dynamic": (p(dynamic, weight_type=u8), 2e-2),
        "dynamic_signed": (p(dynamic, weight_type=s8, per_channel=True), 2e-2),
        "basic": (lambda to: session(src, LEVEL.ORT_ENABLE_BASIC, to), 1e-4),
        "extended": (lambda to: session(src, LEVEL.ORT_ENABLE_EXTENDED, to), 1e-4),
        "4_bits": (p(bits4, src), 2e-2),
        "fused": (p(fused, src), 1e-3),
    }
    for v in (19, 21, 23):
        later = lambda to, v=v: onnx.save(onnx.version_converter.convert_version(onnx.load(src), v), to)
        out[f"opset{v}"] = (later, 1e-4)
    return out


def write(folder, tolerance, sets):
    s = session(os.path.join(folder, "model.onnx"), LEVEL.ORT_DISABLE_ALL)
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


for source in sys.argv[2:]:
    sets = [inputs(d) for d in [source, *sorted(glob.glob(os.path.join(source, "size*")))]]
    src = os.path.join(source, "model.onnx")
    with tempfile.TemporaryDirectory() as scratch:
        prepared = os.path.join(scratch, "prepared.onnx")
        quant_pre_process(src, prepared, skip_symbolic_shape=True)
        for form, (make, tolerance) in forms(src, prepared, sets).items():
            name = os.path.basename(source) + "_" + form
            folder = os.path.join(sys.argv[1], name)
            os.makedirs(folder, exist_ok=True)
            try:
                make(os.path.join(folder, "model.onnx"))
                write(folder, tolerance, sets)
                print("ok", name, flush=True)
            except Exception as e:
                shutil.rmtree(folder)
                print("FAIL", name, type(e).__name__, str(e)[:200].replace("\n", " "), flush=True)
