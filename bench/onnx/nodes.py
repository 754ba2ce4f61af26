"""nodes.py DIR: writes the node tests of the onnx package to DIR, a folder for each test.

A folder has model.onnx, input_I.pb, output_I.pb and tolerance.
"""

import os, sys, warnings
import numpy as np

warnings.filterwarnings("ignore")
from onnx import numpy_helper, TensorProto
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


out = sys.argv[1]
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
