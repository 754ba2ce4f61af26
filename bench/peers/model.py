"""The models in PyTorch: SAM's image encoder, which is Transformers' module with weights from a checkpoint with the
original release's names, and SAM 3, see sam3.py."""

import os
import re

import numpy as np

import sam3


def flop(name):
    """The number of operations of one encode of the model as published, including those that an implementation may
    skip; None if unknown."""
    count = sam3.layers(name)
    return {"sam_vit_b": 0.96e12, "sam_vit_h": 5.66e12}.get(name) if count is None else sam3.flop(count)


def result(name):
    """The name of that result of the method encode that is compared with the reference."""
    return "embeddings" if sam3.layers(name) is None else sam3.RESULT


_RENAMED = [
    (r"^patch_embed\.proj\.", "patch_embed.projection."),
    (r"^blocks\.(\d+)\.norm(\d)\.", r"layers.\1.layer_norm\2."),
    (r"^blocks\.", "layers."),
    (r"^neck\.0\.", "neck.conv1."),
    (r"^neck\.1\.", "neck.layer_norm1."),
    (r"^neck\.2\.", "neck.conv2."),
    (r"^neck\.3\.", "neck.layer_norm2."),
]


def config(shapes):
    """The configuration, from the shapes of a checkpoint's encoder."""
    depth = len([name for name in shapes if re.fullmatch(r"blocks\.\d+\.norm1\.weight", name)])
    width, _, patch, _ = shapes["patch_embed.proj.weight"]
    grid = shapes["pos_embed"][1]
    rows = [shapes[f"blocks.{i}.attn.rel_pos_h"][0] for i in range(depth)]  # 2n-1 for attention over n x n tokens
    return {
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": width // shapes["blocks.0.attn.rel_pos_h"][1],
        "image_size": grid * patch,
        "patch_size": patch,
        "window_size": (min(rows) + 1) // 2,
        "global_attn_indexes": [i for i, n in enumerate(rows) if n == 2 * grid - 1],
        "mlp_dim": shapes["blocks.0.mlp.lin1.weight"][0],
        "output_channels": shapes["neck.0.weight"][0],
    }


def encoder(checkpoint, attention, name="sam"):
    """The encoder as a module from pixels [1,3,size,size] to embeddings, or to several results with the compared one
    first. attention is "eager" or "sdpa"."""
    if sam3.layers(name) is not None:
        return sam3.encoder(checkpoint, name)
    import torch
    from safetensors import safe_open
    from transformers import SamVisionConfig
    from transformers.models.sam.modeling_sam import SamVisionEncoder

    own = {}
    with safe_open(checkpoint, "pt") as f:
        for name in f.keys():
            if name.startswith("image_encoder."):
                own[name.removeprefix("image_encoder.")] = f.get_tensor(name)
    shape = config({name: tuple(value.shape) for name, value in own.items()})
    settings = SamVisionConfig(**shape)
    settings._attn_implementation = attention
    with torch.device("meta"):
        module = SamVisionEncoder(settings)
    state = {}
    for name, value in own.items():
        for pattern, replacement in _RENAMED:
            name = re.sub(pattern, replacement, name)
        state[name] = value
    module.load_state_dict(state, strict=True, assign=True)

    class Embeddings(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = module
            self.size = shape["image_size"]

        def forward(self, pixels):
            return self.encoder(pixels, return_dict=True).last_hidden_state

    return Embeddings().eval()


def error(embeddings, files, golden, model):
    """The largest difference from the reference, relative to its largest value, as in bench/tcmp.

    The reference is the golden if the model has one, else the embeddings that PyTorch saved with save_reference. None
    without either. """
    own = f"{golden}/{model}/golden.safetensors"
    if os.path.exists(own):
        from safetensors.numpy import load_file

        want = load_file(own)["image_embeddings"]
    elif os.path.exists(reference(files, model)):
        want = np.load(reference(files, model))
    else:
        return None
    want = want.astype(np.float64)
    got = np.asarray(embeddings, dtype=np.float64).reshape(want.shape)
    return float(np.abs(got - want).max() / np.abs(want).max())


def reference(files, model):
    return f"{files}/{model}.reference.npy"


def save_reference(embeddings, files, golden, model, replace):
    """Saves embeddings as the reference of a model that has no golden."""
    if not os.path.exists(f"{golden}/{model}/golden.safetensors") and (replace or
        not os.path.exists(reference(files, model))):
        np.save(reference(files, model), embeddings)
