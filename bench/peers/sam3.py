"""SAM 3's vision trunk and neck on the processor, beside PyTorch in turn:

    make build
    python3 bench/peers/sam3.py --files /tmp/sam3 --bin bin               # all 32 layers: 2 GB of weights, twice
    python3 bench/peers/sam3.py --files /tmp/sam3 --bin bin --layers 8    # a quarter of the trunk, with as many global layers for its size

Weights are random, in the names of Transformers; PyTorch runs the library's own Sam3VisionModel with fused attention, and our features are compared with its.
A round is bench/peak, PyTorch in a process of its own, and ours; each runs once before the timed runs.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import numpy as np

import ours
from load import Usage

GLOBAL = (7, 15, 23, 31)


def config(layers):
    from transformers import Sam3ViTConfig, Sam3VisionConfig

    trunk = Sam3ViTConfig(num_hidden_layers=layers, global_attn_indexes=[i for i in GLOBAL if i < layers])
    return Sam3VisionConfig(backbone_config=trunk)


def flop(layers):
    """Operations of one encode as the model is written: the products of the trunk's layers, of their scores, and of patches and neck."""
    tokens, width, hidden, window = 72 * 72, 1024, 4736, 24 * 24
    layer = 2 * tokens * (4 * width * width + 2 * width * hidden)
    wide = sum(i < layers for i in GLOBAL)
    scores = 4 * tokens * width * (wide * tokens + (layers - wide) * window)
    neck, fpn = 0, 256
    for scale, channels in (4, 256), (2, 512), (1, 1024), (0.5, 1024):
        neck += 2 * tokens * scale**2 * (channels * fpn + 9 * fpn * fpn)
    neck += 2 * tokens * 4 * (1024 * 512 + 4 * 512 * 256 + 1024 * 512)  # the transposed convolutions
    return layers * layer + scores + 2 * tokens * 3 * 14 * 14 * width + neck


def prepare(a):
    """Checkpoint, configuration, image and artifact, where they are missing."""
    import torch
    from safetensors.torch import save_file
    from transformers import Sam3VisionModel

    a.files.mkdir(parents=True, exist_ok=True)
    settings = config(a.layers)
    if not a.path(".safetensors").exists():
        torch.manual_seed(0)
        module = Sam3VisionModel(settings)
        for p in module.parameters():
            if p.dim() > 1:
                torch.nn.init.normal_(p, std=p[0].numel() ** -0.5)  # so that values neither vanish nor grow
        save_file({"detector_model.vision_encoder." + k: v.contiguous() for k, v in module.state_dict().items()}, a.path(".safetensors"))
    a.path(".json").write_text(json.dumps({"model_type": "sam3", "vision_config": settings.to_dict()}))
    np.save(a.path(".npy"), np.random.default_rng(0).standard_normal((1, 3, 1008, 1008), np.float32))
    subprocess.run([f"{a.bin}/rlxc", a.path(".safetensors"), "--model-config", a.path(".json"), "--target", "cpu", "-o", a.path(".rlx"), "-q"], check=True)


def peer(a):
    """PyTorch, in a process of its own: prints its runs."""
    import torch
    from safetensors.torch import load_file
    from transformers import Sam3VisionModel

    torch.set_num_threads(a.threads)
    torch.set_grad_enabled(False)
    module = Sam3VisionModel(config(a.layers)).eval()
    module.load_state_dict({k.removeprefix("detector_model.vision_encoder."): v for k, v in load_file(a.path(".safetensors")).items()})
    image = torch.from_numpy(np.load(a.path(".npy")))
    out = module(image)
    np.save(a.path(".want.npy"), out.fpn_hidden_states[2].numpy())
    runs = []
    for _ in range(a.n):
        usage = Usage(os.getpid())
        module(image)
        runs.append(usage.since())
    print(json.dumps({"version": "PyTorch " + torch.__version__, "runs": runs}))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--files", type=pathlib.Path, required=True)
    p.add_argument("--bin", default="bin")
    p.add_argument("--peak", default="", help="bench/peak, built; empty: go run ./bench/peak")
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("-n", type=int, default=2)
    p.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    a.backend, a.precision, a.device, a.warmup, a.model = "cpu", "f32", "", 1, f"sam3_{a.layers}"
    a.path = lambda end: a.files / (a.model + end)
    if a.peer:
        return peer(a)
    prepare(a)
    flops, peaks, times = flop(a.layers), [], {"PyTorch": [], "ours": []}
    for i in range(a.rounds):
        peak = json.loads(subprocess.check_output([*(a.peak or "go run ./bench/peak").split(), "-threads", str(a.threads), "-for", "2s"]))
        peaks.append(peak["fma_gflop_per_s"])
        theirs = json.loads(subprocess.check_output([sys.executable, *sys.argv, "--peer"]).splitlines()[-1])
        for name, result in ("PyTorch", theirs), ("ours", ours.measure(a)):
            times[name].append(min(r["cpu_s"] / a.threads for r in result["runs"]))
            print(f"round {i + 1} {name}: " + ", ".join(f"{r['wall_s']:.1f} s (processor {r['cpu_s'] / a.threads:.1f}, others {100 * r['others']:.0f} %)" for r in result["runs"]), flush=True)
        if i == 0:
            got = a.path(".got.npy")
            subprocess.run([f"{a.bin}/rlxrun", a.path(".rlx"), "--method", "encode", "-i", f"image=@{a.path('.npy')}", "-o", f"level2.features={got}", "--threads", str(a.threads), "-q"], check=True)
            x, want = np.load(got), np.load(a.path(".want.npy"))
            print(f"level2.features: largest difference {abs(x - want).max() / abs(want).max():.2g} of the largest value")
    least = flops / (max(peaks) * 1e9)
    print(f"{flops / 1e12:.2f} TFLOP; peak {max(peaks):.0f} GFLOP/s: {least:.1f} s at least")
    for name, values in times.items():
        value = statistics.median(values)
        print(f"{name}: {value:.1f} s of processor time / threads, {100 * least / value:.0f} % of the peak")
    ratios = [t / o for t, o in zip(times["PyTorch"], times["ours"])]
    print("PyTorch over ours, by round: " + ", ".join(f"{r:.2f}" for r in ratios))


if __name__ == "__main__":
    main()
