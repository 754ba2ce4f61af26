"""Makes the golden case of SAM 3's text encoder, detector and masks with Transformers in float64:

    python3 bench/goldens/sam3.py

testdata/goldens/sam3_tiny has a whole Sam3Model of odd sizes: config.json, manifest.json (the weights, by the formula
of formula.py) and golden.safetensors. The results are text, then those of two prompts: text.* has the words only, and
boxes.* has two boxes besides, of which one is negative. Names: memory (the encoder's), boxes, logits, presence, masks
and semantic. tokenizer.json is a CLIP tokenizer with a vocabulary of bytes and few words, and tokens.json has texts
and their ids. The inputs follow the formula too, but for ids and boxes, which are in the file. """

import json

import numpy as np
import torch
from safetensors.numpy import save_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import CLIPTokenizer
from transformers.models.sam3.configuration_sam3 import Sam3Config
from transformers.models.sam3.modeling_sam3 import Sam3Model

from formula import GOLDENS, synth

torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.float = torch.float32 = torch.float64  # the type that Transformers widens to
torch.Tensor.float = torch.Tensor.double

CASE = GOLDENS / "sam3_tiny"
PART = {"hidden_size": 32, "hidden_act": "relu"}
CONFIG = {
    "model_type": "sam3",
    "vision_config": json.loads((GOLDENS / "sam3_vision_tiny" / "config.json").read_text())["vision_config"],
    "text_config": {
        "model_type": "clip_text_model", "vocab_size": 99, "hidden_size": 40, "intermediate_size": 72,
        "projection_dim": 16, "num_hidden_layers": 3, "num_attention_heads": 5, "max_position_embeddings": 11,
        "hidden_act": "gelu", "bos_token_id": 97, "eos_token_id": 98, "pad_token_id": 98},
    "geometry_encoder_config": {**PART, "num_layers": 1, "num_attention_heads": 4, "intermediate_size": 24,
                                "roi_size": 3},
    "detr_encoder_config": {**PART, "num_layers": 3, "num_attention_heads": 2, "intermediate_size": 56},
    "detr_decoder_config": {**PART, "num_layers": 5, "num_queries": 7, "num_attention_heads": 8,
                            "intermediate_size": 40},
    "mask_decoder_config": {"hidden_size": 32, "num_upsampling_stages": 3, "num_attention_heads": 4},
}
CONFIG["vision_config"]["backbone_config"].update(num_hidden_layers=2, global_attn_indexes=[1])

model = Sam3Model(Sam3Config(**json.loads(json.dumps(CONFIG)), attn_implementation="eager")).double().eval()


def entry(name, t):
    """An entry of the manifest: weights of a size that keeps activations near one."""
    shape = list(t.shape)
    e = {"name": name, "shape": shape, "scale": 0.1, "shift": 0.0}
    if "norm" in name and name.endswith("weight"):
        e.update(scale=0.25, shift=1.0)
    elif "embed" in name.split(".")[-2] or "token" in name or "reference_points" in name:
        e["scale"] = 1.0
    elif len(shape) > 1:
        gain = 4 if "dot_product" in name else 1.7  # scores that differ
        e["scale"] = round(float(gain / np.sqrt(np.prod(shape[1:]))), 6)
    return e


entries = [entry(k, v) for k, v in model.state_dict().items()]
model.load_state_dict({e["name"]: torch.tensor(synth(e)).double() for e in entries})

side = CONFIG["vision_config"]["backbone_config"]["image_size"]
image = synth({"name": "sam3_tiny.image", "shape": [1, 3, side, side], "scale": 1.7, "shift": 0.0})
ids = torch.tensor([[97, 5, 42, 17, 98]])
padded = torch.nn.functional.pad(ids, (0, 11 - ids.shape[1]), value=98)
valid = (torch.arange(11) < ids.shape[1]).long()[None]
boxes = torch.tensor([[[0.4, 0.5, 0.5, 0.7], [0.8125, 0.25, 0.0625, 0.375]]])
labels = torch.tensor([[1, 0]])

memory = []
model.detr_encoder.register_forward_hook(lambda _, args, out: memory.append(out.last_hidden_state))
vision = model.get_vision_features(torch.tensor(image).double())
out = {"ids": ids.int(), "box_prompts": boxes, "box_labels": labels.int(),
       "text": model.get_text_features(input_ids=padded, attention_mask=valid).pooler_output[:, :ids.shape[1]]}
for name, prompt in [("text", {}), ("boxes", {"input_boxes": boxes, "input_boxes_labels": labels})]:
    r = model(vision_embeds=vision, input_ids=padded, attention_mask=valid, **prompt)
    out |= {f"{name}.memory": memory.pop(), f"{name}.boxes": r.pred_boxes, f"{name}.logits": r.pred_logits,
            f"{name}.presence": r.presence_logits, f"{name}.masks": r.pred_masks, f"{name}.semantic": r.semantic_seg}

CASE.mkdir(exist_ok=True)
(CASE / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
(CASE / "manifest.json").write_text(json.dumps(entries, indent=0) + "\n")
save_file({k: np.ascontiguousarray(v.numpy().astype(np.int32 if v.dtype == torch.int32 else np.float32))
           for k, v in out.items()}, CASE / "golden.safetensors")

letters = sorted(ByteLevel.alphabet())
merges = [("c", "o"), ("i", "n</w>"), ("co", "in</w>"), ("r", "e"), ("re", "d</w>")]
words = letters + [c + "</w>" for c in letters] + [a + b for a, b in merges] + ["<|startoftext|>", "<|endoftext|>"]
tokenizer = CLIPTokenizer(vocab={w: i for i, w in enumerate(words)}, merges=merges)
tokenizer.backend_tokenizer.save(str(CASE / "tokenizer.json"), pretty=False)
texts = ["coin", "a red  Coin's", "\u00dcn\u00ef 42 coins, <|endoftext|>x", "\u786c\u5e01", "it'll\tco\u0301in", ""]
(CASE / "tokens.json").write_text(json.dumps([{"text": t, "ids": tokenizer(t).input_ids} for t in texts]) + "\n")
for k, v in out.items():
    print(k, list(v.shape), float(v.double().abs().max()))
