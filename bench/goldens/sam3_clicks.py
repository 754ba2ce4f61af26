"""Makes the golden case of clicks with SAM 3 with Transformers in float64:

    python3 bench/goldens/sam3_clicks.py

testdata/goldens/sam3_clicks has config.json of a whole checkpoint, manifest.json (the weights of the tracker and its
neck, by the formula of formula.py; the trunk's are those of sam3_concepts), case.json and golden.safetensors:
features0, features1 and embeddings [1,C,h,w], and for each prompt PROMPT.low_res_masks, PROMPT.iou and
PROMPT.object_score. A prompt with "delta" sets the decoder's dynamic_multimask_stability_delta.

The tracker's neck has three levels here, and the published model four. With four, Sam3TrackerModel adds the embedding
of an empty memory to the fourth, which it then drops; the original release, and Transformers' Sam3VideoModel, add it to
the third.

segment/testdata/sam3.point.png and sam3.box.png: masks of demo/coins.png, with image processor and model in float32:
the best of three for the point 100,140, and the single mask for the box 60,40,200,160 with that point. """

import copy
import json
import math

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import save_file
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor
from transformers.models.sam3_tracker.configuration_sam3_tracker import Sam3TrackerConfig
from transformers.models.sam3_tracker.modeling_sam3_tracker import Sam3TrackerModel

from formula import GOLDENS, synth

FLOAT32, WIDEN = torch.float32, torch.Tensor.float
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.float = torch.float32 = torch.float64  # the type that Transformers widens to
torch.Tensor.float = torch.Tensor.double

CASE, WHOLE = GOLDENS / "sam3_clicks", GOLDENS / "sam3_concepts"
DETECTOR = json.loads((WHOLE / "config.json").read_text())
VISION = copy.deepcopy(DETECTOR["vision_config"])
SIDE, PATCH, WIDTH = (VISION["backbone_config"]["image_size"], VISION["backbone_config"]["patch_size"],
                      VISION["fpn_hidden_size"])
GRID = SIDE // PATCH
TRACKER = {
    "model_type": "sam3_tracker",
    "prompt_encoder_config": {"hidden_size": WIDTH, "image_size": SIDE, "patch_size": PATCH, "mask_input_channels": 8},
    "mask_decoder_config": {"hidden_size": WIDTH, "num_attention_heads": 4, "mlp_dim": 40, "iou_head_hidden_dim": 24},
}
SHARED = "shared_image_embedding.positional_embedding"
POINT = {"points": [[38.4, 76.8]], "labels": [1]}
TWO = {"points": [[38.4, 76.8], [89.6, 25.6]], "labels": [1, 0]}
BOX = {"box": [19.2, 30.4, 96.0, 102.4]}
MASK = {"mask": {"name": "sam3_clicks.mask", "shape": [1, 1, 4 * GRID, 4 * GRID], "scale": 8.0, "shift": 0.0}}
PROMPTS = {
    "point": POINT | {"multimask": True}, "box": BOX | {"multimask": True},
    "box_point": BOX | POINT | {"multimask": False}, "mask": POINT | MASK | {"multimask": True},
    "stable": TWO | {"multimask": False, "delta": 1e-6}, "unstable": TWO | {"multimask": False, "delta": 1.0},
}


def tensor(e):
    return torch.tensor(synth(e)).double()


def entry(name, shape):
    """The formula of a weight: about the magnitudes that keep activations near 1."""
    scale, shift = 0.1, 0.0
    if "norm" in name and name.endswith("weight"):
        scale, shift = 0.2, 1.0
    elif name.endswith(SHARED) or "token" in name and len(shape) == 2 and "transformer" not in name or (
            "_embed." in name and ("point" in name or "no_mask" in name)):
        scale = 1.0
    elif name.endswith("no_memory_embedding"):
        scale = 0.5
    elif len(shape) > 1:
        inputs = shape[0] if "upscale_conv" in name or "scale_layers" in name else math.prod(shape[1:])
        scale = math.sqrt(3 / inputs)
    return {"name": name, "shape": list(shape), "scale": round(scale, 4), "shift": shift}


def stored(name):
    """The name of a tensor in a whole checkpoint. The trunk is that of sam3_concepts."""
    if name.startswith("vision_encoder.neck."):
        return "tracker_neck." + name.removeprefix("vision_encoder.neck.")
    return name if name.startswith("vision_encoder.") else "tracker_model." + name


vision = VISION | {"scale_factors": [4.0, 2.0, 1.0],
                   "backbone_feature_sizes": [[4 * GRID] * 2, [2 * GRID] * 2, [GRID] * 2]}
config = Sam3TrackerConfig(**json.loads(json.dumps(TRACKER | {"vision_config": vision})), attn_implementation="eager")
model = Sam3TrackerModel(config).double().eval()
trunk = {e["name"]: e for e in json.loads((WHOLE / "manifest.json").read_text())}
manifest, state = [], {}
for name, x in model.state_dict().items():
    if name == "prompt_encoder.shared_embedding.positional_embedding":
        continue
    e = trunk.get(stored(name)) or entry(stored(name), x.shape)
    if not name.startswith("vision_encoder.backbone."):
        manifest.append(e)
    state[name] = tensor(e)
for kind, shape in [("proj1.weight", (WIDTH, VISION["backbone_config"]["hidden_size"], 1, 1)), ("proj1.bias", (WIDTH,)),
                    ("proj2.weight", (WIDTH, WIDTH, 3, 3)), ("proj2.bias", (WIDTH,))]:  # of the fourth level
    manifest.append(entry("tracker_neck.fpn_layers.3." + kind, shape))
state["prompt_encoder.shared_embedding.positional_embedding"] = state[SHARED]
model.load_state_dict(state)

image = {"name": "sam3_clicks.image", "shape": [1, 3, SIDE, SIDE], "scale": 2.0, "shift": 0.0}
embeddings = model.get_image_embeddings(tensor(image))
golden = dict(zip(["features0", "features1", "embeddings"], embeddings))
usual = model.mask_decoder.dynamic_multimask_stability_delta
for name, p in PROMPTS.items():
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
    print(name, "inside", (out.pred_masks > 0).double().mean((-1, -2)).flatten().tolist(), "iou",
          out.iou_scores.flatten().tolist())
model.mask_decoder.dynamic_multimask_stability_delta = usual
assert not np.allclose(golden["stable.iou"], golden["unstable.iou"]), "the choice by stability must differ"

CASE.mkdir(exist_ok=True)
described = {"prompt": {"image_embedding_size": GRID}, "image": image, "prompts": PROMPTS}
whole = {"model_type": "sam3_video", "detector_config": DETECTOR, "tracker_config": TRACKER}
for name, doc in {"config": whole, "manifest": manifest, "case": described}.items():
    (CASE / (name + ".json")).write_text(json.dumps(doc, indent=1) + "\n")
save_file({k: np.ascontiguousarray(v.numpy().astype(np.float32)) for k, v in golden.items()},
          CASE / "golden.safetensors")

torch.float = torch.float32 = FLOAT32
torch.Tensor.float = WIDEN
torch.set_default_dtype(torch.float32)
root, model = GOLDENS.parents[1], model.float()
photo = Image.open(root / "demo" / "coins.png").convert("RGB")
processor = Sam3ImageProcessor(size={"height": SIDE, "width": SIDE})
inputs = processor(photo, return_tensors="pt")
scale = torch.tensor([SIDE / photo.width, SIDE / photo.height])
point = {"input_points": torch.tensor([[[[100.0, 140.0]]]]) * scale, "input_labels": torch.tensor([[[1]]])}
box = {"input_boxes": torch.tensor([[[60.0, 40.0, 200.0, 160.0]]]) * scale.repeat(2)}
for name, prompt, multimask in [("point", point, True), ("box", point | box, False)]:
    out = model(pixel_values=inputs["pixel_values"], multimask_output=multimask, **prompt)
    masks = torch.nn.functional.interpolate(out.pred_masks[0], (photo.height, photo.width), mode="bilinear",
                                            align_corners=False)[0] > 0
    found = masks[out.iou_scores[0, 0].argmax()].numpy()
    print("coins", name, "inside", found.mean(), "iou", out.iou_scores.flatten().tolist())
    Image.fromarray(found).save(root / "segment" / "testdata" / f"sam3.{name}.png", optimize=True)
