"""gpu.py DIR: compares ten models of published size on a GPU with compiled PyTorch, both in f32.

The models have random weights. Each is exported to DIR, compiled by rlxc and run on the backends of --backends by
rlxrun bench. Then PyTorch runs it, compiled with CUDA graphs and without TF32. All times are from memory of the host to
memory of the host. It prints a row for each model: times in ms, and PyTorch's time divided by ours. It needs torch,
torchvision, transformers and onnx, a GPU, and rlxc, rlxrun and the backends in --bin.

Exporting and compiling takes much longer than measuring. --processes 10 does so for ten models at a time; their times
are measured one after the other once all are ready.
"""

import argparse, fcntl, gc, json, os, statistics, subprocess, sys, time, warnings

warnings.filterwarnings("ignore")
import torch, torchvision.models as tv, transformers

parser = argparse.ArgumentParser()
parser.add_argument("dir")
parser.add_argument("--backends", default="wgpu,cuda")
parser.add_argument("--runs", type=int, default=50)
parser.add_argument("--only", default="", help="names, divided by commas")
parser.add_argument("--seconds", type=float, default=1e9, help="begin no model after this time")
parser.add_argument("--processes", type=int, default=1, help="models that are prepared at a time")
parser.add_argument("--wait", default="", help=argparse.SUPPRESS)
parser.add_argument("--bin", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bin"))
args = parser.parse_args()
BIN = args.bin


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


def ours(path, backend, runs=args.runs):
    """Returns the median time of a run in ms."""
    out = subprocess.run(
        [BIN + "/rlxrun", "bench", path, "-b", backend, "-n", str(runs), "--format", "json", "--sandbox", "off"],
        capture_output=True, text=True, check=True).stdout
    return json.loads(out)["median_ms"]


def theirs(m, x):
    """Returns a function that runs m, compiled by PyTorch."""
    f = torch.compile(m.cuda(), mode="reduce-overhead")
    for _ in range(5):
        f(x.cuda()).cpu()
    return f


def measure(f, x):
    """Returns the median time of a run in ms."""
    times = []
    for _ in range(args.runs + 5):
        start = time.perf_counter()
        f(x.cuda()).cpu()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[5:])


def compare(name, ready=lambda: None):
    """Prints the row of a model. ready returns when it may be measured."""
    torch.manual_seed(1)
    m, x = MODELS[name]()
    m.eval()
    path = os.path.join(args.dir, name)
    torch.onnx.export(m, (x,), path + ".onnx", input_names=["x"], opset_version=17, dynamo=False)
    subprocess.run([BIN + "/rlxc", path + ".onnx", "-o", path + ".rlx", "--target", args.backends], check=True,
                   capture_output=True)
    os.remove(path + ".onnx")
    backends = args.backends.split(",")
    for b in backends:
        ours(path + ".rlx", b, 1)  # fills the cache of shaders
    f = theirs(m, x)
    ready()
    row = {b: ours(path + ".rlx", b) for b in backends}
    t = measure(f, x)
    again = {b: ours(path + ".rlx", b) for b in backends}  # before and after PyTorch
    row = {b: (row[b] + again[b]) / 2 for b in backends}
    print(f"| {name} | {t:.2f} | " + " | ".join(f"{v:.2f} | {t / v:.2f}" for v in row.values()) + " |", flush=True)
    torch._dynamo.reset()
    return [t / v for v in row.values()]


READY = "ready\n"


def together(names):
    """Prepares several models at a time, each in a process of its own, and measures one after the other."""
    lock = os.path.join(args.dir, "lock")
    waiting = list(names)
    running, ratios = [], []
    with open(lock, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        while waiting and len(running) < args.processes:
            running.append(subprocess.Popen(
                [sys.executable, __file__, args.dir, "--bin", BIN, "--backends", args.backends,
                 "--runs", str(args.runs), "--only", waiting.pop(0), "--wait", lock],
                stdout=subprocess.PIPE, text=True))
        for p in running:  # each says that it is ready, or what is wrong
            p.said = []
            for line in p.stdout:
                p.said.append(line)
                if line == READY:
                    break
        fcntl.flock(f, fcntl.LOCK_UN)
    for p in running:
        for line in [x for x in p.said if x != READY] + p.communicate()[0].splitlines(keepends=True):
            print(line, end="", flush=True)
            if line.startswith("|"):
                ratios.append([float(c) for c in line.split("|")[4:-1:2]])
    return ratios + (together(waiting) if waiting else [])


def alone(names):
    ratios, start = [], time.time()
    for name in names:
        if time.time() - start > args.seconds:
            sys.exit(f"{name} and those after it were not measured: --seconds")
        try:
            with torch.no_grad():
                ratios.append(compare(name, wait if args.wait else lambda: None))
        except subprocess.CalledProcessError as e:
            print(f"{name}: {e.stderr.strip()[:500]}", flush=True)
        gc.collect()
    return ratios


def wait():
    """Waits until this process may measure, and keeps others from it until it ends."""
    print(READY, end="", flush=True)
    wait.file = open(args.wait)
    fcntl.flock(wait.file, fcntl.LOCK_EX)


torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
torch.backends.mha.set_fastpath_enabled(False)  # its op cannot be exported
os.makedirs(args.dir, exist_ok=True)
names = args.only.split(",") if args.only else list(MODELS)
if args.wait:
    alone(names)
    sys.exit()
print("| model | PyTorch | " + " | ".join(f"{b} | ratio" for b in args.backends.split(",")) + " |", flush=True)
ratios = together(names) if args.processes > 1 else alone(names)
print("| geometric mean | | " + " | ".join(f"| {statistics.geometric_mean(c):.2f}" for c in zip(*ratios)) + " |")
