"""Writes the encoder as ONNX, which OpenVINO and ONNX Runtime both read.

    export.py CHECKPOINT encoder.onnx

We tried torch.export and tracing, eager and fused attention, and for OpenVINO also its own conversion from PyTorch.
This way was the fastest for ONNX Runtime, and none was faster for OpenVINO. """

import sys

import torch

import model

if __name__ == "__main__":
    checkpoint, out = sys.argv[1:]
    encoder = model.encoder(checkpoint, "sdpa")
    pixels = torch.zeros(1, 3, encoder.size, encoder.size)
    with torch.inference_mode():
        torch.onnx.export(encoder, (pixels,), out, dynamo=True, external_data=True,
                          input_names=["pixels"], output_names=["embeddings"])
