"""gpu.py DIR: compares ten models of published size on a GPU with compiled PyTorch, both in f32.

The models have random weights. Each is exported to DIR, compiled by rlxc and run on the backends of --backends by
rlxrun bench. Then PyTorch runs it, compiled with CUDA graphs and without TF32. All times are from memory of the host to
memory of the host. It prints a row for each model: times in ms, and PyTorch's time divided by ours. A backend such as
cuda:bf16 is run at that precision, and is still compared with PyTorch in f32. With --profiles, the time of each step is
written to files in that folder. It needs torch, torchvision, transformers and onnx, a GPU, and rlxc, rlxrun and the
backends in --bin. Without a GPU, PyTorch runs on the processor, not compiled, which only serves to try the script.

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
parser.add_argument("--image", type=int, default=224, help="height and width of images, a multiple of 32")
parser.add_argument("--profiles", default="", help="a folder for the profiles of all runs")
parser.add_argument("--wait", default="", help=argparse.SUPPRESS)
parser.add_argument("--bin", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bin"))
args = parser.parse_args()
BIN = args.bin
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def image(name, **kw):
    return lambda: (getattr(tv, name)(weights=None, **kw), torch.randn(1, 3, args.image, args.image))


class Logits(torch.nn.Module):
    """A model whose result is the first tensor of what m returns."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        return next(iter(self.m(x).values()))


def segmentation():
    m = tv.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)
    return Logits(m), torch.randn(1, 3, args.image, args.image)


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
    "vit_b_16": image("vit_b_16", image_size=args.image),
    "deeplabv3_resnet50": segmentation,
    "bert_base": bert,
}


def ours(path, backend, runs=args.runs, profile=False):
    """Returns the median time of a run in ms. A backend may have a precision: cuda:bf16."""
    name, _, precision = backend.partition(":")
    command = [BIN + "/rlxrun", "bench", path, "-b", name, "-n", str(runs), "--format", "json", "--sandbox", "off"]
    command += ["--precision", precision] if precision else []
    command += ["--device", "software"] if DEVICE == "cpu" else []
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if profile:
        command[command.index("-n") + 1] = "5"
        command[command.index("--format") : command.index("--format") + 2] = ["--profile"]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        file = os.path.basename(path).replace(".rlx", "-" + backend.replace(":", "-"))
        with open(os.path.join(args.profiles, file), "w") as f:
            f.write(text)
    return json.loads(out)["median_ms"]


def theirs(m, x):
    """Returns a function that runs m, compiled by PyTorch."""
    f = torch.compile(m.cuda(), mode="reduce-overhead") if DEVICE == "cuda" else m
    for _ in range(5):
        f(x.to(DEVICE)).cpu()
    return f


def measure(f, x):
    """Returns the median time of a run in ms."""
    times = []
    for _ in range(args.runs + 5):
        start = time.perf_counter()
        f(x.to(DEVICE)).cpu()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[5:])


def compare(name, ready=lambda: None):
    """Prints the row of a model. ready returns when it may be measured."""
    torch.manual_seed(1)
    m, x = MODELS[name]()
    m.eval()
    path = os.path.join(args.dir, name)
    torch.onnx.export(m, (x,), path + ".onnx", input_names=["x"], opset_version=17, dynamo=False)
    backends = args.backends.split(",")
    targets, precisions = [list(dict.fromkeys(b.partition(":")[i] for b in backends)) for i in (0, 2)]
    subprocess.run([BIN + "/rlxc", path + ".onnx", "-o", path + ".rlx", "--target", ",".join(targets), "--precision",
                    ",".join(["f32"] + [p for p in precisions if p])], check=True, capture_output=True, text=True)
    os.remove(path + ".onnx")
    for b in backends:
        ours(path + ".rlx", b, 1)  # fills the cache of shaders
    f = theirs(m, x)
    ready()
    row = {b: ours(path + ".rlx", b) for b in backends}
    t = measure(f, x)
    again = {b: ours(path + ".rlx", b, profile=args.profiles) for b in backends}  # before and after PyTorch
    row = {b: (row[b] + again[b]) / 2 for b in backends}
    print(f"| {name} | {t:.2f} | " + " | ".join(f"{v:.2f} | {t / v:.2f}" for v in row.values()) + " |", flush=True)
    os.remove(path + ".rlx")
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
            command = [sys.executable, __file__, args.dir, "--bin", BIN, "--backends", args.backends, "--runs",
                       str(args.runs), "--image", str(args.image), "--profiles", args.profiles, "--only",
                       waiting.pop(0), "--wait", lock]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
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
            print(f"{name}: {' '.join(e.cmd)}: {e.stderr.strip()[:500]}", flush=True)
        gc.collect()
    return ratios


def wait():
    """Waits until this process may measure, and keeps others from it until it ends."""
    print(READY, end="", flush=True)
    wait.file = open(args.wait)
    fcntl.flock(wait.file, fcntl.LOCK_EX)


torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
torch.backends.mha.set_fastpath_enabled(False)  # its op cannot be exported
for folder in filter(None, [args.dir, args.profiles]):
    os.makedirs(folder, exist_ok=True)
names = args.only.split(",") if args.only else list(MODELS)
if args.wait:
    alone(names)
    sys.exit()
print("| model | PyTorch | " + " | ".join(f"{b} | ratio" for b in args.backends.split(",")) + " |", flush=True)
ratios = together(names) if args.processes > 1 else alone(names)
print("| geometric mean | | " + " | ".join(f"| {statistics.geometric_mean(c):.2f}" for c in zip(*ratios)) + " |")
