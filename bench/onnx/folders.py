"""Writes folders of exported models: model.onnx, inputs, and the outputs that ONNX Runtime computes from them."""

import os

import onnxruntime as ort
from onnx import numpy_helper


def write(d, session, feed):
    """Writes the inputs of feed, by name, and the outputs of a session to folder d."""
    os.makedirs(d, exist_ok=True)
    for i, (n, v) in enumerate(feed.items()):
        open(os.path.join(d, f"input_{i}.pb"), "wb").write(numpy_helper.from_array(v, n).SerializeToString())
    for i, v in enumerate(session.run(None, feed)):
        open(os.path.join(d, f"output_{i}.pb"), "wb").write(numpy_helper.from_array(v).SerializeToString())


def export_each(out, names, export):
    """Exports each model to out/NAME, and prints a line that says whether that worked.

    export(name, path) writes the model to path. It returns a function from a session to a list of inputs, by name: the
    first is for the folder itself, the others, of other sizes, for its folders size1, size2, ...
    """
    for name in names:
        d = os.path.join(out, name)
        os.makedirs(d, exist_ok=True)
        path = os.path.join(d, "model.onnx")
        try:
            feeds = export(name, path)
            session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
            for k, feed in enumerate(feeds(session)):
                write(os.path.join(d, f"size{k}") if k else d, session, feed)
            open(os.path.join(d, "tolerance"), "w").write("largest 1e-4")
            print("ok", name, flush=True)
        except Exception as e:
            if os.path.exists(path):
                os.remove(path)
            print("FAIL", name, type(e).__name__, str(e)[:300].replace("\n", " "), flush=True)
