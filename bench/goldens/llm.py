"""Makes golden cases of language models with Transformers in float64. testdata/goldens has other cases, too, which this
script does not make.

    python3 bench/goldens/llm.py

testdata/goldens/llama_scaled: llama_tiny with other scalings of rotary frequencies. The weights are those of
llama_tiny's manifest. golden.safetensors has input_ids [1,40] and, by the name of the scaling, logits [1,8,160] of the
last eight tokens. config.NAME.json is the configuration.

testdata/goldens/qwen2_tiny: Qwen2 with a sliding window from layer 1 on; input_ids, logits and greedy as in the other
cases.

testdata/goldens/qwen3_moe_tiny, qwen3_next_tiny, qwen35_moe_tiny: mixtures of experts, with a tensor per expert (except
the last), a dense layer in the first two, and layers of the gated delta rule in the last two. Tensor names are those of
published checkpoints.

testdata/goldens/gemma2_tiny: Gemma 2 with a window in every other layer, and caps of scores and logits low enough to
take effect.

testdata/goldens/gemma3_tiny: Gemma 3 with a window in two of three layers, and a rotary base and scaling for each kind
of layer. """

import json

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import (
    Gemma2ForCausalLM, Gemma3ForCausalLM, LlamaForCausalLM, Qwen2ForCausalLM, Qwen3_5MoeForCausalLM,
                          Qwen3MoeForCausalLM, Qwen3NextForCausalLM,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from formula import GOLDENS, synth

SCALINGS = {
    "linear": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "dynamic": {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 24},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
    "yarn_mscale": {
        "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 32,
                            "beta_fast": 16, "beta_slow": 2,
            "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False,
        }
    },
}


def exact(inner):
    """Computes frequencies in float64; Transformers computes them in float32."""

    def compute(config, device=None, seq_len=None, layer_type=None):
        arange = torch.arange

        def wide(*args, **kwargs):
            kwargs.pop("dtype", None)
            return arange(*args, **kwargs, dtype=torch.float64)

        torch.arange, float32, torch.float = wide, torch.float, torch.float64
        try:
            return inner(config, device, seq_len=seq_len, layer_type=layer_type)
        finally:
            torch.arange, torch.float = arange, float32

    return compute


def load(kind, config, entries):
    model = kind(kind.config_class(**config, attn_implementation="eager",
                                   experts_implementation="eager")).double().eval()
    tensors = {e["name"]: torch.tensor(synth(e)).double() for e in entries}
    # Transformers has all experts in one tensor
    for name in [n for n in model.state_dict() if n not in tensors and ".experts." in n]:
        parts = {"gate_up_proj": ["gate_proj", "up_proj"], "down_proj": ["down_proj"]}[name.rsplit(".", 1)[1]]
        prefix = name.rsplit(".", 1)[0]
        experts = range(model.state_dict()[name].shape[0])
        tensors[name] = torch.stack(
            [torch.cat([tensors.pop(f"{prefix}.{e}.{p}.weight") for p in parts]) for e in experts])
    found = model.load_state_dict(tensors, strict=False)
    assert not found.unexpected_keys and set(found.missing_keys) <= (
        {"lm_head.weight"} if config["tie_word_embeddings"] else set()), found
    return model


def scaled():
    out = GOLDENS / "llama_scaled"
    out.mkdir(exist_ok=True)
    entries = json.loads((GOLDENS / "llama_tiny" / "manifest.json").read_text())
    base = json.loads((GOLDENS / "llama_tiny" / "config.json").read_text())
    ids = torch.tensor([[i * 37 % base["vocab_size"] for i in range(40)]])
    golden = {"input_ids": ids.numpy()}
    for name, more in SCALINGS.items():
        config = {k: v for k, v in base.items() if k != "rope_parameters"} | {"rope_theta": 10000.0} | more
        (out / f"config.{name}.json").write_text(json.dumps(config, indent=1) + "\n")
        golden[name] = load(LlamaForCausalLM, config, entries)(ids).logits[:, -8:].numpy().astype(np.float32)
    save_file(golden, out / "golden.safetensors")


def entry(name, shape):
    gain = name.endswith("norm.weight")
    zero_centred = gain and ZERO_CENTRED and not name.endswith("linear_attn.norm.weight")
    scale = 0.25 if gain else 0.3 if name.endswith("bias") else 0.5 if name.endswith("A_log") else (
        0.2 if GEMMA else 1.0) if "embed" in name else 1.7 / shape[-1] ** 0.5
    if name.endswith("conv1d.weight"):
        scale = 0.6
    return {"name": name, "shape": list(shape), "scale": round(scale, 6), "shift": 1.0 if gain and
            not zero_centred else 0.0}


ZERO_CENTRED = False
GEMMA = False  # embeddings are multiplied by the square root of their width


def case(name, kind, config, separate=False, prompt=24, zero_centred=False):
    """Makes a golden with the model's tensors. separate: each expert has its own tensors."""
    global ZERO_CENTRED, GEMMA
    ZERO_CENTRED, GEMMA = zero_centred, kind in (Gemma2ForCausalLM, Gemma3ForCausalLM)
    out = GOLDENS / name
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    entries = []
    for tensor, p in kind(kind.config_class(**config)).named_parameters():
        if separate and ".experts." in tensor:
            prefix, which = tensor.rsplit(".", 1)
            parts, rows = (["gate_proj", "up_proj"], p.shape[1] // 2) if which == "gate_up_proj" else (["down_proj"],
                p.shape[1])
            entries += [entry(f"{prefix}.{e}.{x}.weight", [rows, p.shape[2]]) for e in range(p.shape[0]) for x in parts]
        else:
            entries.append(entry(tensor, p.shape))
    (out / "manifest.json").write_text(json.dumps(entries, indent=0) + "\n")
    model = load(kind, config, entries)
    ids = torch.tensor([[(i * 37 + 1) % config["vocab_size"] for i in range(prompt)]])
    text = ids
    golden = {"input_ids": ids.numpy(), "logits": model(ids).logits.numpy().astype(np.float32)}
    gaps = []
    for _ in range(10):
        top = model(text).logits[0, -1].topk(2)
        gaps.append(float(top.values[0] - top.values[1]))
        text = torch.cat([text, top.indices[:1][None]], 1)
    print(f"{name}: smallest gap", min(gaps))
    golden["greedy"] = text.numpy()
    save_file(golden, out / "golden.safetensors")


BASE = {
    "vocab_size": 96, "hidden_size": 64, "num_attention_heads": 6, "num_key_value_heads": 2,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "tie_word_embeddings": False, "eos_token_id": 95,
}
EXPERTS = {"num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 32}
DELTA = {
    "head_dim": 16, "num_attention_heads": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8,
         "linear_value_head_dim": 12,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "num_hidden_layers": 3, "full_attention_interval": 2,
         "shared_expert_intermediate_size": 24,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}


torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.float = torch.float32 = torch.float64  # the type that Transformers widens to
torch.Tensor.float = torch.Tensor.double
for name in list(ROPE_INIT_FUNCTIONS):
    ROPE_INIT_FUNCTIONS[name] = exact(ROPE_INIT_FUNCTIONS[name])
scaled()
case("qwen2_tiny", Qwen2ForCausalLM, {
    "model_type": "qwen2", "vocab_size": 96, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
                                      "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
                                      "hidden_act": "silu",
    "sliding_window": 6, "use_sliding_window": True, "max_window_layers": 1, "tie_word_embeddings": False,
                                      "eos_token_id": 95,
})
case("qwen3_moe_tiny", Qwen3MoeForCausalLM, BASE | EXPERTS | {
    "model_type": "qwen3_moe", "num_hidden_layers": 3, "head_dim": 8, "intermediate_size": 80, "mlp_only_layers": [1],
    "norm_topk_prob": False, "rope_theta": 10000.0,
}, separate=True, prompt=22)
case("qwen3_next_tiny", Qwen3NextForCausalLM, BASE | EXPERTS | DELTA | {
    "model_type": "qwen3_next", "intermediate_size": 80, "mlp_only_layers": [2], "norm_topk_prob": True,
}, separate=True, zero_centred=True)
case("qwen35_moe_tiny", Qwen3_5MoeForCausalLM, BASE | EXPERTS | DELTA | {"model_type": "qwen3_5_moe_text"},
     zero_centred=True)
case("gemma2_tiny", Gemma2ForCausalLM, {k: v for k, v in BASE.items() if k != "hidden_act"} | {
    "model_type": "gemma2", "num_hidden_layers": 3, "head_dim": 16, "num_attention_heads": 4, "intermediate_size": 80,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 24, "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "tie_word_embeddings": True,
    "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
}, zero_centred=True)
case("gemma3_tiny", Gemma3ForCausalLM, {k: v for k, v in BASE.items() if k != "hidden_act"} | {
    "model_type": "gemma3_text", "num_hidden_layers": 3, "head_dim": 16, "num_attention_heads": 4,
    "intermediate_size": 80, "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 24, "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "tie_word_embeddings": True,
    "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 100000.0},
                        "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}},
}, zero_centred=True)
