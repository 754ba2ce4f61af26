"""Writes autograd.json: random graphs in text form, with the gradients that PyTorch's autograd computes in float64.

    python3 core/grad/testdata/autograd.py        (PyTorch 2; any version gives the same numbers to 1e-12)

The last graphs have values from a small set, so that elements are equal to each other, to 0 and to bounds: these show
what the rules do at ties and kinks.
"""
import json
import os
import random

import torch

torch.set_default_dtype(torch.float64)


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.coarse = seed >= 16
        self.lines, self.values, self.inputs = [], [], {}
        self.count = 0

    def type(self, x):
        names = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}
        return f"{names[x.dtype]}[{','.join(map(str, x.shape))}]"

    def add(self, text, *results):
        names = []
        for _ in results:
            names.append(f"v{self.count}")
            self.count += 1
        types = ", ".join(self.type(x) for x in results)
        self.lines.append(f"{', '.join(names)} = {text} : {types}")
        return names

    def input(self, shape):
        n = torch.Size(shape).numel()
        if self.coarse:
            v = [self.r.choice([-1.0, -0.5, 0.0, 0.5, 1.0]) for _ in range(n)]
        else:
            v = [self.r.uniform(-1.5, 1.5) for _ in range(n)]
        x = torch.tensor(v).reshape(shape).requires_grad_()
        name = f"x{len(self.inputs)}"
        self.inputs[name] = x
        self.lines.append(f"{name} = input : {self.type(x)}")
        self.values.append((name, x))

    def keep(self, name, x):
        if x.dtype == torch.float64 and x.numel() <= 64:
            self.values.append((name, x))

    def pick(self, rank=None):
        # recent values are likelier, so that graphs are deep
        list_ = [v for v in self.values if rank is None or v[1].dim() >= rank]
        return list_[max(self.r.randrange(len(list_)), self.r.randrange(len(list_)))]

    def same(self, x):
        others = [v for v in self.values if v[1].shape == x.shape]
        return self.r.choice(others)

    def const(self, v):
        return self.add("const {value=%r}" % v, torch.tensor(v))[0]

    def bounded(self, name, x):
        """tanh, so that values stay small"""
        if x.detach().abs().max() > 2:
            y = torch.tanh(x)
            return self.add(f"tanh {name}", y)[0], y
        return name, x

    def positive(self, name, x):
        q = x * x
        n = self.add(f"mul {name}, {name}", q)[0]
        y = q + 0.5
        return self.add(f"add {n}, {self.const(0.5)}", y)[0], y

    def step(self):
        r = self.r
        name, x = self.bounded(*self.pick())
        kinds = ["unary", "binary", "reduce", "shape", "matmul", "soft", "order", "index"]
        getattr(self, r.choice(kinds))(name, x)

    def unary(self, name, x):
        r = self.r
        f = torch.nn.functional
        plain = {"abs": torch.abs, "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "exp": torch.exp,
                 "sin": torch.sin, "cos": torch.cos, "atan": torch.atan, "erf": torch.erf, "expm1": torch.expm1,
                 "square": torch.square, "neg": torch.neg, "gelu": f.gelu, "silu": f.silu, "mish": f.mish,
                 "selu": f.selu, "hardswish": f.hardswish, "gelu_tanh": lambda x: f.gelu(x, approximate="tanh"),
                 "exp2": torch.exp2, "round": torch.round, "floor": torch.floor, "sign": torch.sign}
        positive = {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal,
                    "log2": torch.log2, "log1p": torch.log1p}
        attrs = {"clamp {max=0.5, min=-0.5}": lambda x: torch.clamp(x, -0.5, 0.5),
                 "leaky_relu {slope=0.1}": lambda x: f.leaky_relu(x, 0.1),
                 "elu {alpha=0.5}": lambda x: f.elu(x, 0.5), "celu {alpha=0.5}": lambda x: f.celu(x, 0.5),
                 "hardsigmoid {alpha=0.16666666666666666, beta=0.5}": f.hardsigmoid,
                 "softplus {beta=2, threshold=20}": lambda x: f.softplus(x, 2, 20)}
        op = r.choice(sorted(plain) + sorted(positive) + sorted(attrs))
        if op in positive:
            name, x = self.positive(name, x)
        word, _, rest = op.partition(" ")
        y = (plain.get(op) or positive.get(op) or attrs.get(op))(x)
        self.keep(self.add(f"{word} {name} {rest}".strip(), y)[0], y)

    def binary(self, name, x):
        r = self.r
        other, z = self.bounded(*self.same(x))
        if x.dim() and r.random() < 0.4:  # broadcast a row
            row = z[:1]
            other = self.add(f"narrow {other} {{axis=0, len=1}}", row)[0]
            z = row
        op = r.choice(["add", "sub", "mul", "div", "max", "min", "pow", "mod", "remainder", "where"])
        if op in ("div", "mod", "remainder"):
            other, z = self.positive(other, z)
        if op == "pow":
            name, x = self.positive(name, x)
        if op == "where":
            y = torch.where(x > z, x * 1, z * 1)
            c = self.add(f"gt {name}, {other}", x > z)[0]
            self.keep(self.add(f"where {c}, {name}, {other}", y)[0], y)
            return
        f = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum,
             "min": torch.minimum, "pow": torch.pow, "mod": torch.remainder, "remainder": torch.fmod}[op]
        y = f(x, z)
        self.keep(self.add(f"{op} {name}, {other}", y)[0], y)

    def reduce(self, name, x):
        r = self.r
        if x.dim() == 0:
            return
        axes = sorted(r.sample(range(x.dim()), r.randint(1, x.dim())))
        keep = r.random() < 0.5
        op = r.choice(["sum", "mean", "max", "min", "prod", "logsumexp"])
        if op == "prod":
            y = x
            for a in reversed(axes):
                y = torch.prod(y, a, keepdim=keep)
        else:
            f = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin,
                 "logsumexp": torch.logsumexp}[op]
            y = f(x, axes, keepdim=keep)
        word = op if op == "logsumexp" else "reduce_" + op
        list_ = "[" + ",".join(map(str, axes)) + "]"
        n = self.add(f"{word} {name} {{axes={list_}, keep_dims={str(keep).lower()}}}", y)[0]
        if keep:  # back to the shape of x
            y = y.expand(x.shape)
            n = self.add(f"expand {n}", y)[0]
        self.keep(n, y)

    def shape(self, name, x):
        r = self.r
        if x.dim() == 0:
            return
        axis, n = r.randrange(x.dim()), None
        op = r.choice(["transpose", "reshape", "concat", "narrow", "flip", "roll", "pad", "repeat", "tile", "stack",
                       "split"])
        ints = lambda v: "[" + ",".join(map(str, v)) + "]"
        if op == "transpose":
            perm = list(range(x.dim()))
            r.shuffle(perm)
            y, n = x.permute(perm), f"transpose {name} {{perm={ints(perm)}}}"
        elif op == "reshape":
            y, n = x.reshape(-1), f"reshape {name}"
        elif op == "concat":
            other, z = self.same(x)
            y, n = torch.cat([x, z], axis), f"concat {name}, {other} {{axis={axis}}}"
        elif op == "narrow" and x.shape[axis] > 1:
            start = r.randrange(x.shape[axis] - 1)
            y, n = x.narrow(axis, start, 2 if start + 2 <= x.shape[axis] else 1), None
            n = f"narrow {name} {{axis={axis}, start={start}, len={y.shape[axis]}}}"
        elif op == "flip":
            y, n = x.flip(axis), f"flip {name} {{axes=[{axis}]}}"
        elif op == "roll":
            y, n = x.roll(2, axis), f"roll {name} {{axes=[{axis}], shifts=[2]}}"
        elif op == "pad":
            before, after = [0] * x.dim(), [0] * x.dim()
            before[axis], after[axis] = 1, 2
            flat = [p for a in reversed(range(x.dim())) for p in (before[a], after[a])]
            y = torch.nn.functional.pad(x, flat, value=0.25)
            n = f"pad {name} {{before={ints(before)}, after={ints(after)}, value=0.25}}"
        elif op == "repeat":
            y, n = x.repeat_interleave(2, axis), f"repeat {name} {{axis={axis}, times=2}}"
        elif op == "tile":
            times = [1] * x.dim()
            times[axis] = 2
            y, n = x.repeat(times), f"tile {name} {{repeats={ints(times)}}}"
        elif op == "stack":
            other, z = self.same(x)
            y, n = torch.stack([x, z], axis), f"stack {name}, {other} {{axis={axis}}}"
        elif op == "split" and x.shape[axis] > 1:
            a, b = x.split([1, x.shape[axis] - 1], axis)
            n1, n2 = self.add(f"split {name} {{axis={axis}, sizes=[1,{x.shape[axis] - 1}]}}", a, b)
            self.keep(n2, b)
            return
        if n:
            self.keep(self.add(n, y)[0], y)

    def matmul(self, name, x):
        r = self.r
        if x.dim() < 2:
            return
        other, z = self.same(x)
        a, b = x.transpose(-1, -2), z.transpose(-1, -2)
        if r.random() < 0.5:
            y, n = x @ b, f"matmul {name}, {other} {{trans_b=true}}"
        else:
            y, n = a @ z, f"matmul {name}, {other} {{trans_a=true}}"
        self.keep(self.add(n, y)[0], y)

    def soft(self, name, x):
        if x.dim() == 0:
            return
        axis = self.r.randrange(x.dim())
        op = self.r.choice(["softmax", "log_softmax"])
        y = getattr(torch, op)(x, axis)
        self.keep(self.add(f"{op} {name} {{axis={axis}}}", y)[0], y)

    def order(self, name, x):
        if x.dim() == 0:
            return
        axis = self.r.randrange(x.dim())
        if self.r.random() < 0.5 and not self.coarse:
            y, i = torch.topk(x, 1 + x.shape[-1] // 2, -1)
            n = self.add(f"top_k {name} {{k={y.shape[-1]}, index_dtype=i64}}", y, i)[0]
        else:
            y, i = torch.sort(x, dim=axis, stable=True)
            n = self.add(f"sort {name} {{axis={axis}, index_dtype=i64}}", y, i)[0]
        self.keep(n, y)

    def index(self, name, x):
        r = self.r
        if x.dim() < 2:
            return
        picked = torch.argmax(x.detach(), -1, keepdim=True) if not self.coarse else torch.zeros(
            x.shape[:-1] + (1,), dtype=torch.int64)
        if self.coarse:
            i = self.add("const", picked)[0]
        else:
            i = self.add(f"argmax {name} {{axis={x.dim() - 1}, keep_dims=true, index_dtype=i64}}", picked)[0]
        y = torch.gather(x, -1, picked)
        self.keep(self.add(f"gather_batched {name}, {i} {{batch_dims={x.dim() - 1}}}", y)[0], y)

    def finish(self):
        total = None
        uses = " ".join(line.split(" = ")[1] for line in self.lines)
        ends = [(n, x) for n, x in self.values if f" {n}" not in uses.replace(",", " ")]
        for name, x in ends:
            name, x = self.bounded(name, x)
            axes = "[" + ",".join(str(a) for a in range(x.dim())) + "]"
            y = x.mean()
            n = self.add(f"reduce_mean {name} {{axes={axes}}}", y)[0] if x.dim() else name
            y = y if x.dim() else x
            if total is None:
                total = (n, y)
            else:
                z = total[1] + y
                total = (self.add(f"add {total[0]}, {n}", z)[0], z)
        loss = total[1]
        loss.backward()
        zeros = lambda x: torch.zeros_like(x) if x.grad is None else x.grad
        wrt = list(self.inputs)
        self.lines.append(f"{', '.join('d' + n for n in wrt)} = grad({total[0]}; {', '.join(wrt)}) : " +
                          ", ".join(self.type(self.inputs[n]) for n in wrt))
        self.lines.append(f"return loss={total[0]}, " + ", ".join(f"d{n}=d{n}" for n in wrt))
        flat = lambda x: x.detach().reshape(-1).tolist()
        return {"text": self.lines, "loss": loss.item(),
                "inputs": {n: flat(x) for n, x in self.inputs.items()},
                "gradients": {n: flat(zeros(x)) for n, x in self.inputs.items()}}


def main():
    out = []
    for seed in range(24):
        m = Maker(seed)
        m.input([3, 4])
        m.input([3, 4])
        m.input([2, 3, 4])
        m.input([4])
        for _ in range(25):
            m.step()
        out.append(m.finish())
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "autograd.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(g) for g in out) + "\n]\n")


main()
