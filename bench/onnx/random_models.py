"""random_models.py DIR [--seed N] [--count N] [--only REGEXP] [FAMILY...]: exports models drawn at random to DIR/NAME.

The families are timm, torchvision, transformers, others (packages that are installed, random_others.py) and ops (random
functions of PyTorch, random_programs.py). Of the first three it draws one model of each module or model type that the
other scripts here do not have. Each is exported by one exporter, drawn too, in an opset from 11 to 20, and by the other
where this one fails. Folders are as models.py writes them: with sizes that are open where the model and ONNX Runtime
allow others.
"""

import argparse, glob, inspect, os, random, re, resource, shutil, sys, warnings

warnings.filterwarnings("ignore")
import numpy as np, torch, onnx, onnxruntime as ort
from onnx import numpy_helper

import random_configs, random_programs

torch.set_num_threads(1)
ort.set_default_logger_severity(4)
SIZES = ((2, 12), (3, 13), (1, 7))


def quoted():
    """Returns the words in quotes of the other scripts, which are the names of their models."""
    here, words = os.path.dirname(os.path.abspath(__file__)), set()
    for f in glob.glob(os.path.join(here, "*.py")):
        if not os.path.basename(f).startswith("random"):
            words |= set(re.findall(r'"(?:\w+\.)?(\w+)"', open(f).read()))
    return words


def images(size, channels=3):
    return lambda b, n: (torch.randn(b, channels, size, size),)


def runs(m, inputs):
    with torch.no_grad():
        m(*inputs(2, 12))


def timm_models(rng, known):
    import timm

    for module in timm.list_modules():
        names = [n for n in timm.list_models(module=module) if n not in known]
        rng.shuffle(names)
        yield module, lambda rng, names=names: timm_model(names)


def timm_model(names):
    import timm

    for name in [n for n in names if not re.search("giant|huge|large|gigantic|_so\\d|xl|enormous", n)][:12]:
        try:
            m = timm.create_model(name).eval()
        except Exception:
            continue
        if sum(p.numel() for p in m.parameters()) > 40e6:
            continue
        default = m.default_cfg.get("input_size", (3, 224, 224))[-1]
        for size in [64, 96, 128, 160, 192, 224, default]:
            try:
                runs(m, images(size))
            except Exception:
                continue
            return name, m, images(size), ["x"]
    raise ValueError("no small model")


class First(torch.nn.Module):
    """A model of torchvision: a detector for one image, a segmenter, or one that returns a list."""

    def __init__(self, m, listed):
        super().__init__()
        self.m, self.listed = m, listed

    def forward(self, *x):
        return tuple(random_configs.tensors(self.m([x[0][0]]) if self.listed else self.m(*x)))


def torchvision_models(rng, known):
    import torchvision.models as tv

    modules = {}
    for name in tv.list_models():
        if name.replace("quantized_", "") not in known or name.startswith("quantized_"):
            modules.setdefault(tv.get_model_builder(name).__module__.removeprefix("torchvision.models."), []).append(
                name
            )
    for module, names in sorted(modules.items()):
        rng.shuffle(names)
        yield module, lambda rng, names=names, module=module: torchvision_model(names, module)


def torchvision_model(names, module):
    import torchvision.models as tv

    for name in names:
        kw = dict(weights=None)
        if "detection" in module or "segmentation" in module:
            kw.update(weights_backbone=None)
        if "quantiz" in module:
            torch.backends.quantized.engine = "fbgemm"
            kw.update(quantize=True)
        m = First(tv.get_model(name, **kw).eval(), "detection" in module).eval()
        if sum(p.numel() for p in m.parameters()) > 50e6:
            continue
        if "optical_flow" in module:
            inputs, names = lambda b, n: (torch.rand(b, 3, 128, 128), torch.rand(b, 3, 128, 128)), ["a", "b"]
        elif "video" in module:
            inputs, names = lambda b, n: (
                torch.randn(b, 3, 16, 112 if "mvit" not in name else 224, 112 if "mvit" not in name else 224),
            ), ["x"]
        else:
            inputs, names = images(224), ["x"]
        runs(m, inputs)
        return name, m, inputs, names
    raise ValueError("no small model")


def transformers_models(rng, known):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    for model_type, name in sorted(CONFIG_MAPPING_NAMES.items()):
        prefix = name.removesuffix("Config")
        if random_configs.classes(model_type) and not any(prefix + s in known for s in ("", "Model", "Config")):
            yield model_type, lambda rng, t=model_type: random_configs.model(t, rng)


def other_models(rng, known):
    import random_others

    yield from random_others.models(rng)


def random_modules(rng, known):
    for i in range(100000):
        yield f"{i:05}", lambda rng, i=i: ("program", *random_programs.draw(rng))


FAMILIES = dict(
    timm=timm_models,
    torchvision=torchvision_models,
    transformers=transformers_models,
    others=other_models,
    ops=random_modules,
)


def open_axes(inputs, names, sizes):
    """Returns the axes of each input that change with the sizes, named by the size that decides them."""
    base, axes = inputs(*SIZES[0]), {n: {} for n in names}
    for which, size in (("batch", (3, 12)), ("length", (2, 13))):
        if which in sizes:
            for n, x, y in zip(names, base, inputs(*size)):
                for i in range(x.dim()):
                    if x.shape[i] != y.shape[i]:
                        own = SIZES[0][which == "length"] == x.shape[i]
                        axes[n][i] = which if own else f"{n}_{i}"
    return axes


def at(inputs, sizes, k):
    b, n = SIZES[k]
    return inputs(b if "batch" in sizes else SIZES[0][0], n if "length" in sizes else SIZES[0][1])


def export(m, args, names, axes, path, how):
    with torch.no_grad():
        if how != "dynamo":
            kw = dict(input_names=names, dynamic_axes=axes, opset_version=how, dynamo=False)
            return torch.onnx.export(m, args, path, **kw)
        dims = {n: torch.export.Dim(n, min=1, max=256) for ax in axes.values() for n in ax.values()}
        shapes = tuple({i: dims[n] for i, n in ax.items()} for ax in axes.values())
        if next(iter(inspect.signature(m.forward).parameters.values())).kind == inspect.Parameter.VAR_POSITIONAL:
            shapes = (shapes,)
        if not any(axes.values()):
            shapes = None
        torch.onnx.export(
            m, args, path, input_names=names, dynamic_shapes=shapes, dynamo=True, external_data=False, verbose=False
        )


def write(d, session, args, exact):
    os.makedirs(d, exist_ok=True)
    feed = {n: a.numpy() for n, a in args.items()}
    results = session.run(None, feed)
    for i, (n, v) in enumerate(feed.items()):
        open(os.path.join(d, f"input_{i}.pb"), "wb").write(numpy_helper.from_array(v, n).SerializeToString())
    for i, v in enumerate(results):
        open(os.path.join(d, f"output_{i}.pb"), "wb").write(numpy_helper.from_array(v).SerializeToString())
    if len(exact) == len(results) and all(e.shape == v.shape for e, v in zip(exact, results)):
        for i, v in enumerate(exact):
            open(os.path.join(d, f"torch_{i}.pb"), "wb").write(numpy_helper.from_array(v.numpy()).SerializeToString())


def make(family, name, draw, seed, out):
    """Exports one model. Returns what it did."""
    rng = random.Random(f"{seed} {family} {name}")
    torch.manual_seed(rng.randrange(1 << 30))
    title, m, inputs, names = draw(rng)
    how = "dynamo" if rng.random() < (0.1 if family == "ops" else 0.3) else rng.randint(11, 20)
    tried = [how] if family == "ops" else [how, 18 if how == "dynamo" else "dynamo"]
    d, why = os.path.join(out, f"{family}-{name}".replace("/", "_")), []
    m.requires_grad_(False)
    for how in tried:
        for sizes in (("batch", "length"), ("batch",), ()):
            axes = open_axes(inputs, names, sizes)
            if sizes and (axes == open_axes(inputs, names, sizes[:-1])):
                continue
            shutil.rmtree(d, ignore_errors=True)
            os.makedirs(d)
            path = os.path.join(d, "model.onnx")
            try:
                feeds = [at(inputs, sizes, k) for k in range(3 if sizes else 1)]
                with torch.no_grad():
                    exact = [random_configs.tensors(m(*x)) for x in feeds]
                export(m, feeds[0], names, axes, path, how)
                options = ort.SessionOptions()
                options.log_severity_level = 4
                options.intra_op_num_threads = 1
                s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
                kept = [i.name for i in s.get_inputs()]
                for k, feed in enumerate(feeds):
                    args = {n: a for n, a in zip(names, feed) if n in kept}
                    write(d if k == 0 else os.path.join(d, f"size{k}"), s, args, exact[k])
                open(os.path.join(d, "tolerance"), "w").write("largest 1e-4")
                return f"ok {family}-{name} {title} {how} {'+'.join(sizes)}"
            except Exception as e:
                why.append(f"{how} {sizes}: {type(e).__name__} {str(e)[:150]}".replace("\n", " "))
    shutil.rmtree(d, ignore_errors=True)
    return f"none {family}-{name} {title} " + " | ".join(why[-3:])


def forked(limit, f, *args):
    """Runs f in a process of its own, which may crash or take too long, and prints what it returns."""
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            out = os.dup(1)
            os.dup2(null, 1), os.dup2(null, 2)
            line = f(*args)
        except BaseException as e:
            line = f"none {args[0]}-{args[1]} {type(e).__name__} " + str(e)[:300].replace("\n", " ")
        os.write(out, (line + "\n").encode())
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        print(f"none {args[0]}-{args[1]} ended with {status}", flush=True)


p = argparse.ArgumentParser()
p.add_argument("dir")
p.add_argument("families", nargs="*", default=[])
p.add_argument("--seed", type=int, default=1)
p.add_argument("--count", type=int, default=20, help="how many of each family")
p.add_argument("--skip", type=int, default=0)
p.add_argument("--only", default="")
p.add_argument("--limit", type=int, default=60, help="seconds of the processor for each")
a = p.parse_args()
known = quoted()
for family in a.families or FAMILIES:
    rng = random.Random(a.seed)
    drawn = []
    for item in FAMILIES[family](rng, known):
        drawn.append(item)
        if family == "ops" and len(drawn) >= a.skip + a.count:
            break
    if family != "ops":
        rng.shuffle(drawn)
    for name, draw in drawn[a.skip : a.skip + a.count]:
        if re.search(a.only, name):
            forked(a.limit, make, family, name, draw, a.seed, a.dir)
