"""Times training steps of a Llama with PyTorch, eager and in float32: peer.py FOLDER --mode full|lora=RANK
--batch B --tokens T. Reads a line per request on stdin, runs that many steps, and writes the seconds of each and the
process's peak memory, or that of a GPU, as JSON. --device cuda takes a GPU, --compile compiles the model.

The forward pass is that of Transformers, and adapters are PEFT's without dropout. The optimizer is AdamW with clipping
by the norm, as rlxrun train does it.
"""

import argparse
import json
import resource
import sys
import time

import torch
import transformers


def model(folder, mode, alpha):
    m = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    m.config.use_cache = False
    for layer in m.model.layers:
        layer.self_attn.attention_dropout = 0.0  # rlxc --train has none
    if mode == "full":
        return m.train()
    import peft

    rank = int(mode.removeprefix("lora="))
    layers = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return peft.get_peft_model(m, peft.LoraConfig(r=rank, lora_alpha=alpha or 2 * rank, target_modules=layers)).train()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--mode", default="full")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    m = model(args.folder, args.mode, None).to(args.device)
    if args.compile:
        m.compile()
    trained = [p for p in m.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.01)
    ids = torch.randint(m.config.vocab_size, (args.batch, args.tokens + 1), device=args.device)

    def step():
        logits = m(input_ids=ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for line in sys.stdin:
        seconds = []
        cpu = time.process_time()
        for _ in range(int(line)):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if args.device != "cpu":
            peak = torch.cuda.max_memory_allocated()
        cpu = (time.process_time() - cpu) / max(1, len(seconds))
        print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "peak": peak}), flush=True)


if __name__ == "__main__":
    main()
