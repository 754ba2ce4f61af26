"""Writes the encoder as ONNX, which OpenVINO and ONNX Runtime both read.

    export.py CHECKPOINT encoder.onnx

Of what was tried (torch.export or tracing, eager or fused attention; for OpenVINO also its own conversion from PyTorch) this
was the fastest for ONNX Runtime, and as fast as any for OpenVINO.
"""

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
