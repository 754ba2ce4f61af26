"""An LSTM over 1,000 steps: rlxrun's cpu backend beside PyTorch's nn.LSTM, with the same weights and inputs.

    python bench/loops/lstm.py [--steps 1000] [--hidden 128] [--runs 20] [--threads 2]

Needs bin/rlxc, bin/rlxrun and bin/rlx-backend-cpu (make build) and torch. Prints the median time per step of both, in
microseconds, from runs that alternate between the two, and the largest difference of the results.
"""

import argparse, json, os, statistics, subprocess, tempfile, time

import numpy as np
import torch

TEXT = """graph cell
h = input : f32[1,{H}]
c = input : f32[1,{H}]
x = input : f32[1,{H}]
w = param : f32[{H2},{H4}]
b = param : f32[{H4}]
xh = concat x, h {{axis=1}} : f32[1,{H2}]
m = matmul xh, w : f32[1,{H4}]
g = add m, b : f32[1,{H4}]
gi = narrow g {{axis=1, len={H}}} : f32[1,{H}]
gf = narrow g {{axis=1, len={H}, start={H}}} : f32[1,{H}]
gg = narrow g {{axis=1, len={H}, start={H2}}} : f32[1,{H}]
go = narrow g {{axis=1, len={H}, start={H3}}} : f32[1,{H}]
i = sigmoid gi : f32[1,{H}]
f = sigmoid gf : f32[1,{H}]
t = tanh gg : f32[1,{H}]
o = sigmoid go : f32[1,{H}]
fc = mul f, c : f32[1,{H}]
it = mul i, t : f32[1,{H}]
d = add fc, it : f32[1,{H}]
u = tanh d : f32[1,{H}]
n = mul o, u : f32[1,{H}]
return n=n, d=d

graph main
h = input : f32[1,{H}]
c = input : f32[1,{H}]
x = input : f32[{T},1,{H}]
y = scan h, c, x {{body=@cell, carried=2, steps=1, trajectory=true}} : f32[{T},1,{H}]
return y=y
"""


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--runs", type=int, default=20)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bin", default="bin")
    a = p.parse_args()
    T, H = a.steps, a.hidden
    torch.manual_seed(0)
    torch.set_num_threads(a.threads)
    lstm = torch.nn.LSTM(H, H).eval()
    x = torch.randn(T, 1, H)
    with torch.no_grad():
        want, _ = lstm(x)
    w = torch.cat([lstm.weight_ih_l0, lstm.weight_hh_l0], 1).T.contiguous().detach().numpy()
    b = (lstm.bias_ih_l0 + lstm.bias_hh_l0).detach().numpy()
    with tempfile.TemporaryDirectory() as d:
        at = lambda name: os.path.join(d, name)
        from safetensors.numpy import save_file

        save_file({"w": w, "b": b}, at("w.safetensors"))
        for name, v in (("h", np.zeros((1, H), np.float32)), ("c", np.zeros((1, H), np.float32)), ("x", x.numpy())):
            np.save(at(name + ".npy"), v)
        open(at("lstm.txt"), "w").write(TEXT.format(T=T, H=H, H2=2 * H, H3=3 * H, H4=4 * H))
        run = lambda *args: subprocess.run(args, check=True, capture_output=True, text=True)
        run(
            f"{a.bin}/rlxc", at("lstm.txt"), "--weights", at("w.safetensors"), "--target", "cpu", "-o", at("lstm.rlx")
        )
        args = [f"{a.bin}/rlxrun", at("lstm.rlx"), "-b", "cpu", "-o", "y=" + at("y.npy")]
        for name in "hcx":
            args += ["-i", f"{name}=@{at(name + '.npy')}"]
        run(*args)
        bench = [
            f"{a.bin}/rlxrun",
            "bench",
            at("lstm.rlx"),
            "-b",
            "cpu",
            "-n",
            str(a.runs),
            "--warmup",
            "2",
            "--threads",
            str(a.threads),
            "--json",
        ]
        ours, theirs = [], []
        for _ in range(3):  # alternate
            ours.append(json.loads(run(*bench).stdout))
            for _ in range(a.runs):
                start = time.perf_counter()
                with torch.no_grad():
                    lstm(x)
                theirs.append((time.perf_counter() - start) / T * 1e6)
        print("rlx us/step", statistics.median(r["median_ms"] for r in ours) / T * 1e3)
        got = np.load(at("y.npy"))
        print("largest difference", float(np.abs(got - want.numpy()).max()))
        print("PyTorch us/step", statistics.median(theirs))
        print("file bytes", os.path.getsize(at("lstm.rlx")))


main()
