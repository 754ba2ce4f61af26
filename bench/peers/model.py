"""SAM's image encoder in PyTorch: Transformers' module with the weights of a checkpoint in the original release's names."""

import json
import re

import numpy as np

SIZE = 1024  # pixels of the square input

_RENAMED = [
    (r"^patch_embed\.proj\.", "patch_embed.projection."),
    (r"^blocks\.(\d+)\.norm(\d)\.", r"layers.\1.layer_norm\2."),
    (r"^blocks\.", "layers."),
    (r"^neck\.0\.", "neck.conv1."),
    (r"^neck\.1\.", "neck.layer_norm1."),
    (r"^neck\.2\.", "neck.conv2."),
    (r"^neck\.3\.", "neck.layer_norm2."),
]


def encoder(checkpoint, case, attention):
    """The encoder as a module from pixels [1,3,1024,1024] to embeddings [1,256,64,64].

    case is the golden's case.json, which holds the configuration; attention is "eager" or "sdpa".
    """
    import torch
    from safetensors.torch import load_file
    from transformers import SamVisionConfig
    from transformers.models.sam.modeling_sam import SamVisionEncoder

    with open(case) as f:
        config = SamVisionConfig(**json.load(f)["vision"])
    config._attn_implementation = attention
    with torch.device("meta"):
        module = SamVisionEncoder(config)
    state = {}
    for name, value in load_file(checkpoint).items():
        if not name.startswith("image_encoder."):
            continue
        name = name.removeprefix("image_encoder.")
        for pattern, replacement in _RENAMED:
            name = re.sub(pattern, replacement, name)
        state[name] = value
    module.load_state_dict(state, strict=True, assign=True)

    class Embeddings(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = module

        def forward(self, pixels):
            return self.encoder(pixels, return_dict=True).last_hidden_state

    return Embeddings().eval()


def error(embeddings, golden):
    """The largest difference from the golden embeddings, relative to their largest value, as bench/tcmp counts it."""
    from safetensors.numpy import load_file

    want = load_file(golden)["image_embeddings"].astype(np.float64)
    got = np.asarray(embeddings, dtype=np.float64).reshape(want.shape)
    return float(np.abs(got - want).max() / np.abs(want).max())
