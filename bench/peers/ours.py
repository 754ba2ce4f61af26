"""Runs RLX: rlxrun bench for the times, and one run on the reference's image for the error."""

import json
import os
import subprocess
import threading

import model
from load import between, sample


class Watch(threading.Thread):
    """Samples a process and its children. The backend is a child of rlxrun."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.samples, self.ended = pid, [], threading.Event()

    def pids(self):
        found = [self.pid]
        for task in os.listdir(f"/proc/{self.pid}/task"):  # children are listed by the thread that started them
            with open(f"/proc/{self.pid}/task/{task}/children") as f:
                found += map(int, f.read().split())
        return found

    def run(self):
        while not self.ended.is_set():
            try:
                self.samples.append(sample(*self.pids()))
            except (OSError, ValueError, IndexError):
                pass  # the process ended while its files were read
            self.ended.wait(0.05)

    def at(self, when):
        return min(self.samples, key=lambda s: abs(s[0] - when))


def flags(a):
    out = ["-b", a.backend, "--precision", a.precision]
    if a.backend == "cpu":
        out += ["--threads", str(a.threads)]
    if a.device:
        out += ["--device", a.device]
    return out


def measure(a):
    """Runs rlxrun bench, which reports the duration of each run. The last run ends at about the same time as the
    process."""
    command = [f"{a.bin}/rlxrun", "bench", f"{a.files}/{a.model}.rlx", "--method", "encode", "-n", str(a.n), "--warmup",
               str(a.warmup), "--json"]
    process = subprocess.Popen(command + flags(a), stdout=subprocess.PIPE)
    watch = Watch(process.pid)
    watch.start()
    text = process.stdout.read()
    watch.ended.set()
    watch.join()
    if process.wait() != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    out = json.loads(text)
    # When the backend exits, its processor time leaves the samples, so later samples are dropped.
    last = max(watch.samples, key=lambda s: s[1])
    runs, end = [], last[0]
    for ms in reversed(out["runs_ms"]):
        run = between(watch.at(end - ms / 1e3), watch.at(end)) if a.backend == "cpu" else {}
        run["wall_s"] = ms / 1e3
        runs.insert(0, run)
        end -= ms / 1e3
    version = subprocess.check_output([f"{a.bin}/rlxrun", "--version"],
                                      text=True).splitlines()[0].removeprefix("rlxrun ")
    return {
        "version": version + ("" if a.backend == "cpu" else " on " + out["device"]),
        "load_s": out["load_ms"] / 1e3,
        "first_s": out["first_ms"] / 1e3,
        "runs": runs,
        "peak_rss_bytes": out["backend_peak_rss_bytes"] + out["host_peak_rss_bytes"],
    }


def error(a):
    """Runs RLX once on the image of the reference, and returns the error."""
    import numpy as np

    out = f"{a.files}/{a.model}.result.npy"
    if os.path.exists(out):
        os.remove(out)
    subprocess.run([f"{a.bin}/rlxrun", f"{a.files}/{a.model}.rlx", "--method", "encode", "-i",
                    f"image=@{a.files}/{a.model}.npy",
                    "-o", f"{model.result(a.model)}={out}", *flags(a)], check=True, stdout=subprocess.DEVNULL)
    return model.error(np.load(out), a.files, a.golden, a.model)
