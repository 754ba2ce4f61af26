"""gpu.py DIR: compares ten models of published size on a GPU with compiled PyTorch, both in f32.

The models have random weights. Each is exported to DIR, compiled by rlxc and run on the backends of --backends by
rlxrun bench. Then PyTorch runs it, compiled with CUDA graphs and without TF32. All times are from memory of the host to
memory of the host. It prints a row for each model: times in ms, and PyTorch's time divided by ours. It needs torch,
torchvision, transformers and onnx, a GPU, and bin/rlxc, bin/rlxrun and the backends.
"""

import argparse, gc, json, os, statistics, subprocess, sys, time, warnings

warnings.filterwarnings("ignore")
import torch, torchvision.models as tv, transformers

BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bin")
parser = argparse.ArgumentParser()
parser.add_argument("dir")
parser.add_argument("--backends", default="wgpu,cuda")
parser.add_argument("--runs", type=int, default=50)
parser.add_argument("--only", default="", help="names, divided by commas")
parser.add_argument("--seconds", type=float, default=1e9, help="begin no model after this time")
args = parser.parse_args()


def image(name, **kw):
    return lambda: (getattr(tv, name)(weights=None, **kw), torch.randn(1, 3, 224, 224))


class Logits(torch.nn.Module):
    """A model whose result is the first tensor of what m returns."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        return next(iter(self.m(x).values()))


def segmentation():
    return Logits(tv.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)), torch.randn(1, 3, 224, 224)


def bert():
    m = transformers.BertModel(transformers.BertConfig(attn_implementation="eager"))
    return Logits(m), torch.randint(0, 30000, (1, 128))


MODELS = {
    "resnet50": image("resnet50"),
    "mobilenet_v3_large": image("mobilenet_v3_large"),
    "efficientnet_b0": image("efficientnet_b0"),
    "densenet121": image("densenet121"),
    "regnet_y_3_2gf": image("regnet_y_3_2gf"),
    "convnext_tiny": image("convnext_tiny"),
    "swin_t": image("swin_t"),
    "vit_b_16": image("vit_b_16"),
    "deeplabv3_resnet50": segmentation,
    "bert_base": bert,
}


def ours(path, backend):
    """Returns the median time of a run in ms."""
    out = subprocess.run(
        [BIN + "/rlxrun", "bench", path, "-b", backend, "-n", str(args.runs), "--format", "json", "--sandbox", "off"],
        capture_output=True, text=True, check=True).stdout
    return json.loads(out)["median_ms"]


def theirs(m, x):
    f = torch.compile(m.cuda(), mode="reduce-overhead")
    times = []
    for i in range(args.runs + 5):
        start = time.perf_counter()
        f(x.cuda()).cpu()
        times.append(1e3 * (time.perf_counter() - start))
    torch._dynamo.reset()
    return statistics.median(times[5:])


def measure(name):
    torch.manual_seed(1)
    m, x = MODELS[name]()
    m.eval()
    path = os.path.join(args.dir, name)
    torch.onnx.export(m, (x,), path + ".onnx", input_names=["x"], opset_version=17, dynamo=False)
    subprocess.run([BIN + "/rlxc", path + ".onnx", "-o", path + ".rlx", "--target", args.backends], check=True,
                   capture_output=True)
    os.remove(path + ".onnx")
    row = {b: ours(path + ".rlx", b) for b in args.backends.split(",")}
    t = theirs(m, x)
    again = {b: ours(path + ".rlx", b) for b in row}  # before and after PyTorch
    row = {b: (row[b] + again[b]) / 2 for b in row}
    print(f"| {name} | {t:.2f} | " + " | ".join(f"{v:.2f} | {t / v:.2f}" for v in row.values()) + " |", flush=True)
    return [t / v for v in row.values()]


torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
torch.backends.mha.set_fastpath_enabled(False)  # its op cannot be exported
os.makedirs(args.dir, exist_ok=True)
start, ratios = time.time(), []
print("| model | PyTorch | " + " | ".join(f"{b} | ratio" for b in args.backends.split(",")) + " |", flush=True)
for name in args.only.split(",") if args.only else MODELS:
    if time.time() - start > args.seconds:
        sys.exit(f"{name} and those after it were not measured: --seconds")
    try:
        with torch.no_grad():
            ratios.append(measure(name))
    except subprocess.CalledProcessError as e:
        print(f"{name}: {e.stderr.strip()[:500]}", flush=True)
    gc.collect()
print("| geometric mean | | " + " | ".join(f"| {statistics.geometric_mean(c):.2f}" for c in zip(*ratios)) + " |")
