"""Makes the golden cases of SAM 2 with Transformers in float64:

    python3 bench/goldens/sam2.py

It writes config.json, manifest.json, case.json and golden.safetensors of testdata/goldens/sam2_tiny and
testdata/goldens/sam2_odd. Names in golden.safetensors: stage0, stage1 and so on are the results of the stages of the
backbone, [1,h,w,C]; level0 to level2 are the levels of the neck, [1,C,h,w]; features0, features1 and embeddings are
what the decoder takes, [1,C,h,w]. Each prompt has PROMPT.low_res_masks, PROMPT.iou and PROMPT.object_score. A prompt
with "delta" sets the decoder's dynamic_multimask_stability_delta.

segment/testdata/sam2.safetensors: pixel_values [3,32,32] of the part (40,30)-(97,71) of demo/coins.png, and the mask
[41,57] of the logits [24,24], by the image processor.

segment/testdata/sam2.point.png and sam2.box.png: masks of demo/coins.png by sam2_tiny, with image processor and model
in float32: the best of three for the point 100,140, and the single mask for the box 60,40,200,160 with that point. """

import json
import math

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import save_file
from transformers.models.sam2.configuration_sam2 import Sam2Config
from transformers.models.sam2.image_processing_sam2 import Sam2ImageProcessor
from transformers.models.sam2.modeling_sam2 import Sam2Model

from formula import GOLDENS, synth

FLOAT32, WIDEN = torch.float32, torch.Tensor.float
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.float = torch.float32 = torch.float64  # the type that Transformers widens to
torch.Tensor.float = torch.Tensor.double

SHARED = "shared_image_embedding.positional_embedding"


def tensor(e):
    return torch.tensor(synth(e)).double()


def entry(name, shape):
    """The formula of a weight: about the magnitudes that keep activations near 1."""
    scale, shift = 0.1, 0.0
    if "norm" in name and name.endswith("weight"):
        scale, shift = 0.2, 1.0
    elif name == SHARED or "token" in name and len(shape) == 2 and "transformer" not in name or "_embed." in name and (
            "point" in name or "no_mask" in name):
        scale = 1.0
    elif "pos_embed" in name or name == "no_memory_embedding":
        scale = 0.5
    elif len(shape) > 1:
        inputs = shape[0] if "upscale_conv" in name else math.prod(shape[1:])
        scale = math.sqrt(3 / inputs)
    return {"name": name, "shape": list(shape), "scale": round(scale, 4), "shift": shift}


def config(side, backbone, vision, decoder, mask_channels):
    stages = len(backbone["blocks_per_stage"])
    sides = [side // 4 >> min(i, 3) for i in range(stages)]
    backbone |= {"hidden_size": backbone["embed_dim_per_stage"][0], "image_size": [side, side],
                 "num_attention_heads": backbone["num_attention_heads_per_stage"][0], "model_type": "sam2_hiera_det_model"}
    width = decoder["hidden_size"]
    return {
        "model_type": "sam2",
        "vision_config": vision | {
            "model_type": "sam2_vision_model", "backbone_config": backbone, "fpn_hidden_size": width,
            "backbone_channel_list": backbone["embed_dim_per_stage"][::-1],
            "backbone_feature_sizes": [[s, s] for s in sides[:3]]},
        "prompt_encoder_config": {"hidden_size": width, "image_size": side, "patch_size": 16,
                                  "mask_input_channels": mask_channels},
        "mask_decoder_config": decoder,
    }


POINT = {"points": [[38.4, 76.8]], "labels": [1]}
TWO = {"points": [[38.4, 76.8], [89.6, 25.6]], "labels": [1, 0]}
BOX = {"box": [19.2, 30.4, 96.0, 102.4]}


def mask(case, side):
    return {"mask": {"name": case + ".mask", "shape": [1, 1, side, side], "scale": 8.0, "shift": 0.0}}


CASES = {
    "sam2_tiny": (
        config(
            128, {
                "blocks_per_stage": [1, 2, 2, 1], "embed_dim_per_stage": [8, 16, 24, 32],
                "num_attention_heads_per_stage": [1, 2, 3, 4], "window_size_per_stage": [8, 5, 6, 3],
                "global_attention_blocks": [4], "window_positional_embedding_background_size": [3, 3]},
            {"fpn_top_down_levels": [2, 3]},
            {"hidden_size": 16, "num_attention_heads": 2, "mlp_dim": 48, "iou_head_hidden_dim": 16}, 16),
        {
            "point": POINT | {"multimask": True}, "box": BOX | {"multimask": True},
            "box_point": BOX | POINT | {"multimask": False},
            "mask": POINT | mask("sam2_tiny", 32) | {"multimask": True},
            "stable": TWO | {"multimask": False, "delta": 1e-6}, "unstable": TWO | {"multimask": False, "delta": 1.0},
        }),
    "sam2_odd": (
        config(
            112, {
                "blocks_per_stage": [2, 1, 1, 2], "embed_dim_per_stage": [12, 20, 24, 28],
                "num_attention_heads_per_stage": [3, 2, 4, 1], "window_size_per_stage": [4, 6, 4, 2],
                "global_attention_blocks": [1, 5], "window_positional_embedding_background_size": [5, 4],
                "mlp_ratio": 3.0, "patch_kernel_size": [5, 5], "patch_padding": [2, 2], "layer_norm_eps": 1e-5},
            {"fpn_top_down_levels": [0, 1]},
            {"hidden_size": 24, "num_attention_heads": 3, "mlp_dim": 40, "iou_head_hidden_dim": 20, "iou_head_depth": 2,
             "num_hidden_layers": 3, "num_multimask_outputs": 2, "attention_downsample_rate": 1,
             "dynamic_multimask_via_stability": False}, 8),
        {"point": TWO | {"multimask": False}, "mask": BOX | POINT | mask("sam2_odd", 28) | {"multimask": True}}),
}


def run(case, config, prompts):
    model = Sam2Model(Sam2Config(**config, attn_implementation="eager")).double().eval()
    shapes = {k: v.shape for k, v in model.state_dict().items()}
    manifest = [entry(k, s) for k, s in shapes.items() if k != "prompt_encoder.shared_embedding.positional_embedding"]
    state = {e["name"]: tensor(e) for e in manifest}
    state["prompt_encoder.shared_embedding.positional_embedding"] = state[SHARED]
    model.load_state_dict(state)
    side = config["prompt_encoder_config"]["image_size"]
    image = {"name": case + ".image", "shape": [1, 3, side, side], "scale": 2.0, "shift": 0.0}
    pixels = tensor(image)
    golden = {}
    for i, x in enumerate(model.vision_encoder.backbone(pixels).intermediate_hidden_states):
        golden[f"stage{i}"] = x
    for i, x in enumerate(model.vision_encoder(pixels).fpn_hidden_states):
        golden[f"level{i}"] = x
    embeddings = model.get_image_embeddings(pixels)
    for name, x in zip(["features0", "features1", "embeddings"], embeddings):
        golden[name] = x
    usual = model.mask_decoder.dynamic_multimask_stability_delta
    for name, p in prompts.items():
        inputs = {}
        if "points" in p:
            inputs |= {"input_points": torch.tensor([[p["points"]]]), "input_labels": torch.tensor([[p["labels"]]])}
        if "box" in p:
            inputs["input_boxes"] = torch.tensor([[p["box"]]])
        if "mask" in p:
            inputs["input_masks"] = tensor(p["mask"])
        model.mask_decoder.dynamic_multimask_stability_delta = p.get("delta", usual)
        out = model(image_embeddings=[x.clone() for x in embeddings], multimask_output=p["multimask"], **inputs)
        golden[name + ".low_res_masks"], golden[name + ".iou"] = out.pred_masks[0], out.iou_scores[0]
        golden[name + ".object_score"] = out.object_score_logits[0]
        inside = (out.pred_masks > 0).double().mean((-1, -2))
        print(case, name, "inside", inside.flatten().tolist(), "iou", out.iou_scores.flatten().tolist())
    model.mask_decoder.dynamic_multimask_stability_delta = usual
    folder = GOLDENS / case
    folder.mkdir(exist_ok=True)
    grid = side // 16
    described = {"prompt": {"image_embedding_size": grid}, "image": image, "prompts": prompts}
    for name, doc in {"config": config, "manifest": manifest, "case": described}.items():
        (folder / (name + ".json")).write_text(json.dumps(doc, indent=1) + "\n")
    save_file({k: np.ascontiguousarray(v.numpy().astype(np.float32)) for k, v in golden.items()},
              folder / "golden.safetensors")
    return model, golden


model, tiny = run("sam2_tiny", *CASES["sam2_tiny"])
assert not np.allclose(tiny["stable.iou"], tiny["unstable.iou"]), "the choice by stability must differ"
run("sam2_odd", *CASES["sam2_odd"])

torch.float = torch.float32 = FLOAT32
torch.Tensor.float = WIDEN
torch.set_default_dtype(torch.float32)
root = GOLDENS.parents[1]
photo = Image.open(root / "demo" / "coins.png").convert("RGB").crop((40, 30, 97, 71))
processor = Sam2ImageProcessor(size={"height": 32, "width": 32})
pixels = processor(photo, return_tensors="pt")["pixel_values"][0]
logits = torch.tensor(synth({"name": "sam2.logits", "shape": [24, 24], "scale": 1.0, "shift": 0.1}))
mask = processor.post_process_masks(logits[None, None, None], [[41, 57]])[0][0, 0]

photo, model = Image.open(root / "demo" / "coins.png").convert("RGB"), model.float()
inputs = Sam2ImageProcessor(size={"height": 128, "width": 128})(photo, return_tensors="pt")
scale = torch.tensor([128 / photo.width, 128 / photo.height])
point = {"input_points": torch.tensor([[[[100.0, 140.0]]]]) * scale, "input_labels": torch.tensor([[[1]]])}
box = {"input_boxes": torch.tensor([[[60.0, 40.0, 200.0, 160.0]]]) * scale.repeat(2)}
for name, prompt, multimask in [("point", point, True), ("box", point | box, False)]:
    out = model(pixel_values=inputs["pixel_values"], multimask_output=multimask, **prompt)
    masks = processor.post_process_masks(out.pred_masks, inputs["original_sizes"])[0][0]
    found = masks[out.iou_scores[0, 0].argmax()].numpy()
    print("coins", name, "inside", found.mean(), "iou", out.iou_scores.flatten().tolist())
    Image.fromarray(found).save(root / "segment" / "testdata" / f"sam2.{name}.png", optimize=True)
save_file({"pixel_values": pixels.numpy(), "logits": logits.numpy(), "mask": mask.numpy().astype(np.float32)},
          root / "segment" / "testdata" / "sam2.safetensors")
