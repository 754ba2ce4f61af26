"""Makes the golden case of Qwen3-VL with Transformers in float64:

    python3 bench/goldens/qwen3vl.py

testdata/goldens/qwen3vl_tiny: a folder like that of a published model, but for the weights, which come from
manifest.json: config.json, preprocessor_config.json, tokenizer.json (bytes and special tokens), chat_template.jinja.
wide.png, tall.png, small.png and large.png are images of odd sizes, of which the processor shrinks the last and
enlarges the one before. golden.safetensors has

    NAME.pixel_values, NAME.grid       of each image, by the processor
    wide.features, wide.deepstack.I    of the vision tower
    input_ids [T], position_ids [3,T]    of the conversation in case.json, with wide.png and tall.png
    greedy [G], logits [G,V]             its tokens with those that follow, and their logits without a cache
    text.input_ids, ...                  the same of one without images
    long.greedy, long.logits             what follows a long prompt with a large image
"""

import json

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast, Qwen2VLImageProcessor, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from formula import GOLDENS, synth

torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)

OUT = GOLDENS / "qwen3vl_tiny"
OUT.mkdir(exist_ok=True)

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
           "<|video_pad|>"]
TEMPLATE = """{%- macro say(content) -%}
{%- if content is string %}{{ content }}{% else %}{% for part in content %}
{%- if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% elif part.type == 'text' %}{{ part.text }}
{%- else %}{{ raise_exception('a part is a ' ~ part.type) }}{% endif %}{% endfor %}{% endif %}
{%- endmacro -%}
{% for m in messages %}<|im_start|>{{ m.role }}
{{ say(m.content) }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
tokenizer.save(str(OUT / "tokenizer.json"))
(OUT / "chat_template.jinja").write_text(TEMPLATE)
ID = {s: tokenizer.token_to_id(s) for s in SPECIAL}

CONFIG = {
    "architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl",
    "image_token_id": ID["<|image_pad|>"], "video_token_id": ID["<|video_pad|>"],
    "vision_start_token_id": ID["<|vision_start|>"], "vision_end_token_id": ID["<|vision_end|>"],
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_vl_text", "vocab_size": 263, "hidden_size": 40, "intermediate_size": 72,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "hidden_act": "silu", "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "attention_bias": False,
        "rope_theta": 10000.0,
        "rope_scaling": {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [3, 3, 2]},
        "eos_token_id": ID["<|im_end|>"], "bos_token_id": ID["<|endoftext|>"],
    },
    "vision_config": {
        "model_type": "qwen3_vl", "depth": 4, "hidden_size": 32, "num_heads": 2, "intermediate_size": 56,
        "hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "patch_size": 4, "temporal_patch_size": 2,
        "spatial_merge_size": 2, "out_hidden_size": 40, "num_position_embeddings": 36,
        "deepstack_visual_indexes": [0, 2],
    },
}
PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessorFast", "size": {"shortest_edge": 256, "longest_edge": 4096},
    "patch_size": 4, "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5, 0.45, 0.4],
    "image_std": [0.5, 0.25, 0.3],
}
for name, value in ("config.json", CONFIG), ("preprocessor_config.json", PROCESSOR):
    (OUT / name).write_text(json.dumps(value, indent=1) + "\n")

IMAGES = {"wide": (37, 21), "tall": (19, 50), "small": (5, 3), "large": (131, 97)}
PICTURES = {}
for name, (w, h) in IMAGES.items():
    noise = synth({"name": f"qwen3vl_tiny.{name}", "shape": [h, w, 3], "scale": 40.0, "shift": 0.0})
    y, x = np.mgrid[:h, :w]
    smooth = np.stack([x * 255 / w, y * 255 / h, 255 - (x + y) * 255 / (w + h)], -1)
    PICTURES[name] = Image.fromarray(np.clip(smooth + noise, 0, 255).astype(np.uint8))
    PICTURES[name].save(OUT / f"{name}.png")

images = Qwen2VLImageProcessor(**{k: v for k, v in PROCESSOR.items() if k != "image_processor_type"})
processor = Qwen3VLProcessor(
    image_processor=images, video_processor=Qwen3VLVideoProcessor(),
    tokenizer=PreTrainedTokenizerFast(tokenizer_file=str(OUT / "tokenizer.json"), eos_token="<|im_end|>"),
    chat_template=TEMPLATE)


def entry(name, shape):
    gain = name.endswith("norm.weight") or ".norm" in name and name.endswith("weight")
    scale = 0.25 if gain else 0.3 if name.endswith("bias") else 1.0 if "embed_tokens" in name or "pos_embed" in name \
        else 1.7 / np.prod(shape[1:]) ** 0.5
    return {"name": name, "shape": list(shape), "scale": round(float(scale), 6), "shift": 1.0 if gain else 0.0}


config = Qwen3VLConfig(**json.loads(json.dumps(CONFIG)), attn_implementation="eager")
model = Qwen3VLForConditionalGeneration(config)
entries = [entry(name, p.shape) for name, p in model.named_parameters()]
(OUT / "manifest.json").write_text(json.dumps(entries, indent=0) + "\n")

torch.float = torch.float32 = torch.float64  # the type that Transformers widens to
torch.Tensor.float = torch.Tensor.double
model = Qwen3VLForConditionalGeneration(config).double().eval()
model.load_state_dict({e["name"]: torch.tensor(synth(e)).double() for e in entries})

golden = {}
for name, picture in PICTURES.items():
    p = images(picture, return_tensors="pt")
    golden[f"{name}.pixel_values"], golden[f"{name}.grid"] = p["pixel_values"], p["image_grid_thw"]
seen = model.model.get_image_features(golden["wide.pixel_values"].double(), golden["wide.grid"])
golden["wide.features"] = seen.pooler_output[0]
for i, x in enumerate(seen.deepstack_features):
    golden[f"wide.deepstack.{i}"] = x[0]

CASES = {
    "": [
        {"role": "system", "content": "Answer."},
        {"role": "user", "content": [
            {"type": "text", "text": "Compare "}, {"type": "image", "image": "wide"},
            {"type": "text", "text": " with "}, {"type": "image", "image": "tall"},
            {"type": "text", "text": ", please."},
        ]},
    ],
    "text.": [{"role": "user", "content": "Who is it?"}],
}
for prefix, messages in CASES.items():
    parts = [p for m in messages if not isinstance(m["content"], str) for p in m["content"]]
    pictures = [PICTURES[p["image"]] for p in parts if p["type"] == "image"]
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    inputs = processor(text=[prompt], images=pictures or None, return_tensors="pt")
    if pictures:
        inputs["pixel_values"] = inputs["pixel_values"].double()
        positions, _ = model.model.get_rope_index(
            inputs["input_ids"], inputs["mm_token_type_ids"], inputs["image_grid_thw"])
        golden[prefix + "position_ids"] = positions[:, 0]
    else:
        inputs.pop("mm_token_type_ids", None)
    golden[prefix + "input_ids"] = inputs["input_ids"][0]
    out = model.generate(**inputs, max_new_tokens=16, do_sample=False, eos_token_id=-1, pad_token_id=0,
                         output_logits=True, return_dict_in_generate=True)
    top = torch.stack(out.logits)[:, 0].topk(2).values
    gap = float((top[:, 0] - top[:, 1]).min())
    print(prefix or "images.", inputs["input_ids"].shape[1], "tokens, smallest gap", gap)
    golden[prefix + "greedy"] = out.sequences[0]
    more = out.sequences.shape[1] - inputs["input_ids"].shape[1]
    if "mm_token_type_ids" in inputs:
        inputs["mm_token_type_ids"] = torch.nn.functional.pad(inputs["mm_token_type_ids"], (0, more))
    inputs["input_ids"], inputs["attention_mask"] = out.sequences, torch.ones_like(out.sequences)
    golden[prefix + "logits"] = model(**inputs).logits[0]

# A prompt in which texts and an image have more tokens than one run of RLX: 530, 26 x 25 and 520.
y, x, c = np.mgrid[:200, :208, :3]
p = Qwen2VLImageProcessor(**{k: v for k, v in PROCESSOR.items() if k != "image_processor_type"} | {
    "size": {"shortest_edge": 256, "longest_edge": 65536}})(
        Image.fromarray(((x * 7 + y * 3 + c * 50) % 256).astype(np.uint8)), return_tensors="pt")
ids = [i % 97 for i in range(530)] + [ID["<|image_pad|>"]] * 650 + [i % 89 for i in range(520)]
inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.int64),
          "mm_token_type_ids": torch.tensor([[int(i == ID["<|image_pad|>"]) for i in ids]]),
          "pixel_values": p["pixel_values"].double(), "image_grid_thw": p["image_grid_thw"]}
assert p["image_grid_thw"].tolist() == [[1, 50, 52]]
out = model.generate(**inputs, max_new_tokens=4, do_sample=False, eos_token_id=-1, pad_token_id=0,
                     output_logits=True, return_dict_in_generate=True)
golden["long.greedy"], golden["long.logits"] = out.sequences[0, len(ids):], torch.stack(out.logits)[:, 0]

(OUT / "case.json").write_text(json.dumps({(k or "images.")[:-1]: v for k, v in CASES.items()}, indent=1) + "\n")
arrays = {k: v.numpy() for k, v in golden.items()}
save_file({k: np.ascontiguousarray(v.astype(np.float32) if v.dtype.kind == "f" else v) for k, v in arrays.items()},
          OUT / "golden.safetensors")
