"""Compares the speed of RLX and llama.cpp on a language model of Llama 3.2 1B's shape with random weights, from the
same GGUF files. See README.md."""
import argparse
import json
import os
import statistics
import subprocess

import gguf
import numpy as np

VOCABULARY, WIDTH, HIDDEN, HEADS, KV_HEADS, HEAD = 128256, 2048, 8192, 32, 8, 64


def write_model(path, layers):
    # The values do not affect the speed, so all matrices are the beginning of one array.
    noise = np.random.default_rng(1).standard_normal(VOCABULARY * WIDTH, dtype=np.float32).astype(np.float16)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("random")
    w.add_context_length(4096)
    w.add_embedding_length(WIDTH)
    w.add_block_count(layers)
    w.add_feed_forward_length(HIDDEN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_rope_dimension_count(HEAD)
    w.add_rope_freq_base(500000.0)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(VOCABULARY)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    w.add_tokenizer_model("none")

    def matrix(name, out, inner):
        w.add_tensor(name, noise[: out * inner].reshape(out, inner) / np.float16(inner**0.5))

    matrix("token_embd.weight", VOCABULARY, WIDTH)
    w.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for i in range(layers):
        for name, out, inner in (
            ("attn_q", HEADS * HEAD, WIDTH), ("attn_k", KV_HEADS * HEAD, WIDTH), ("attn_v", KV_HEADS * HEAD, WIDTH),
                                 ("attn_output", WIDTH, HEADS * HEAD),
            ("ffn_gate", HIDDEN, WIDTH), ("ffn_up", HIDDEN, WIDTH), ("ffn_down", WIDTH, HIDDEN),
        ):
            matrix(f"blk.{i}.{name}.weight", out, inner)
        for name in "attn_norm", "ffn_norm":
            w.add_tensor(f"blk.{i}.{name}.weight", np.ones(WIDTH, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          stderr=None if args.verbose else subprocess.DEVNULL, text=True).stdout


def llama(path):
    def bench(*test):
        return json.loads(output(f"{args.llama}/llama-bench", "-m", path, "-t", str(args.threads), *test, "-r",
                                 str(args.runs), "-o", "json"))[0]["avg_ts"]

    # -d: decode after a prompt of that length, as rlxrun bench does, and not from an empty context
    return {"prompt": bench("-p", str(args.prompt), "-n", "0"),
            "decode": bench("-p", "0", "-n", str(args.tokens), "-d", str(args.prompt))}


def ours(path, flags):
    r = json.loads(output(f"{args.bin}/rlxrun", "bench", path, "--threads", str(args.threads), "--prompt-tokens",
                          str(args.prompt),
                          "--tokens", str(args.tokens), "-n", str(args.runs), "--json", *flags))
    return {"prompt": r["prompt_tokens_per_s"], "decode": r["decode_tokens_per_s"],
            "share": r.get("memory_bandwidth_share", 0),
            "read": (r["weights_read_bytes"] + r["state_read_bytes"]) / 1e9,
            "band": r.get("memory_bytes_per_s", 0) / 1e9}


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--llama", required=True, help="folder of llama-bench and llama-quantize")
parser.add_argument("--bin", default="bin", help="folder of rlxc, rlxrun and rlx-backend-cpu")
parser.add_argument("--work", default="/tmp/bench-llm", help="folder for the models, which are kept for the next time")
parser.add_argument("--layers", type=int, default=16, help="number of layers; fewer make a smaller model")
parser.add_argument("--formats", default="F16,BF16,Q8_0,Q4_0,Q4_K_M")
parser.add_argument("--activations", default="f32,q8", help="kinds of activations to measure with packed weights")
parser.add_argument("--precisions", default="f32,bf16", help="precisions to measure prompts in")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--prompt", type=int, default=512)
parser.add_argument("--tokens", type=int, default=32)
parser.add_argument("--runs", type=int, default=1, help="runs per round")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--verbose", action="store_true", help="show what the commands print")
args = parser.parse_args()

os.makedirs(args.work, exist_ok=True)
base = f"{args.work}/layers{args.layers}-F16.gguf"
if not os.path.exists(base):
    write_model(base + ".part", args.layers)
    os.rename(base + ".part", base)
print(f"{'':8} {'':10}  {'prompt':>20}  {'':>6}  {'decode':>18}  {'':>6}  {'read':>18}")
print(f"{'':8} {'':10}  {'ours':>9} {'llama.cpp':>10}  {'ratio':>6}  {'ours':>7} {'llama.cpp':>10}  {'ratio':>6}  {'GB/s':>7} {'share':>5} {'llama.cpp':>9}")
for name in args.formats.split(","):
    path = f"{args.work}/layers{args.layers}-{name}.gguf"
    if not os.path.exists(path):
        output(f"{args.llama}/llama-quantize", base, path, name, str(os.cpu_count()))
    ways = {}
    for activations in args.activations.split(",") if name.startswith("Q") else ["f32"]:
        artifact = f"{args.work}/layers{args.layers}-{name}-{activations}.rlx"
        if not os.path.exists(artifact):
            output(f"{args.bin}/rlxc", path, "-o", artifact, "--target", "cpu",
                   *(["--activations", activations] if activations != "f32" else []))
        for precision in args.precisions.split(","):
            ways[f"{activations} {precision}"] = (artifact, ["--precision", precision])
    rounds = []
    both = {"llama": lambda: llama(path), "ours": lambda: {way: ours(*a) for way, a in ways.items()}}
    for i in range(args.rounds):  # the order alternates, so that neither program always runs after the other
        r = {k: both[k]() for k in sorted(both, reverse=i % 2 == 1)}
        rounds.append((r["llama"], r["ours"]))
    peer = {k: statistics.median(r[0][k] for r in rounds) for k in ("prompt", "decode")}
    for way in ways:
        own = {k: statistics.median(r[1][way][k] for r in rounds) for k in ("prompt", "decode", "share", "read",
            "band")}
        ratio = {k: statistics.median(r[1][way][k] / r[0][k] for r in rounds) for k in ("prompt", "decode")}
        print(f"{name:8} {way:10}  {own['prompt']:9.1f} {peer['prompt']:10.1f}  {ratio['prompt']:6.2f}  {own['decode']:7.2f} {peer['decode']:10.2f}"
              f"  {ratio['decode']:6.2f}  {own['decode'] * own['read']:7.1f} {100 * own['share']:4.0f}% {peer['decode'] * own['read']:9.1f}",
              flush=True)
