"""Writes a checkpoint of Llama 3.2 1B's shape, or Llama 3.1 8B's, with random weights, for measuring speed:
checkpoint.py DIR [bfloat16|float16|float32] [1b|8b]."""
import json
import os
import sys

import torch
from safetensors.torch import save_file

folder = sys.argv[1]
dtype = getattr(torch, sys.argv[2] if len(sys.argv) > 2 else "bfloat16")
large = sys.argv[3:] == ["8b"]
vocabulary, width, hidden, layers, heads, kv_heads, head = (128256, 4096, 14336, 32, 32, 8, 128) if large else (
    128256, 2048, 8192, 16, 32, 8, 64)
generator = torch.Generator().manual_seed(1)


def linear(out, inner):
    return (torch.randn(out, inner, generator=generator) / inner**0.5).to(dtype)


tensors = {"model.embed_tokens.weight": linear(vocabulary, width), "model.norm.weight": torch.ones(width, dtype=dtype)}
if large:
    tensors["lm_head.weight"] = linear(vocabulary, width)
for i in range(layers):
    for name, out, inner in (
        ("self_attn.q_proj", heads * head, width), ("self_attn.k_proj", kv_heads * head, width),
                             ("self_attn.v_proj", kv_heads * head, width),
        ("self_attn.o_proj", width, heads * head), ("mlp.gate_proj", hidden, width), ("mlp.up_proj", hidden, width),
                             ("mlp.down_proj", width, hidden),
    ):
        tensors[f"model.layers.{i}.{name}.weight"] = linear(out, inner)
    for name in "input_layernorm", "post_attention_layernorm":
        tensors[f"model.layers.{i}.{name}.weight"] = torch.ones(width, dtype=dtype)
os.makedirs(folder, exist_ok=True)
save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})
config = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width,
          "intermediate_size": hidden,
    "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head,
          "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "max_position_embeddings": 4096, "tie_word_embeddings": not large, "hidden_act": "silu",
          "bos_token_id": 0,
    "eos_token_id": 1, "attention_bias": False, "mlp_bias": False,
}
with open(f"{folder}/config.json", "w") as f:
    json.dump(config, f)
