"""Times the encoder on every implementation in turn and prints a table.

    compare.py --files DIR --bin DIR [--backend cpu|wgpu]
        [--model sam_vit_b|sam_vit_h|sam_tiny|sam3|sam3_LAYERS] [--peers NAME,...] [--rounds 5]
               [-n 2] [--precision f32] [--markdown FILE] [--json FILE]

On cpu, a round measures the machine's peak, then each implementation in its own process. On a GPU, the peers' processes
stay alive, because loading and compiling take long, and a round measures the peak, the peers, RLX, and the peers again.
The table is written after every round, so that a run that is cut short has one, too. """

import argparse
import json
import os
import re
import subprocess
import sys
import time

import gpu
import ours
import report
import sam3

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FAILED = (subprocess.CalledProcessError, json.JSONDecodeError, BrokenPipeError)


class Peer:
    """A process of peer.py. If it fails, its methods raise one of the exceptions in FAILED."""

    def __init__(self, name, a):
        device = ["--device", a.torch_device] if a.backend != "cpu" else []
        self.process = subprocess.Popen(
            [sys.executable, f"{HERE}/peer.py", name, "--files", a.files, "--golden", a.golden, "--model", a.model,
             "--threads", str(a.threads),
             "--precision", a.precision, *device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | {"OMP_NUM_THREADS": str(a.threads)})
        self.start = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise subprocess.CalledProcessError(self.process.wait(), "peer.py")
        return json.loads(line)

    def ask(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def prepare(a, peers):
    """Creates the files that are missing: checkpoint, image, artifact, ONNX."""
    os.makedirs(a.files, exist_ok=True)
    if sam3.layers(a.model) is not None:
        return sam3.prepare(a)
    path = lambda ending: f"{a.files}/{a.model}.{ending}"
    golden = a.model if os.path.exists(f"{a.golden}/{a.model}/manifest.json") else "sam_vit_b"
    if not os.path.exists(path("safetensors")):
        encoder = [] if golden == a.model else ["-encoder", a.model]
        subprocess.run([a.synth, "-manifest", f"{a.golden}/{golden}/manifest.json", *encoder, "-o",
                        path("safetensors")], check=True)
    if not os.path.exists(path("npy")):
        with open(f"{a.golden}/{golden}/case.json") as f:
            image = json.load(f)["image"]
        subprocess.run([a.synth, "-name", image["name"], "-shape", ",".join(map(str, image["shape"])), "-scale",
                        str(image["scale"]),
                        "-shift", str(image["shift"]), "-o", path("npy")], check=True)
    if "rlx" in a.peers.split(","):  # always, because the compiler may have changed
        heads = ["--set", "mask_decoder_config.num_attention_heads=2"] if a.model == "sam_tiny" else []
        # the goldens come from Transformers, which uses this epsilon
        heads += ["--set", "mask_decoder_config.layer_norm_eps=1e-6"]
        subprocess.run([f"{a.bin}/rlxc", path("safetensors"), "-o", path("rlx"), "-q", *heads], check=True)
    if {"openvino", "onnxruntime"} & set(peers) and not os.path.exists(path("onnx")):
        subprocess.run([sys.executable, f"{HERE}/export.py", path("safetensors"), path("onnx")], check=True,
                       stdout=sys.stderr)


class Comparison:
    """Runs the rounds, and stores the peaks and the results of each implementation."""

    def __init__(self, a, names):
        self.a, self.names, self.peaks, self.results = a, names, [], {}
        self.errors = []  # RLX's error, after its first turn

    def turn(self, number, name, work):
        """Runs one implementation once. If it fails, later rounds leave it out."""
        if name not in self.names:
            return
        begin = time.monotonic()
        try:
            result = work()
        except FAILED as e:
            print(f"{name}: {e}; it is left out of the remaining runs", file=sys.stderr)
            self.names.remove(name)
            return
        result["round"] = number
        self.results.setdefault(name, []).append(result)
        cpu = lambda r: f" (cpu {r['cpu_s']:.2f}, others {100 * r['others']:.0f} %)" if self.a.backend == "cpu" else ""
        print(f"round {number} {name}: " + ", ".join(f"{r['wall_s']:.4g} s{cpu(r)}" for r in result["runs"]) +
              f"; {time.monotonic() - begin:.0f} s in all",
              file=sys.stderr, flush=True)

    def own(self):
        if not self.errors:
            # after the first turn, because PyTorch may have to write the reference first
            self.errors.append(ours.error(self.a))
        return ours.measure(self.a) | {"error": self.errors[0]}

    def cpu(self):
        def peer(name):
            p = Peer(name, self.a)
            result = p.start | p.ask(self.a.n)
            p.close()
            return result

        for i in range(1, self.a.rounds + 1):
            self.peaks.append(
                json.loads(subprocess.check_output([self.a.peak, "-threads", str(self.a.threads), "-for", "2s"])))
            for name in list(self.names):
                self.turn(i, name, self.own if name == "rlx" else lambda: peer(name))
            yield

    def gpu(self):
        device, peers, memory = gpu.Gpu(), {}, {}

        def started(name):
            before, watch = device.used(), gpu.Watch(device)
            peers[name] = Peer(name, self.a)
            most, _ = watch.end()
            memory[name] = None if most is None else most - before

        def peer(name):
            if name not in peers:
                started(name)
            peers[name].ask(self.a.warmup)  # because the clock of an idle GPU is low
            watch = gpu.Watch(device)
            result = peers[name].start | peers[name].ask(self.a.n)
            return result | {"gpu_bytes": memory[name], "clock_mhz": watch.end()[1]}

        def own():
            before, watch = device.used(), gpu.Watch(device)
            result = self.own()
            most, clock = watch.end()
            return result | {"gpu_bytes": None if most is None else most - before, "clock_mhz": clock}

        others = [n for n in self.names if n != "rlx"]
        for i in range(1, self.a.rounds + 1):
            for name in others:
                self.turn(i, name, lambda: peer(name))
            if "torch" in peers and "torch" in self.names:
                self.peaks.append(peers["torch"].ask("peak"))
            self.turn(i, "rlx", own)
            for name in reversed(others) if "rlx" in self.names else []:
                self.turn(i, name, lambda: peer(name))
            yield
        for p in peers.values():
            p.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", required=True,
                        help="folder for checkpoint, artifact, image and ONNX, which are made if they are missing")
    parser.add_argument("--golden", default=f"{ROOT}/testdata/goldens", help="folder of the goldens")
    parser.add_argument("--bin", default="bin", help="folder of the built commands")
    parser.add_argument("--peak", help="built bench/peak (default: peak in the folder of --bin)")
    parser.add_argument("--synth", help="built bench/synth (default: synth in the folder of --bin)")
    parser.add_argument("--backend", choices=["cpu", "wgpu", "cuda"], default="cpu",
                        help="backend of RLX; with wgpu and cuda, the torch peers run on CUDA")
    parser.add_argument("--device", help="device of RLX, as rlxrun devices lists it")
    parser.add_argument("--torch-device", choices=["cuda", "cpu"], default="cuda",
                        help="device of the torch peers with --backend wgpu or cuda")
    parser.add_argument("--model", default="sam_vit_b",
                        help="sam_vit_b, sam_vit_h, sam_tiny, sam3, or sam3_LAYERS for the first LAYERS of its layers (default sam_vit_b)")
    parser.add_argument("--peers",
                        help="implementations, in the order in which they run (default: openvino,onnxruntime,torch,torch-compile,rlx; on a GPU: torch,torch-compile,rlx)")
    parser.add_argument("--rounds", type=int, help="number of rounds (default 5; on a GPU 3)")
    parser.add_argument("-n", type=int, help="timed runs per turn (default 2; on a GPU 20)")
    parser.add_argument("--warmup", type=int,
                        help="runs before the timed ones, including the first (default 1; on a GPU 5)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--markdown")
    parser.add_argument("--json")
    a = parser.parse_args()
    on_cpu = a.backend == "cpu"
    a.peers = a.peers or ("openvino,onnxruntime,torch,torch-compile,rlx" if on_cpu else "torch,torch-compile,rlx")
    a.rounds, a.n, a.warmup = a.rounds or (5 if on_cpu else 3), a.n or (2 if on_cpu else 20), a.warmup or (
        1 if on_cpu else 5)
    a.peak, a.synth = a.peak or f"{a.bin}/peak", a.synth or f"{a.bin}/synth"
    names = a.peers.split(",")
    if a.model not in ("sam_vit_b", "sam_vit_h", "sam_tiny") and not re.fullmatch(r"sam3(_\d+)?", a.model):
        parser.error(f"--model {a.model} is not known")
    if (not on_cpu or a.model.startswith("sam3")) and {"openvino", "onnxruntime"} & set(names):
        parser.error("on a GPU, and for SAM 3, the peers are torch and torch-compile")
    prepare(a, names)
    c, text = Comparison(a, names), ""
    for _ in c.cpu() if on_cpu else c.gpu():
        text = report.write(a, c.peaks, c.results)
    print(text, end="")


if __name__ == "__main__":
    main()
