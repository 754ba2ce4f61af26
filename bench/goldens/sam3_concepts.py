"""Makes the golden case of finding objects by a text and by examples, with Transformers' processor and model for SAM 3:

    python3 bench/goldens/sam3_concepts.py

testdata/goldens/sam3_concepts has config.json, manifest.json (the weights, by the formula of formula.py) and
golden.json: for each prompt the objects above the threshold, the best first, with box and mask in pixels of
demo/coins.png, and the scores of all queries, the best first. The processor scales images with weights of 16 bits if
torchvision has AVX2, so some pixels differ by one from Pillow's, which RLX's equal; the scores of all queries are those
for Pillow's pixels. The model is sam3_tiny's with more queries, and with weights that keep its queries apart, so that
order and threshold decide which objects are found. The tokenizer is sam3_tiny's, too. """

import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
from PIL import Image
from pycocotools import mask as coco
from transformers import CLIPTokenizer, Sam3Processor
from transformers.models.sam3.configuration_sam3 import Sam3Config
from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor
from transformers.models.sam3.modeling_sam3 import Sam3Model

from formula import GOLDENS, synth

torch.set_grad_enabled(False)
CASE, TINY = GOLDENS / "sam3_concepts", GOLDENS / "sam3_tiny"
CONFIG = json.loads((TINY / "config.json").read_text())
CONFIG["detr_decoder_config"]["num_queries"] = 12
CONFIG["text_config"].update(vocab_size=519, max_position_embeddings=32, bos_token_id=517, eos_token_id=518,
                             pad_token_id=518)
PROMPTS = [
    {"text": "coin"},
    {"text": "a red Coin"},
    {"text": "coin", "boxes": [[316, 155, 379, 218], [10, 20, 60.5, 70]], "labels": [1, 0]},
    {"boxes": [[180, 180, 230, 230]], "labels": [1], "threshold": 0.08},
]

model = Sam3Model(Sam3Config(**json.loads(json.dumps(CONFIG)), attn_implementation="eager")).eval()


def entry(name, t):
    """An entry of the manifest. Small results of the decoder's layers leave the queries different."""
    shape = list(t.shape)
    e = {"name": name, "shape": shape, "scale": 0.1, "shift": 0.0}
    if "norm" in name and name.endswith("weight"):
        e.update(scale=0.25, shift=1.0)
    elif "embed" in name.split(".")[-2] or "token" in name or "reference_points" in name:
        e["scale"] = 1.0
    elif len(shape) > 1:
        gain = 1.7
        if "dot_product" in name or "mask_embedder" in name:
            gain = 5
        elif "detr_decoder.layers" in name and ("o_proj" in name or "fc2" in name):
            gain = 0.3
        e["scale"] = round(float(gain / np.sqrt(np.prod(shape[1:]))), 6)
    if name.endswith("presence_head.layer3.bias"):
        e["shift"] = 3.0
    return e


entries = [entry(k, v) for k, v in model.state_dict().items()]
model.load_state_dict({e["name"]: torch.tensor(synth(e)) for e in entries})
model = model.double()

with tempfile.TemporaryDirectory() as folder:
    shutil.copy(TINY / "tokenizer.json", folder)
    (pathlib.Path(folder) / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "CLIPTokenizer", "pad_token": "<|endoftext|>", "model_max_length": 32}')
    tokenizer = CLIPTokenizer.from_pretrained(folder)
side = CONFIG["vision_config"]["backbone_config"]["image_size"]
processor = Sam3Processor(Sam3ImageProcessor(size={"height": side, "width": side}), tokenizer)

photo = Image.open(GOLDENS.parents[1] / "demo" / "coins.png").convert("RGB")
pillow = np.asarray(photo.resize((side, side), Image.Resampling.BILINEAR)).transpose(2, 0, 1)[None]
pillow = (torch.tensor(pillow).double() / 255 - 0.5) / 0.5
golden = []
for p in PROMPTS:
    boxes = {"input_boxes": [p["boxes"]], "input_boxes_labels": [p["labels"]]} if "boxes" in p else {}
    x = processor(images=photo, text=p.get("text"), return_tensors="pt", **boxes)
    x = {k: v.double() if v.is_floating_point() else v for k, v in x.items()}
    sizes = x.pop("original_sizes").tolist()
    r = model(**x)
    p.setdefault("threshold", 0.3)  # the processor's default
    found = processor.post_process_instance_segmentation(r, threshold=p["threshold"], target_sizes=sizes)[0]
    r = model(**{**x, "pixel_values": pillow})
    scores = sorted((r.pred_logits.sigmoid() * r.presence_logits.sigmoid())[0].tolist(), reverse=True)
    objects = []
    for i in found["scores"].argsort(descending=True).tolist():
        rle = coco.encode(np.asfortranarray(found["masks"][i].numpy().astype(np.uint8)))
        objects.append({"score": found["scores"][i].item(), "box": found["boxes"][i].tolist(),
                        "mask": {"size": rle["size"], "counts": rle["counts"].decode()}})
    golden.append({**p, "scores": scores, "objects": objects})
    print(p, [round(s, 3) for s in scores])
    for o in objects:
        print("  %.4f" % o["score"], [round(v, 1) for v in o["box"]], coco.area(o["mask"]))

CASE.mkdir(exist_ok=True)
(CASE / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
(CASE / "manifest.json").write_text(json.dumps(entries, indent=0) + "\n")
(CASE / "golden.json").write_text(json.dumps(golden) + "\n")
