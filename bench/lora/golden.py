"""Writes text/testdata/lora: adapters for demo/llama as PEFT saves them, and the logits of the merged models.

    pip install torch transformers peft
    python bench/lora/golden.py

The values of the adapters are random. The logits are those of PEFT's merge_and_unload in float32, for the last of a few
tokens, so that the test of package text compares with arithmetic that is not ours.
"""

import json
import pathlib
import shutil

import peft
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "text/testdata/lora"
IDS = [1, 5, 77, 300, 12, 900, 45, 7]

ADAPTERS = {
    "plain": dict(r=2, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
    "rslora": dict(
        r=4,
        lora_alpha=6,
        use_rslora=True,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        layers_to_transform=[0, 5],
        rank_pattern={"up_proj": 1, "layers.5.self_attn.k_proj": 3},
        alpha_pattern={"o_proj": 20, "layers.0.mlp.*": 3},
    ),
}


def model():
    m = transformers.AutoModelForCausalLM.from_pretrained(ROOT / "demo/llama", dtype=torch.float32)
    return m.eval()


def logits(m):
    with torch.no_grad():
        return m(torch.tensor([IDS])).logits[0, -1].tolist()


def main():
    torch.manual_seed(1)
    golden = {"ids": IDS, "peft": peft.__version__, "base": logits(model()), "merged": {}}
    for name, options in ADAPTERS.items():
        m = peft.get_peft_model(model(), peft.LoraConfig(**options))
        for key, p in m.named_parameters():
            if "lora_" in key:  # PEFT begins with lora_B = 0
                torch.nn.init.normal_(p, std=0.1)
        folder = OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        m.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        cfg = json.loads((folder / "adapter_config.json").read_text())
        cfg["base_model_name_or_path"] = "demo/llama"
        (folder / "adapter_config.json").write_text(json.dumps(cfg, indent=2, sort_keys=False) + "\n")
        golden["merged"][name] = logits(m.merge_and_unload())
    (OUT / "golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
