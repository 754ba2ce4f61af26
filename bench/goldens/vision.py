"""Makes golden cases of vision encoders with Transformers in float64:

    python3 bench/goldens/vision.py

testdata/goldens/sam3_vision_tiny/odd.safetensors: SAM 3 with grids of 5x5 and 7x7 tokens, whose smallest level rounds
down. The weights are those of the manifest. Names begin with the side of the grid: 5.tokens, 5.level2.features,
5.level3.features, 5.level3.pos. The image NxN is sam3_vision_tiny.image as a tensor [1,3,N,N]. The script checks first
that it reproduces golden.safetensors.

testdata/goldens/sam_tiny/positions.safetensors: image embeddings of sam_tiny's encoder without absolute positions
(no_abs_pos), and with relative positions of one axis only (no_rel_pos_h, no_rel_pos_w), for sam_tiny's image.
Transformers has no switch for one axis; a table of zeros has its effect. """

import json
import re

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers.models.sam.configuration_sam import SamVisionConfig
from transformers.models.sam.modeling_sam import SamVisionModel
from transformers.models.sam3.configuration_sam3 import Sam3VisionConfig
from transformers.models.sam3.modeling_sam3 import Sam3VisionModel

from formula import GOLDENS, synth

torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.float = torch.float32 = torch.float64  # the type that Transformers widens to
torch.Tensor.float = torch.Tensor.double


def tensor(e):
    return torch.tensor(synth(e)).double()


def manifest(case):
    return json.loads((GOLDENS / case / "manifest.json").read_text())


def save(path, arrays):
    save_file({k: np.ascontiguousarray(v.numpy().astype(np.float32)) for k, v in arrays.items()}, path)


SAM3 = [
    (r"^trunk\.pos_embed$", "backbone.embeddings.position_embeddings"),
    (r"^trunk\.patch_embed\.proj\.", "backbone.embeddings.patch_embeddings.projection."),
    (r"^trunk\.ln_pre\.", "backbone.layer_norm."),
    (r"^trunk\.blocks\.(\d+)\.norm(\d)\.", r"backbone.layers.\1.layer_norm\2."),
    (r"^trunk\.blocks\.(\d+)\.attn\.proj\.", r"backbone.layers.\1.attention.o_proj."),
    (r"^trunk\.blocks\.(\d+)\.attn\.", r"backbone.layers.\1.attention."),
    (r"^trunk\.blocks\.", "backbone.layers."),
    (r"^convs\.(\d+)\.dconv_2x2(_0)?\.", r"neck.fpn_layers.\1.scale_layers.0."),
    (r"^convs\.(\d+)\.dconv_2x2_1\.", r"neck.fpn_layers.\1.scale_layers.2."),
    (r"^convs\.(\d+)\.conv_1x1\.", r"neck.fpn_layers.\1.proj1."),
    (r"^convs\.(\d+)\.conv_3x3\.", r"neck.fpn_layers.\1.proj2."),
]


def renamed(rules, name):
    for pattern, to in rules:
        if re.search(pattern, name):
            return re.sub(pattern, to, name)
    return name


def sam3(grid):
    """Runs sam3_vision_tiny on an image of grid x grid patches."""
    config = json.loads((GOLDENS / "sam3_vision_tiny" / "config.json").read_text())["vision_config"]
    side = grid * config["backbone_config"]["patch_size"]
    config["backbone_config"]["image_size"] = side
    model = Sam3VisionModel(Sam3VisionConfig(**config, attn_implementation="eager")).double().eval()
    state = {}
    for e in manifest("sam3_vision_tiny"):
        name = renamed(SAM3, e["name"].removeprefix("detector.backbone.vision_backbone."))
        t = tensor(e)
        if name.endswith("position_embeddings"):
            t = t[:, 1:]
        if ".attention.qkv." in name:
            for part, rows in zip("qkv", t.chunk(3)):
                state[name.replace("qkv", part + "_proj")] = rows
        else:
            state[name] = t
    found = model.load_state_dict(state, strict=False)
    assert not found.unexpected_keys and not found.missing_keys, found
    out = model(tensor({"name": "sam3_vision_tiny.image", "shape": [1, 3, side, side], "scale": 1.7, "shift": 0.0}))
    arrays = {"tokens": out.last_hidden_state}
    for i, (x, pos) in enumerate(zip(out.fpn_hidden_states, out.fpn_position_encoding)):
        arrays[f"level{i}.features"], arrays[f"level{i}.pos"] = x, pos
    return arrays


def check(got, want):
    for name, x in got.items():
        w = torch.tensor(want[name]).double().reshape(x.shape)
        assert (x - w).abs().max() < 1e-5, (name, (x - w).abs().max())


case = GOLDENS / "sam3_vision_tiny"
check(sam3(8), load_file(case / "golden.safetensors"))
odd = {}
for grid in [5, 7]:
    for name, x in sam3(grid).items():
        if name in ["tokens", "level2.features", "level3.features", "level3.pos"]:
            odd[f"{grid}.{name}"] = x
save(case / "odd.safetensors", odd)

SAM = [
    (r"^blocks\.(\d+)\.norm(\d)\.", r"layers.\1.layer_norm\2."),
    (r"^blocks\.", "layers."),
    (r"^patch_embed\.proj\.", "patch_embed.projection."),
    (r"^neck\.0\.", "neck.conv1."),
    (r"^neck\.1\.", "neck.layer_norm1."),
    (r"^neck\.2\.", "neck.conv2."),
    (r"^neck\.3\.", "neck.layer_norm2."),
]


def sam(config, without):
    """Runs sam_tiny's encoder without tensors whose name contains a text."""
    model = SamVisionModel(SamVisionConfig(**config, attn_implementation="eager")).double().eval()
    state = {}
    for e in manifest("sam_tiny"):
        name, t = e["name"].removeprefix("image_encoder."), tensor(e)
        if name == e["name"] or without == "pos_embed" and name == without:
            continue
        state["vision_encoder." + renamed(SAM, name)] = 0 * t if without and without in name else t
    model.load_state_dict(state)
    case = json.loads((GOLDENS / "sam_tiny" / "case.json").read_text())
    return model(tensor(case["image"])).last_hidden_state


case = GOLDENS / "sam_tiny"
vision = json.loads((case / "case.json").read_text())["vision"]
check({"image_embeddings": sam(vision, "")}, load_file(case / "golden.safetensors"))
save(case / "positions.safetensors", {
    "no_abs_pos": sam({**vision, "use_abs_pos": False}, "pos_embed"),
    "no_rel_pos_h": sam(vision, "rel_pos_h"),
    "no_rel_pos_w": sam(vision, "rel_pos_w"),
})
