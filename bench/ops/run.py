"""Times ops of the cpu backend and of a peer, usually eager PyTorch, in turn: make bench-ops. See README.md."""
import argparse
import json
import math
import os
import pathlib
import platform
import runpy
import statistics
import subprocess
import sys
import time

here = pathlib.Path(__file__).parent
# Makes malloc keep memory between calls. Otherwise every call would map new memory for results that are not allocated
# beforehand.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
          "MALLOC_TOP_PAD_": str(64 << 20)}

parser = argparse.ArgumentParser()
parser.add_argument("--only", default="", help="time only these ops, separated by commas; no page is written")
parser.add_argument("--quick", action="store_true",
                    help="one short round, to check that the entries work; no page is written")
parser.add_argument("--best", action="store_true",
                    help="take the fastest runs rather than medians, for machines that are shared with others")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--ms", type=int, default=30, help="milliseconds per side and round")
parser.add_argument("--warm", type=int, default=10, help="milliseconds that each side runs before it is timed")
parser.add_argument("--backend", default="cpu", choices=("cpu", "wgpu"),
                    help="wgpu: time the entries of large.py, beside PyTorch on CUDA; no page is written")
parser.add_argument("--ours", default="out/ops", help="the program built from bench/ops")
parser.add_argument("--page", default="docs/ops-speed.md")
opts = parser.parse_args()
if any(os.environ.get(k) != v for k, v in MALLOC.items()):
    os.execvpe(sys.executable, [sys.executable, *sys.argv],
               {**os.environ, **MALLOC, "OMP_NUM_THREADS": str(opts.threads)})

sys.dont_write_bytecode = True
import torch  # noqa: E402

import peer  # noqa: E402
import report  # noqa: E402

if opts.quick:
    opts.rounds, opts.ms, opts.warm = 1, 5, 0


class Ours:
    """A process of the Go program of this folder, main.go."""

    def __init__(self):
        self.p = subprocess.Popen([opts.ours, "--threads", str(opts.threads), "--backend", opts.backend],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request, *values):
        self.p.stdin.write(json.dumps(request).encode() + b"\n")
        for v in values:
            self.p.stdin.write(v)
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            sys.exit("bench-ops: %s ended unexpectedly" % opts.ours)
        a = json.loads(line)
        if "error" in a:
            raise RuntimeError(a["error"])
        return a

    def load(self, c, results):
        inputs = [{"name": k, "type": peer.type_of(v), "bytes": v.nbytes, "weight": k in c.weights} for k,
                  v in c.inputs.items()]
        return self.ask({"do": "load", "line": c.line, "graphs": c.graphs, "inputs": inputs,
                         "results": [peer.type_of(r) for r in results]}, *(raw(v) for v in c.inputs.values()))

    def results(self, like):
        sizes = self.ask({"do": "get"}).get("results", [])
        data = [bytearray(self.p.stdout.read(n)) for n in sizes]
        return [torch.frombuffer(d, dtype=r.dtype).reshape(r.shape).to(r.device) if d else r for d,
                r in zip(data, like)]


def raw(t):
    return memoryview(t.contiguous().view(-1).view(torch.uint8).cpu().numpy())


def listed(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def differ(got, want, tol):
    """The largest difference of results, relative to the largest element, or 0 if it is within tol."""
    worst = 0
    for g, w in zip(got, want):
        if not w.numel() or torch.equal(g, w):
            continue
        if w.dtype != torch.float32:
            g, w = g.double(), w.double()
        d = ((g - w).abs().nan_to_num(0) / w[w.isfinite()].abs().max().clamp(min=1e-30)).max().item()
        if not torch.equal(g.isnan(), w.isnan()):
            d = math.inf
        worst = max(worst, d)
    return worst if worst > tol else 0


def times(call, ms):
    """Calls repeatedly for ms milliseconds, at least three times unless that takes over 4*ms. Returns the time of each
    call in nanoseconds."""
    if opts.backend == "wgpu":
        return times_on_gpu(call, ms)
    out, begin, now = [], time.perf_counter_ns(), time.perf_counter_ns
    while not out or len(out) < 3 and now() - begin < 4e6 * ms or now() - begin < 1e6 * ms:
        t = now()
        call()
        out.append(now() - t)
    return out


def times_on_gpu(call, ms):
    """Like times, but by the clock of the device, as averages of ten consecutive calls."""
    out, begin = [], time.perf_counter_ns()
    while len(out) < 3 or time.perf_counter_ns() - begin < 1e6 * ms:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        call()  # so that the device is busy when the first event is recorded
        first.record()
        for _ in range(10):
            call()
        last.record()
        torch.cuda.synchronize()
        out.append(1e5 * first.elapsed_time(last))
    return out


def gpu_peaks():
    """The rates of PyTorch's copy and of cuBLAS on the device."""
    x, a = torch.empty(1 << 28), torch.randn(8192, 8192)
    y, b = torch.empty_like(x), torch.empty_like(a)
    copied = statistics.median(times_on_gpu(lambda: y.copy_(x), 100))
    product = statistics.median(times_on_gpu(lambda: torch.mm(a, a, out=b), 100))
    return {"copy_gb_per_s": 2 * x.nbytes / copied, "fma_gflop_per_s": 2 * 8192**3 / product}


def measure(ours, c):
    """A row of the table: median times in nanoseconds, and the median of the rounds' ratios. With --best, the same of
    the fastest runs."""
    want = [t.clone() for t in listed(c.call())]
    made = ours.load(c, want)
    ours.ask({"do": "run", "ms": 1})
    row = {"op": c.op, "line": c.line, "shape": c.shape, "peer": c.peer, "steps": made["steps"], "problem": ""}
    if c.same and (d := differ(ours.results(want), want, c.tol)):
        row["problem"] = "results differ by %.1g of the largest" % d
    times(c.call, 1)
    mine, theirs, ratios = [], [], []
    pick = min if opts.best else statistics.median
    for _ in range(opts.rounds):
        time.sleep(0.01)  # because the peer's threads still spin for a while
        if opts.warm:  # a processor that was idle is slow at first, and the peer begins on one that was not
            ours.ask({"do": "run", "ms": opts.warm})
        mine.append(pick(ours.ask({"do": "run", "ms": opts.ms})["ns"]))
        if opts.warm:
            times(c.call, opts.warm)
        theirs.append(pick(times(c.call, opts.ms)))
        ratios.append(theirs[-1] / mine[-1])
    ratio = min(theirs) / min(mine) if opts.best else statistics.median(ratios)
    row.update(ours=pick(mine), theirs=pick(theirs), ratio=ratio, bytes=c.moved or made["bytes"],
               flops=made.get("flops", 0))
    return row


def main():
    torch.set_num_threads(opts.threads)
    torch.set_grad_enabled(False)
    gpu = opts.backend == "wgpu"
    if gpu:
        torch.set_default_device("cuda")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    ours = Ours()
    peaks, measured = gpu_peaks() if gpu else {}, 0
    known = ours.ask({"do": "ops"})["ops"]
    for f in sorted(here.glob("*.py")):
        if f.stem not in ("run", "peer", "report") and (f.stem == "large") == gpu:
            runpy.run_path(str(f))
    only = set(filter(None, opts.only.split(",")))
    have = {name for names, _ in peer.entries for name in names}
    for name in sorted((have | only) - set(known) | only - have):
        sys.exit("bench-ops: %s: %s" % (name, "no entry times it" if name in known else "no such op"))
    rows = []
    for names, cases in peer.entries:
        if only and not only & set(names):
            continue
        torch.manual_seed(7)
        for c in cases():
            if c.op not in names:
                sys.exit("bench-ops: %s is in the entry of %s" % (c.line, ", ".join(names)))
            if only and c.op not in only:
                continue
            # take the best of many, since disturbances only lower the peaks
            if not gpu and time.monotonic() - measured > 30:
                for k, v in ours.ask({"do": "peaks", "ms": 100})["peaks"].items():
                    peaks[k] = max(v, peaks.get(k, v))
                measured = time.monotonic()
            try:
                rows.append(measure(ours, c))
            except RuntimeError as e:
                rows.append({"op": c.op, "line": c.line, "shape": c.shape, "peer": c.peer, "problem": str(e)})
            print(report.line(rows[-1], peaks), flush=True)
    peaks["processor"] = next((v.split(":")[1].strip() for v in open("/proc/cpuinfo") if v.startswith("model name")),
                              platform.machine())
    summary = report.summary(rows)
    print("\n" + summary)
    if gpu:
        print("%(copy_gb_per_s).0f GB/s copied, %(fma_gflop_per_s).0f GFLOP/s by cuBLAS in f32" % peaks)
    missing = sorted(set(known) - have - report.UNMEASURED.keys())
    if missing and not gpu:
        print("without an entry: " + ", ".join(missing))
    if not only and not opts.quick and not gpu:
        pathlib.Path(opts.page).write_text(report.page(rows, peaks, missing,
            "the fastest runs" if opts.best else "medians", torch.__version__.split("+")[0]))
        print("written to " + opts.page)
    sys.exit(any(r["problem"] for r in rows))


main()
