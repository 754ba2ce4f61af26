"""Runs one peer. compare.py starts it and sends it requests.

    peer.py openvino|onnxruntime|torch|torch-compile --files DIR --golden DIR
        [--model NAME] [--threads 2] [--precision f32|bf16]
            [--device cpu|cuda]

It loads the model, runs once, checks the result and prints a line of JSON. Each line on standard input is a number of
runs to time, or "peak" to measure the rate of matrix products on the device of the torch peers. It answers each with a
line of JSON, and exits at the end of the input.

DIR of --files holds what compare.py prepares: MODEL.safetensors, MODEL.npy (the image), MODEL.onnx.
"""

import argparse
import json
import os
import sys
import time

import numpy as np

import gpu
import model
from load import Usage, peak_rss


def openvino(a):
    import openvino as ov

    compiled = ov.Core().compile_model(f"{a.files}/{a.model}.onnx", "CPU", {
        "INFERENCE_NUM_THREADS": a.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": a.precision,
    })
    request = compiled.create_infer_request()
    return ov.__version__.split("-")[0], lambda image: request.infer({0: image})[compiled.outputs[0]]


def onnxruntime(a):
    if a.precision != "f32":
        sys.exit("onnxruntime: its CPU provider has no bf16 kernels for this model")
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = a.threads
    session = ort.InferenceSession(f"{a.files}/{a.model}.onnx", options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return ort.__version__, lambda image: session.run(None, {name: image})[0]


def torch(a, compiled=False):
    import torch

    torch.set_num_threads(a.threads)
    # Forbids TF32, to which a GPU would otherwise round the operands of products and convolutions.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[a.precision]
    module = model.encoder(f"{a.files}/{a.model}.safetensors", "sdpa", a.model).to(device=a.device, dtype=dtype)
    if compiled:
        module = torch.compile(module)

    def results(pixels):
        out = module(pixels)
        return [x.float() for x in (out if isinstance(out, tuple) else (out,))]

    def run(image):
        with torch.inference_mode():
            return [x.cpu().numpy() for x in results(torch.from_numpy(image).to(device=a.device, dtype=dtype))][0]

    if a.device != "cuda":
        return torch.__version__, run

    # The fastest transfer: pinned memory on both sides, and one wait at the end.
    pinned = {}

    def run_gpu(image):
        with torch.inference_mode():
            if not pinned:
                pinned["in"] = torch.from_numpy(image).pin_memory()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            pixels = pinned["in"].to(device="cuda", dtype=dtype, non_blocking=True)
            begin.record()
            made = results(pixels)
            end.record()
            if "out" not in pinned:
                pinned["out"] = [torch.empty(x.shape, pin_memory=True) for x in made]
            for to, x in zip(pinned["out"], made):
                to.copy_(x, non_blocking=True)
            torch.cuda.synchronize()
            run_gpu.device_s = begin.elapsed_time(end) / 1e3
            return pinned["out"][0].numpy()

    return f"{torch.__version__} on {torch.cuda.get_device_name()}", run_gpu


def torch_compile(a):
    return torch(a, compiled=True)


PEERS = {"openvino": openvino, "onnxruntime": onnxruntime, "torch": torch, "torch-compile": torch_compile}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--files", required=True)
    parser.add_argument("--golden", required=True)
    parser.add_argument("--model", default="sam_vit_b")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="device of the torch peers")
    a = parser.parse_args()
    # Libraries may print on stdout, where only the answers must appear.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    begin = time.monotonic()
    image = np.load(f"{a.files}/{a.model}.npy")
    version, run = PEERS[a.peer](a)
    loaded = time.monotonic()
    out = run(image)
    first = time.monotonic()
    if a.peer in ("torch", "torch-compile") and a.precision == "f32":
        model.save_reference(out, a.files, a.golden, a.model, replace=a.peer == "torch")
    answer({"version": version, "load_s": loaded - begin, "first_s": first - loaded,
            "error": model.error(out, a.files, a.golden, a.model)})
    for line in sys.stdin:
        if line.strip() == "peak":
            answer({"gflop_per_s": gpu.peak(a.device)})
            continue
        runs = []
        for _ in range(int(line)):
            usage = Usage(os.getpid())
            run(image)
            runs.append(usage.since())
            if hasattr(run, "device_s"):
                runs[-1]["device_s"] = run.device_s
        answer({"runs": runs, "peak_rss_bytes": peak_rss(os.getpid())})


if __name__ == "__main__":
    main()
