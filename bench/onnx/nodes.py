"""nodes.py DIR: writes the node tests of the onnx package to DIR, a folder for each test.

A folder has model.onnx, input_I.pb, output_I.pb and tolerance. A test of Attention or DFT also has exact_I.pb, its
outputs as the reference implementation of ONNX computes them in float64. The others have rounding errors of every step.
"""

import os, sys, warnings
import numpy as np

warnings.filterwarnings("ignore")
from onnx import ModelProto, numpy_helper, TensorProto
from onnx.reference import ReferenceEvaluator
from onnx.backend.test.case.node import collect_testcases


def write(path, v, info):
    if isinstance(v, TensorProto):
        t = v
        t.name = info.name
    elif isinstance(v, np.ndarray) or np.isscalar(v):
        t = numpy_helper.from_array(np.asarray(v), info.name)
    else:
        return False  # a sequence or an optional
    with open(path, "wb") as f:
        f.write(t.SerializeToString())
    return True


FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}


def exact(case):
    """The outputs of a test in float64, or None if it has other nodes than Attention and DFT."""
    if not {n.op_type for n in case.model.graph.node} <= {"Attention", "DFT"}:
        return None
    model = ModelProto()
    model.CopyFrom(case.model)
    for v in [*model.graph.input, *model.graph.output]:
        if v.type.tensor_type.elem_type in FLOATS:
            v.type.tensor_type.elem_type = TensorProto.DOUBLE
    for n in model.graph.node:
        kept = [a for a in n.attribute if a.name != "softmax_precision"]
        del n.attribute[:]
        n.attribute.extend(kept)
    values = {}
    for v, info in zip(case.data_sets[0][0], case.model.graph.input):
        v = numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v)
        double = info.type.tensor_type.elem_type in FLOATS
        values[info.name] = v.astype(np.float64) if double else v
    try:
        return ReferenceEvaluator(model).run(None, values)
    except Exception as e:  # forms that it computes only in 16 bits
        print(f"{case.name}: no outputs in float64: {e}", file=sys.stderr)
        return None


out = sys.argv[1]
exact_outputs = {}
for c in collect_testcases():
    d = os.path.join(out, c.name)
    os.makedirs(d, exist_ok=True)
    with open(os.path.join(d, "model.onnx"), "wb") as f:
        f.write(c.model.SerializeToString())
    ins, outs = c.data_sets[0]
    ok = all(
        [write(os.path.join(d, f"input_{i}.pb"), v, c.model.graph.input[i]) for i, v in enumerate(ins)]
        + [write(os.path.join(d, f"output_{i}.pb"), v, c.model.graph.output[i]) for i, v in enumerate(outs)]
    )
    with open(os.path.join(d, "tolerance"), "w") as f:
        f.write(f"{c.rtol} {c.atol} {'' if ok else 'skip'}")
    if (double := exact(c)) is not None:
        exact_outputs[c.name] = double
    for i, v in enumerate(exact_outputs.get(c.name.removesuffix("_expanded"), [])):
        write(os.path.join(d, f"exact_{i}.pb"), v, c.model.graph.output[i])
