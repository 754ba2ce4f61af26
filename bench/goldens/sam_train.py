"""Trains the mask decoder of testdata/goldens/sam_mask_prompt_tiny with Transformers and PyTorch in float64, for 20
steps of AdamW, and writes testdata/goldens/sam_mask_prompt_tiny/train.safetensors:

    pip install torch transformers safetensors
    python3 bench/goldens/sam_train.py

Step s takes the examples 2s and 2s+1, modulo 5; example i has embeddings i modulo 2. The loss of a batch is the mean of
20 focal + dice of the best of three masks, plus the mean squared error of the predicted IoU of all three, as in the
training code of SAM 2. """

import json
import re

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file, save_file
from transformers import SamConfig, SamModel

import formula

CASE = formula.GOLDENS / "sam_mask_prompt_tiny"
STEPS, BATCH, EXAMPLES = 20, 2, 5
RATE, DECAY, CLIP = 1e-3, 0.1, 1.0

case = json.loads((CASE / "case.json").read_text())
sides = case["vision"]["image_size"], case["prompt"]["image_embedding_size"]
model = SamModel(SamConfig(vision_config=case["vision"], prompt_encoder_config=case["prompt"],
                           mask_decoder_config=case["decoder"])).double().eval()

RULES = [
    (r"^prompt_encoder\.pe_layer\.positional_encoding_gaussian_matrix$", "shared_image_embedding.positional_embedding"),
    (r"^prompt_encoder\.point_embeddings\.", "prompt_encoder.point_embed."),
    (r"^(mask_decoder\.transformer\.layers\.\d+\.)norm(\d)\.", r"\1layer_norm\2."),
    (r"^mask_decoder\.transformer\.norm_final_attn\.", "mask_decoder.transformer.layer_norm_final_attn."),
    (r"^mask_decoder\.output_upscaling\.0\.", "mask_decoder.upscale_conv1."),
    (r"^mask_decoder\.output_upscaling\.1\.", "mask_decoder.upscale_layer_norm."),
    (r"^mask_decoder\.output_upscaling\.3\.", "mask_decoder.upscale_conv2."),
    (r"^(mask_decoder\.(?:output_hypernetworks_mlps\.\d+|iou_prediction_head)\.)layers\.0\.", r"\1proj_in."),
    (r"^(mask_decoder\.(?:output_hypernetworks_mlps\.\d+|iou_prediction_head)\.)layers\.1\.", r"\1layers.0."),
    (r"^(mask_decoder\.(?:output_hypernetworks_mlps\.\d+|iou_prediction_head)\.)layers\.2\.", r"\1proj_out."),
]
state = {}
for e in json.loads((CASE / "manifest.json").read_text()):
    name = e["name"]
    if name.startswith("image_encoder.") or "mask_downscaling" in name:
        continue
    for rule, to in RULES:
        name, n = re.subn(rule, to, name)
        if n:
            break
    state[name] = torch.tensor(formula.synth(e)).double()
state["prompt_encoder.shared_embedding.positional_embedding"] = state["shared_image_embedding.positional_embedding"]
found = model.load_state_dict(state, strict=False)
assert not found.unexpected_keys, found.unexpected_keys
assert all(k.startswith("vision_encoder.") or "mask_embed" in k for k in found.missing_keys), found.missing_keys

golden = load_file(CASE / "golden.safetensors")
embeddings = np.concatenate([golden["image_embeddings"], golden["image_embeddings"][:, ::-1]]).astype(np.float32)
side = 4 * sides[1]
rng = np.random.default_rng(7)
points, labels, masks = [], [], []
for i in range(EXAMPLES):
    cx, cy, rx, ry = rng.uniform(6, 14), rng.uniform(6, 12), rng.uniform(3, 7), rng.uniform(3, 6)
    y, x = np.mgrid[:side, :side] + 0.5
    mask = ((x - cx) / rx) ** 2 + ((y - cy) / ry) ** 2 <= 1
    weight = np.ones_like(mask)
    if i % 2:
        weight[18:] = 0
        mask = mask & weight
    masks.append(np.stack([mask, weight]).astype(np.float32))
    scale = sides[0] / side
    if i % 3:
        points.append([[cx * scale, cy * scale], [0, 0]])
        labels.append([1, -1])
    else:
        points.append([[(cx - rx) * scale, (cy - ry) * scale], [(cx + rx) * scale, (cy + ry) * scale]])
        labels.append([2, 3])
points, labels = np.array(points, np.float32), np.array(labels, np.int32)
masks = np.stack(masks)


def forward(i):
    kind = {}
    if labels[i][0] == 2:
        kind["input_boxes"] = torch.tensor(points[i].reshape(1, 1, 4)).double()
    else:
        kind["input_points"] = torch.tensor(points[i][:1].reshape(1, 1, 1, 2)).double()
        kind["input_labels"] = torch.ones(1, 1, 1, dtype=torch.long)
    out = model(image_embeddings=torch.tensor(embeddings[i % 2][None]).double(), multimask_output=True, **kind)
    return out.pred_masks[0, 0], out.iou_scores[0, 0]


def loss_of(i):
    logits, predicted = forward(i)
    t, w = torch.tensor(masks[i]).double()
    t, w = t.expand_as(logits), w.expand_as(logits)
    p = logits.sigmoid()
    entropy = F.binary_cross_entropy_with_logits(logits, t, reduction="none")
    alpha = 0.25 * t + 0.75 * (1 - t)
    focal = (alpha * entropy * (1 - (p * t + (1 - p) * (1 - t))) ** 2 * w).sum((1, 2)) / w.sum((1, 2))
    dice = 1 - (2 * (p * t * w).sum((1, 2)) + 1) / ((p * w).sum((1, 2)) + (t * w).sum((1, 2)) + 1)
    hard = (logits > 0).double() * w
    common = (hard * t).sum((1, 2))
    iou = common / (hard.sum((1, 2)) + (t * w).sum((1, 2)) - common).clamp(min=1)
    return (20 * focal + dice).min() + F.mse_loss(predicted, iou.detach()), iou[predicted.argmax()].detach()


trained = [p for n, p in model.named_parameters() if n.startswith("mask_decoder.")]
optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=DECAY)
losses, norms, ious = [], [], []
for s in range(STEPS):
    optimizer.zero_grad()
    results = [loss_of((BATCH * s + k) % EXAMPLES) for k in range(BATCH)]
    loss = sum(r[0] for r in results) / BATCH
    loss.backward()
    norms.append(torch.nn.utils.clip_grad_norm_(trained, CLIP).item())
    losses.append(loss.item())
    ious.append(sum(r[1].item() for r in results) / BATCH)
    optimizer.step()
print(losses, norms, ious, sep="\n")
save_file({"embeddings": np.ascontiguousarray(embeddings), "points": points, "labels": labels, "masks": masks,
           "losses": np.array(losses), "norms": np.array(norms), "ious": np.array(ious)}, CASE / "train.safetensors")
