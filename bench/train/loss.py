"""Trains demo/llama from random weights on a text, with rlxrun train and with PyTorch, and compares the losses:

    python3 bench/train/loss.py --text corpus.txt --steps 50

Both begin with the same values, which rlxrun train makes and saves in a step of learning rate 0, and see the same
sequences in the same order, which follows from the seed by Go's PCG. PyTorch computes in float32.
"""

import argparse
import json
import math
import pathlib
import subprocess
import tempfile

import torch
import transformers

ROOT = pathlib.Path(__file__).parents[2]


class PCG:
    """rand.PCG of Go's math/rand/v2: PCG-DXSM with a state of 128 bits."""

    def __init__(self, high, low):
        self.state = high << 64 | low

    def next(self):
        whole, half = (1 << 128) - 1, (1 << 64) - 1
        cheap = 0xDA942042E4DD58B5
        self.state = (self.state * (2549297995355413924 << 64 | 4865540595714422341) +
                      (6364136223846793005 << 64 | 1442695040888963407)) & whole
        high, low = self.state >> 64, self.state & half
        high ^= high >> 32
        high = high * cheap & half
        high ^= high >> 48
        return high * (low | 1) & half


def order(seed, epoch, n):
    """The order of the sequences in a pass through the text, as package train has it."""
    r, out = PCG(seed, epoch), list(range(n))
    for i in range(n - 1, 0, -1):
        k = r.next() % (i + 1)
        out[i], out[k] = out[k], out[i]
    return out


def rate(step, steps, lr):
    warmup = steps // 10
    if step < warmup:
        return lr * step / warmup
    return lr * (1 + math.cos(math.pi * min(1, (step - warmup) / max(1, steps - warmup)))) / 2


def rlxrun(*flags):
    text = subprocess.run([f"{args.bin}/rlxrun", "train", *flags], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(text.stdout)


def peer(first, ids):
    config = transformers.AutoConfig.from_pretrained(ROOT / "demo/llama", attention_dropout=0.0)
    m = transformers.LlamaForCausalLM(config).float()
    missing, unexpected = m.load_state_dict(first, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    m.tie_weights()
    optimizer = torch.optim.AdamW(m.parameters(), lr=args.lr, weight_decay=0.01)
    n, losses, orders = (len(ids) - 1) // args.tokens, [], {}
    for step in range(args.steps):
        rows = []
        for k in range(step * args.batch, (step + 1) * args.batch):
            if k // n not in orders:
                orders[k // n] = order(args.seed, k // n, n)
            i = orders[k // n][k % n] * args.tokens
            rows.append(ids[i : i + args.tokens + 1])
        batch = torch.tensor(rows)
        logits = m(input_ids=batch[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        for g in optimizer.param_groups:
            g["lr"] = rate(step, args.steps, args.lr)
        optimizer.step()
        losses.append(loss.item())
    return losses


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--bin", default=str(ROOT / "bin"), help="folder of rlxc, rlxrun and rlx-backend-cpu")
parser.add_argument("--text", required=True)
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--tokens", type=int, default=128)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--threads", type=int, default=2)
args = parser.parse_args()
torch.set_num_threads(args.threads)
with tempfile.TemporaryDirectory() as folder:
    artifact, first = f"{folder}/t.rlx", f"{folder}/first.safetensors"
    subprocess.run([f"{args.bin}/rlxc", ROOT / "demo/llama", "--target", "cpu", "--train", "full", "--train-tokens",
                    str(args.tokens), "--train-batch", str(args.batch), "-o", artifact], check=True,
                   stdout=subprocess.DEVNULL)
    flags = [artifact, "-b", "cpu", "--text", args.text, "--from-scratch", "--json", "--seed", str(args.seed),
             "--threads", str(args.threads)]
    rlxrun(*flags, "-n", "1", "--lr", "0", "--save", first)
    ours = rlxrun(*flags, "-n", str(args.steps), "--lr", str(args.lr))["losses"]
    from safetensors.torch import load_file

    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "demo/llama")
    ids = tokenizer(pathlib.Path(args.text).read_text()).input_ids
    theirs = peer(load_file(first), ids)
difference = [abs(a - b) / b for a, b in zip(ours, theirs)]
for i in sorted({0, 1, 2, args.steps // 4, args.steps // 2, 3 * args.steps // 4, args.steps - 1}):
    print(f"step {i + 1:5}  RLX {ours[i]:.6f}  PyTorch {theirs[i]:.6f}")
last = max(1, args.steps // 10)
print(f"largest relative difference {max(difference):.2e}; mean of the last {last} losses: "
      f"RLX {sum(ours[-last:]) / last:.5f}, PyTorch {sum(theirs[-last:]) / last:.5f}")
