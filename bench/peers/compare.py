"""Times the encoder on every implementation in turn and prints a table.

    compare.py --files DIR --golden DIR --bin DIR --peak "COMMAND" [--peers openvino,...] [--rounds 5] [-n 2] [--threads 2]
               [--precision f32] [--markdown FILE] [--json FILE]

A round is: the machine's peak, every peer, ours. What is named in --peers runs in that order. Rows are written after every
round, so that a run cut short has its table too.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time

from load import between, sample

HERE = os.path.dirname(os.path.abspath(__file__))
FLOP = 0.96e12  # of the encoder as the model is written, whatever is skipped


def peer(name, a):
    out = subprocess.run(
        [sys.executable, f"{HERE}/peer.py", name, "--files", a.files, "--golden", a.golden, "--threads", str(a.threads),
         "--precision", a.precision, "-n", str(a.n)],
        stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": str(a.threads)}, check=True).stdout
    return json.loads(out)


class Watch(threading.Thread):
    """Samples a process and its children, because the backend that works is a child."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.samples, self.ended = pid, [], threading.Event()

    def pids(self):
        found = [self.pid]
        for task in os.listdir(f"/proc/{self.pid}/task"):  # a child belongs to the thread that started it
            with open(f"/proc/{self.pid}/task/{task}/children") as f:
                found += map(int, f.read().split())
        return found

    def run(self):
        while not self.ended.is_set():
            try:
                self.samples.append(sample(*self.pids()))
            except (OSError, ValueError, IndexError):
                pass  # a process ended while it was read
            self.ended.wait(0.05)

    def at(self, when):
        return min(self.samples, key=lambda s: abs(s[0] - when))


def ours(a):
    """rlxrun bench. It tells how long each run took; the last one ends with the process, the others before it."""
    command = [f"{a.bin}/rlxrun", "bench", f"{a.files}/sam_vit_b.rlx", "-b", "cpu", "--method", "encode", "--threads", str(a.threads),
               "-n", str(a.n), "--format", "json"]
    if a.precision != "f32":
        command += ["--precision", a.precision]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    watch = Watch(process.pid)
    watch.start()
    out = json.loads(process.stdout.read())
    watch.ended.set()
    watch.join()
    process.wait()
    # The processor times are those of the process tree while it had the backend: cut at the last sample with the most of it.
    last = max(watch.samples, key=lambda s: s[1])
    runs, end = [], last[0]
    for ms in reversed(out["runs_ms"]):
        run = between(watch.at(end - ms / 1e3), watch.at(end))
        run["wall_s"] = ms / 1e3
        runs.insert(0, run)
        end -= ms / 1e3
    return {
        "version": subprocess.check_output([f"{a.bin}/rlxrun", "--version"], text=True).splitlines()[0].removeprefix("rlxrun "),
        "load_s": out["load_ms"] / 1e3,
        "first_s": out["first_ms"] / 1e3,
        "runs": runs,
        "peak_rss_bytes": out["backend_peak_rss_bytes"] + out["host_peak_rss_bytes"],
        "error": a.error,
    }


def our_error(a):
    """Runs the golden's image through ours once and compares."""
    import numpy as np

    import model

    out = f"{a.files}/embeddings.npy"
    command = [f"{a.bin}/rlxrun", f"{a.files}/sam_vit_b.rlx", "-b", "cpu", "--method", "encode", "-i", f"image=@{a.files}/image.npy", "-o", f"embeddings={out}"]
    if a.precision != "f32":
        command += ["--precision", a.precision]
    if os.path.exists(out):
        os.remove(out)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return model.error(np.load(out), f"{a.golden}/golden.safetensors")


def summary(a, peaks, results):
    """One row per implementation. Times are medians over all timed runs; ratios are of medians."""
    peak = max(p["fma_gflop_per_s"] for p in peaks)  # what disturbs a peak only lowers it
    rows = []
    for name, rounds in results.items():
        runs = [r for x in rounds for r in x["runs"]]
        wall = [r["wall_s"] for r in runs]
        cpu = [r["cpu_s"] / a.threads for r in runs]
        rows.append({
            "name": name, "version": rounds[-1]["version"], "runs": len(runs),
            "wall_s": statistics.median(wall), "wall_min_s": min(wall), "wall_max_s": max(wall),
            "cpu_s": statistics.median(cpu), "cpu_min_s": min(cpu), "cpu_max_s": max(cpu),
            "first_s": statistics.median(x["first_s"] for x in rounds),
            "load_s": statistics.median(x["load_s"] for x in rounds),
            "others": statistics.median(r["others"] for r in runs),
            "peak_rss_bytes": max(x["peak_rss_bytes"] for x in rounds),
            "error": max(x["error"] for x in rounds),
        })
    return peak, rows


def cpu_name():
    with open("/proc/cpuinfo") as f:
        return next((l.split(":")[1].strip() for l in f if l.startswith("model name")), platform.machine())


def write(a, peaks, results):
    peak, rows = summary(a, peaks, results)
    own = next((r for r in rows if r["name"] == "rlx"), None)
    floor = FLOP / peak / 1e9
    lines = [
        f"{cpu_name()}, {os.cpu_count()} processors, {a.threads} threads, {a.precision}, {len(peaks)} rounds; FMA peak {peak:.0f} GFLOP/s "
        f"(the best of the rounds; the least {min(p['fma_gflop_per_s'] for p in peaks):.0f}), floor {floor:.2f} s; "
        f"copying {max(p['copy_gb_per_s'] for p in peaks):.0f} GB/s.",
        "",
        "| implementation | runs | wall, median (range) | processor time / threads, median (range) | share of peak (by processor time) | over ours, wall | over ours, processor time | first run | peak memory | largest error | busy with others |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        ratio = [f"{r[k] / own[k]:.2f}" if own else "" for k in ("wall_s", "cpu_s")]
        lines.append(
            f"| {r['name']} {r['version']} | {r['runs']} | {r['wall_s']:.2f} s ({r['wall_min_s']:.2f} to {r['wall_max_s']:.2f}) "
            f"| {r['cpu_s']:.2f} s ({r['cpu_min_s']:.2f} to {r['cpu_max_s']:.2f}) | {100 * floor / r['cpu_s']:.0f} % | {ratio[0]} | {ratio[1]} "
            f"| {r['first_s']:.1f} s | {r['peak_rss_bytes'] / 1e6:.0f} MB | {r['error']:.1e} | {100 * r['others']:.0f} % |")
    text = "\n".join(lines) + "\n"
    if a.markdown:
        with open(a.markdown, "w") as f:
            f.write(text)
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"cpu": cpu_name(), "threads": a.threads, "precision": a.precision, "peaks": peaks, "summary": rows, "rounds": results}, f, indent=1)
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", required=True, help="folder with the checkpoint, the artifact, encoder.onnx and image.npy")
    parser.add_argument("--golden", required=True, help="folder of the ViT-B golden")
    parser.add_argument("--bin", required=True, help="folder of the built commands")
    parser.add_argument("--peak", required=True, help="built bench/peak")
    parser.add_argument("--peers", default="openvino,onnxruntime,torch,torch-compile,rlx")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-n", type=int, default=2, help="timed runs of each process after its first")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--markdown")
    parser.add_argument("--json")
    a = parser.parse_args()
    names = a.peers.split(",")
    if "rlx" in names:
        a.error = our_error(a)
    peaks, results = [], {}
    for i in range(a.rounds):
        peaks.append(json.loads(subprocess.check_output([a.peak, "-threads", str(a.threads), "-for", "2s"])))
        for name in list(names):
            begin = time.monotonic()
            try:
                result = ours(a) if name == "rlx" else peer(name, a)
            except subprocess.CalledProcessError as e:
                print(f"{name}: exit status {e.returncode}, left out from here on", file=sys.stderr)
                names.remove(name)
                continue
            results.setdefault(name, []).append(result)
            print(f"round {i + 1} {name}: " + ", ".join(f"{r['wall_s']:.2f} s (cpu {r['cpu_s']:.2f}, others {100 * r['others']:.0f} %)" for r in result["runs"])
                  + f"; {time.monotonic() - begin:.0f} s in all", file=sys.stderr, flush=True)
        text = write(a, peaks, results)
    print(text, end="")


if __name__ == "__main__":
    main()
