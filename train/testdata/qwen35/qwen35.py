"""Writes adapter/ and golden.json: steps of LoRA on the tiny Qwen3.5 of the goldens, by Transformers and PEFT.

    python3 train/testdata/qwen35/qwen35.py CHECKPOINT.safetensors CONFIG.json

CHECKPOINT is the file that tools/synth of the goldens makes from qwen35_tiny/manifest.json, CONFIG the config.json
beside that. It needs torch, transformers 5 and peft. Everything is computed in float64, also what Transformers itself
computes in float32: norms, softmax and the delta rule.
"""
import importlib.util
import json
import os
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models import qwen3_5

here = os.path.dirname(os.path.abspath(__file__))
checkpoint, config = sys.argv[1:]
STEPS, BATCH, TOKENS, RANK = 4, 2, 41, 2  # 41 tokens are more than a chunk of the backward pass


def in_double(name):
    """The module of Transformers that has the model, without float32."""
    spec = importlib.util.find_spec("transformers.models.qwen3_5." + name)
    source = open(spec.origin).read().replace(".float()", ".double()")
    source = source.replace("torch.float32", "torch.float64").replace("dtype=torch.float)", "dtype=torch.float64)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    return module


torch.set_default_dtype(torch.float64)
transformers.utils.logging.set_verbosity_error()
text = qwen3_5.configuration_qwen3_5.Qwen3_5TextConfig(**json.load(open(config))["text_config"])
text._attn_implementation = "eager"
base = in_double("modeling_qwen3_5").Qwen3_5ForCausalLM(text).double()
weights = {k.replace("model.language_model.", "model."): v.double() for k, v in load_file(checkpoint).items()}
missing, unknown = base.load_state_dict(weights, strict=False)
assert not missing and not unknown, (missing, unknown)

layers = ["in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj", "q_proj", "o_proj"]
m = peft.get_peft_model(base, peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=layers, lora_dropout=0,
                                              task_type="CAUSAL_LM"))
torch.manual_seed(5)
trained = [p for p in m.parameters() if p.requires_grad]
for p in trained:  # B is not zero, so that every gradient says something
    p.data = (torch.randn(p.shape) * 64).round() / 512
folder = os.path.join(here, "adapter")
m.save_pretrained(folder)
file = os.path.join(folder, "adapter_model.safetensors")
save_file({k: v.float() for k, v in load_file(file).items()}, file)
if os.path.exists(os.path.join(folder, "README.md")):
    os.remove(os.path.join(folder, "README.md"))

optimizer = torch.optim.AdamW(trained, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
losses, norms, ids = [], [], torch.randint(text.vocab_size, (STEPS, BATCH, TOKENS + 1))
for step in range(STEPS):
    logits = m(input_ids=ids[step, :, :-1], use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[step, :, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    losses.append(loss.item())
    norms.append(torch.nn.utils.clip_grad_norm_(trained, 1.0).item())
    optimizer.step()
with open(os.path.join(here, "golden.json"), "w") as f:
    json.dump({"transformers": transformers.__version__, "ids": ids.tolist(), "loss": losses, "norm": norms}, f)
    f.write("\n")
print(losses, norms)
