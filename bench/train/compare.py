"""Compares the time and the memory of a training step with PyTorch's, eager and in float32, on two threads:

    make bench-train PYTHON=python3                      the full step of demo/llama, and LoRA on a model of 1B's shape
    python3 bench/train/compare.py --layers 2 --rounds 5 --only lora

The big model has the shape of Llama 3.2 1B and random weights in bf16, which bench/synth writes; PyTorch widens them to
f32, RLX multiplies them as they are. The optimizer of both is AdamW with clipping. Runs of the two alternate, and the
printed ratio is the median of the ratios of adjacent runs. Memory is the largest resident set: of rlxrun and its
backend, and of the Python process. Processor time is that of a step, on all threads, and says more than time where
other programs run. For RLX it includes the start of the processes and loading. With GOMP_SPINCOUNT=0 in the
environment, that of PyTorch does not include waiting.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


def llama_1b(folder, layers):
    """Writes a checkpoint of the shape of Llama 3.2 1B with so many layers."""
    width, hidden, vocabulary, heads, kv_heads, head = 2048, 8192, 128256, 32, 8, 64
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "model.safetensors").exists():
        return
    tensors = [("model.embed_tokens", vocabulary, width)]
    norms = ["model.norm"]
    for i in range(layers):
        at = f"model.layers.{i}."
        tensors += [(at + "self_attn.q_proj", heads * head, width), (at + "self_attn.k_proj", kv_heads * head, width),
                    (at + "self_attn.v_proj", kv_heads * head, width), (at + "self_attn.o_proj", width, heads * head),
                    (at + "mlp.gate_proj", hidden, width), (at + "mlp.up_proj", hidden, width),
                    (at + "mlp.down_proj", width, hidden)]
        norms += [at + "input_layernorm", at + "post_attention_layernorm"]
    manifest = [{"name": n + ".weight", "shape": [a, b], "scale": b**-0.5, "shift": 0} for n, a, b in tensors]
    manifest += [{"name": n + ".weight", "shape": [width], "scale": 0, "shift": 1} for n in norms]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width,
        "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "max_position_embeddings": 4096, "tie_word_embeddings": True, "hidden_act": "silu", "bos_token_id": 0,
        "eos_token_id": 1, "attention_bias": False, "mlp_bias": False}))
    subprocess.run(["go", "run", "./bench/synth", "-manifest", folder / "manifest.json", "-dtype", "BF16", "-o",
                    folder / "model.safetensors"], cwd=ROOT, check=True)


class Peer:
    """A process that trains with PyTorch."""

    def __init__(self, model, mode, batch, tokens):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "peer.py", model, "--mode", mode, "--batch", str(batch), "--tokens", str(tokens),
             "--threads", str(args.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True)
        self.run(1)

    def run(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        r = json.loads(self.process.stdout.readline())
        return statistics.median(r["seconds"]), r["peak"], r["cpu_seconds"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def spent():
    """Returns the processor time of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ours(artifact, steps):
    before = spent()
    text = subprocess.run([f"{args.bin}/rlxrun", "bench", artifact, "-b", "cpu", "--method", "train_step", "--json",
                           "-n", str(steps), "--threads", str(args.threads)], check=True,
                          capture_output=True, text=True)
    r = json.loads(text.stdout)
    cpu = (spent() - before) / (r["warmup"] + steps)
    return r["median_ms"] / 1e3, r["backend_peak_rss_bytes"] + r["host_peak_rss_bytes"], cpu, r["flops"], r["precision"]


def compare(name, model, mode, batch, tokens, flags=()):
    artifact = pathlib.Path(args.work) / f"{name}.rlx"
    subprocess.run([f"{args.bin}/rlxc", model, "--target", "cpu", "--train", mode, "--train-tokens", str(tokens),
                    "--train-batch", str(batch), "-o", artifact, *flags], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    peer, rounds = Peer(model, mode, batch, tokens), []
    for i in range(args.rounds):  # the order alternates, so that neither always runs after the other
        both = {"peer": lambda: peer.run(args.steps), "ours": lambda: ours(artifact, args.steps)}
        rounds.append({k: both[k]() for k in sorted(both, reverse=i % 2 == 1)})
    peer.close()
    median = lambda f: statistics.median(f(r) for r in rounds)
    flops, precision = rounds[0]["ours"][3:]
    mine, other = median(lambda r: r["ours"][0]), median(lambda r: r["peer"][0])
    print(f"{name:24} RLX {mine:7.3f} s ({precision}, {flops / mine / 1e9:.0f} GFLOP/s)  PyTorch {other:7.3f} s"
          f"  ratio {median(lambda r: r['peer'][0] / r['ours'][0]):.2f}"
          f"  processor time {median(lambda r: r['ours'][2]):.3f} s, {median(lambda r: r['peer'][2]):.3f} s,"
          f" ratio {median(lambda r: r['peer'][2] / r['ours'][2]):.2f}"
          f"  peak {max(r['ours'][1] for r in rounds) / 1e9:.2f} GB,"
          f" PyTorch {max(r['peer'][1] for r in rounds) / 1e9:.2f} GB", flush=True)


for needed in "torch", "transformers", "peft":
    if importlib.util.find_spec(needed) is None:
        sys.exit(f"{sys.executable} lacks the package {needed}; name another Python, as in make bench-train PYTHON=...")
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--bin", default=str(ROOT / "bin"), help="folder of rlxc, rlxrun and rlx-backend-cpu")
parser.add_argument("--work", default="/tmp/bench-train", help="folder for models, which are kept for the next time")
parser.add_argument("--layers", type=int, default=16, help="layers of the big model; fewer make a smaller one")
parser.add_argument("--tokens", type=int, default=512)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=1, help="steps of a run, beside one that is not timed")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--only", default="full,lora", help="which of full, lora, lora-q8_0 and lora-q4_k_m")
args = parser.parse_args()
os.makedirs(args.work, exist_ok=True)
for what in args.only.split(","):
    if what == "full":
        compare("full-5M", ROOT / "demo/llama", "full", 8, 128)
        continue
    big = pathlib.Path(args.work) / f"llama-1b-{args.layers}"
    llama_1b(big, args.layers)
    quantize = what.removeprefix("lora").removeprefix("-")
    compare(f"{what}-{args.layers}-layers", big, "lora=8", 1, args.tokens, ["--quantize", quantize] if quantize else [])
