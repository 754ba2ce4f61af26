"""Writes a checkpoint of Llama 3.2 1B's shape with 8 layers and random weights in bf16, and the tokenizer of
demo/llama: checkpoint.py DIR [LAYERS [WIDTH]]. It needs numpy only."""
import json
import os
import shutil
import struct
import sys

import numpy

folder = sys.argv[1]
layers = int(sys.argv[2]) if len(sys.argv) > 2 else 8
width = int(sys.argv[3]) if len(sys.argv) > 3 else 2048
vocabulary, hidden, head = 128256 * width // 2048, 4 * width, 64
heads, kv_heads = width // head, max(1, width // head // 4)
random = numpy.random.default_rng(1)

shapes = {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,)}
for i in range(layers):
    for name, out, inner in (
        ("self_attn.q_proj", heads * head, width), ("self_attn.k_proj", kv_heads * head, width),
        ("self_attn.v_proj", kv_heads * head, width), ("self_attn.o_proj", width, heads * head),
        ("mlp.gate_proj", hidden, width), ("mlp.up_proj", hidden, width), ("mlp.down_proj", width, hidden),
    ):
        shapes[f"model.layers.{i}.{name}.weight"] = (out, inner)
    for name in "input_layernorm", "post_attention_layernorm":
        shapes[f"model.layers.{i}.{name}.weight"] = (width,)

os.makedirs(folder, exist_ok=True)
header, at = {"__metadata__": {"format": "pt"}}, 0
for name, shape in shapes.items():
    size = 2 * int(numpy.prod(shape))
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(f"{folder}/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    for shape in shapes.values():
        values = numpy.ones(shape, numpy.float32)
        if len(shape) == 2:
            values = random.standard_normal(shape, numpy.float32) / numpy.float32(shape[1] ** 0.5)
        f.write((values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes())
config = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width,
    "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
    "num_key_value_heads": kv_heads, "head_dim": head, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "max_position_embeddings": 4096, "tie_word_embeddings": True, "hidden_act": "silu", "bos_token_id": 0,
    "eos_token_id": 1, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
}
with open(f"{folder}/config.json", "w") as f:
    json.dump(config, f)
for name in "tokenizer.json", "tokenizer_config.json":
    shutil.copy(os.path.join(os.path.dirname(__file__), "../../demo/llama", name), folder)
