"""One peer in a process of its own: load, run once, run for the clock, check against the golden, print JSON.

    peer.py openvino|onnxruntime|torch|torch-compile --files DIR --golden DIR [--threads 2] [--precision f32|bf16] [-n 1]

DIR of --files holds what run.sh prepares: sam_vit_b.safetensors, image.npy, encoder.onnx.
"""

import argparse
import json
import os
import sys
import time

import numpy as np

import model
from load import Usage, peak_rss


def openvino(files, golden, threads, precision):
    import openvino as ov

    compiled = ov.Core().compile_model(f"{files}/encoder.onnx", "CPU", {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision,
    })
    request = compiled.create_infer_request()
    return ov.__version__.split("-")[0], lambda image: request.infer({0: image})[compiled.outputs[0]]


def onnxruntime(files, golden, threads, precision):
    if precision != "f32":
        sys.exit("onnxruntime: its CPU provider has no bf16 kernels for this model")
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(f"{files}/encoder.onnx", options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return ort.__version__, lambda image: session.run(None, {name: image})[0]


def torch(files, golden, threads, precision, compiled=False):
    import torch

    torch.set_num_threads(threads)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[precision]
    module = model.encoder(f"{files}/sam_vit_b.safetensors", f"{golden}/case.json", "sdpa").to(dtype)
    if compiled:
        module = torch.compile(module)

    def run(image):
        with torch.inference_mode():
            return module(torch.from_numpy(image).to(dtype)).float().numpy()

    return torch.__version__, run


def torch_compile(files, golden, threads, precision):
    return torch(files, golden, threads, precision, compiled=True)


PEERS = {"openvino": openvino, "onnxruntime": onnxruntime, "torch": torch, "torch-compile": torch_compile}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--files", required=True)
    parser.add_argument("--golden", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("-n", type=int, default=1, help="timed runs after the first")
    a = parser.parse_args()
    # Libraries print on stdout as they please; the result must stand alone there.
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    begin = time.monotonic()
    image = np.load(f"{a.files}/image.npy")
    version, run = PEERS[a.peer](a.files, a.golden, a.threads, a.precision)
    loaded = time.monotonic()
    out = run(image)
    first = time.monotonic()
    runs = []
    for _ in range(a.n):
        usage = Usage(os.getpid())
        out = run(image)
        runs.append(usage.since())
    json.dump({
        "version": version,
        "load_s": loaded - begin,
        "first_s": first - loaded,
        "runs": runs,
        "peak_rss_bytes": peak_rss(os.getpid()),
        "error": model.error(out, f"{a.golden}/golden.safetensors"),
    }, result)


if __name__ == "__main__":
    main()
