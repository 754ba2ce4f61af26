"""SAM 3's vision trunk and neck as a model of compare.py: "sam3", or "sam3_N" with the first N of its 32 layers.
Weights are random, with the names of Transformers. The reference is PyTorch's result."""

import json
import os
import subprocess

import numpy as np

RESULT = "level2.features"  # the result that is compared
PREFIX = "detector_model.vision_encoder."
GLOBAL = (7, 15, 23, 31)


def layers(name):
    """The number of layers, or None for other models."""
    family, _, count = name.partition("_")
    return int(count or 32) if family == "sam3" else None


def config(count):
    from transformers import Sam3ViTConfig, Sam3VisionConfig

    trunk = Sam3ViTConfig(num_hidden_layers=count, global_attn_indexes=[i for i in GLOBAL if i < count])
    return Sam3VisionConfig(backbone_config=trunk)


def flop(count):
    """The number of operations of one encode of the model as published: the products of the trunk's layers, attention,
    patches and neck."""
    tokens, width, hidden, window = 72 * 72, 1024, 4736, 24 * 24
    layer = 2 * tokens * (4 * width * width + 2 * width * hidden)
    wide = sum(i < count for i in GLOBAL)
    scores = 4 * tokens * width * (wide * tokens + (count - wide) * window)
    neck, fpn = 0, 256
    for scale, channels in (4, 256), (2, 512), (1, 1024), (0.5, 1024):
        neck += 2 * tokens * scale**2 * (channels * fpn + 9 * fpn * fpn)
    neck += 2 * tokens * 4 * (1024 * 512 + 4 * 512 * 256 + 1024 * 512)  # the transposed convolutions
    return count * layer + scores + 2 * tokens * 3 * 14 * 14 * width + neck


def prepare(a):
    """Creates checkpoint, configuration and image if they are missing, and always the artifact."""
    path = lambda ending: f"{a.files}/{a.model}.{ending}"
    settings = config(layers(a.model))
    if not os.path.exists(path("safetensors")):
        import torch
        from safetensors.torch import save_file
        from transformers import Sam3VisionModel

        torch.manual_seed(0)
        module = Sam3VisionModel(settings)
        for p in module.parameters():
            if p.dim() > 1:
                torch.nn.init.normal_(p, std=p[0].numel() ** -0.5)  # so that values neither vanish nor grow
        save_file({PREFIX + k: v.contiguous() for k, v in module.state_dict().items()}, path("safetensors"))
    with open(path("json"), "w") as f:
        json.dump({"model_type": "sam3", "vision_config": settings.to_dict()}, f)
    np.save(path("npy"), np.random.default_rng(0).standard_normal((1, 3, 1008, 1008), np.float32))
    if "rlx" in a.peers.split(","):
        subprocess.run([f"{a.bin}/rlxc", path("safetensors"), "--model-config", path("json"), "--target", a.backend,
                        "-o", path("rlx"), "-q"], check=True)


def encoder(checkpoint, name):
    """Transformers' module from pixels [1,3,1008,1008] to all results of our method encode, the compared one first."""
    import torch
    from safetensors.torch import load_file
    from transformers import Sam3VisionModel

    module = Sam3VisionModel(config(layers(name)))
    module.load_state_dict({k.removeprefix(PREFIX): v for k, v in load_file(checkpoint).items()})

    class Levels(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = module

        def forward(self, pixels):
            out = self.encoder(pixels)
            features = list(out.fpn_hidden_states)
            return (features.pop(2), *features, *out.fpn_position_encoding, out.last_hidden_state)

    return Levels().eval()
