"""Makes masks with the original SAM code, to compare with the masks from Transformers in
testdata/goldens/sam_mask_prompt_tiny:

    pip install segment-anything==1.0
    python3 bench/goldens/sam.py

It writes testdata/goldens/sam_mask_prompt_tiny/original.safetensors, from the same weights and prompts, in float64. The
two differ in the epsilon of the norms in the decoder's layers: 1e-5 here, 1e-6 in Transformers. """

import json
import sys
import unittest.mock
from functools import partial

import numpy as np
import torch
from safetensors.numpy import save_file

for name in ["torchvision", "torchvision.ops", "torchvision.ops.boxes", "torchvision.transforms",
             "torchvision.transforms.functional"]:
    sys.modules.setdefault(name, unittest.mock.MagicMock())  # the code that resizes images is not used

from segment_anything.modeling import ImageEncoderViT, MaskDecoder, PromptEncoder, Sam, TwoWayTransformer

import formula

CASE = formula.GOLDENS / "sam_mask_prompt_tiny"


def synth(e):
    return torch.tensor(formula.synth(e)).double()


def model(case):
    v, p, d = case["vision"], case["prompt"], case["decoder"]
    width, grid = p["hidden_size"], p["image_embedding_size"]
    return Sam(
        ImageEncoderViT(
            img_size=v["image_size"], patch_size=v["patch_size"], embed_dim=v["hidden_size"],
                        depth=v["num_hidden_layers"],
            num_heads=v["num_attention_heads"], mlp_ratio=v["mlp_dim"] / v["hidden_size"], out_chans=width,
                        qkv_bias=True,
            norm_layer=partial(torch.nn.LayerNorm, eps=1e-6), use_rel_pos=True, window_size=v["window_size"],
            global_attn_indexes=v["global_attn_indexes"],
        ),
        PromptEncoder(embed_dim=width, image_embedding_size=(grid, grid), input_image_size=(v["image_size"],) * 2,
                      mask_in_chans=p["mask_input_channels"]),
        MaskDecoder(
            num_multimask_outputs=3, transformer_dim=width, iou_head_depth=3,
                    iou_head_hidden_dim=d["iou_head_hidden_dim"],
            transformer=TwoWayTransformer(depth=2, embedding_dim=width, mlp_dim=d["mlp_dim"],
                                          num_heads=d["num_attention_heads"]),
        ),
    ).eval()


torch.set_grad_enabled(False)
torch.float = torch.float32 = torch.float64  # the type that the code casts coordinates to
case = json.loads((CASE / "case.json").read_text())
sam = model(case).double()
state = {e["name"]: synth(e) for e in json.loads((CASE / "manifest.json").read_text())}
found = sam.load_state_dict(state, strict=False)
assert not found.unexpected_keys and set(found.missing_keys) <= {"pixel_mean", "pixel_std"}, found

embeddings = sam.image_encoder(synth(case["image"]))
golden = {"image_embeddings": embeddings}
for name, prompt in case["prompts"].items():
    points = None
    if "points" in prompt:
        points = torch.tensor([prompt["points"]]).double(), torch.tensor([prompt["labels"]])
    box = torch.tensor([prompt["box"]]).double() if "box" in prompt else None
    sparse, dense = sam.prompt_encoder(points=points, boxes=box, masks=synth(prompt["mask"]))
    masks, iou = sam.mask_decoder(
        image_embeddings=embeddings, image_pe=sam.prompt_encoder.get_dense_pe(), sparse_prompt_embeddings=sparse,
                                  dense_prompt_embeddings=dense,
        multimask_output=prompt["multimask"],
    )
    golden[name + ".low_res_masks"], golden[name + ".iou"] = masks, iou
save_file({k: np.ascontiguousarray(v.numpy().astype(np.float32)) for k, v in golden.items()},
          CASE / "original.safetensors")
