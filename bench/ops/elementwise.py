import torch

from peer import case, into, op, rand

aten = torch.ops.aten
# SAM ViT-B's residual stream and its MLP, and the MLP of a language model of width 2048.
shapes = (4096, 768), (4096, 3072), (512, 5632)

unary = {"abs": torch.abs, "neg": torch.neg, "ceil": torch.ceil, "floor": torch.floor, "round": torch.round,
         "relu": aten.clamp_min.out,
         "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "sin": torch.sin,
         "cos": torch.cos, "tan": torch.tan,
         "atan": torch.atan, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": aten.silu.out, "gelu": aten.gelu.out,
         "erf": torch.erf}


@op(*unary, "gelu_tanh")
def functions():
    for name, f in unary.items():
        for shape in shapes[:2]:
            x = rand(*shape)
            if name in ("log", "sqrt", "rsqrt"):
                x = x.abs()
            out = torch.empty_like(x)
            call = (lambda: f(x, 0, out=out)) if name == "relu" else lambda: f(x, out=out)
            yield case(name + " x", call, x=x)
    for shape in shapes[:2]:
        x = rand(*shape)
        out = torch.empty_like(x)
        yield case("gelu_tanh x", lambda: aten.gelu.out(x, approximate="tanh", out=out), x=x)


# Functions with attributes, which follow the name.
further = {"exp2 x": torch.exp2, "expm1 x": torch.expm1, "log2 x": torch.log2, "log1p x": torch.log1p,
           "reciprocal x": torch.reciprocal, "square x": torch.square,
           "sign x": torch.sign, "mish x": aten.mish.out, "hardswish x": aten.hardswish.out,
           "hardsigmoid x {alpha=0.16666666666666666, beta=0.5}": aten.hardsigmoid.out,
           "leaky_relu x {slope=0.01}": aten.leaky_relu.out, "elu x {alpha=1.0}": aten.elu.out,
           "softplus x {beta=1.0, threshold=20.0}": aten.softplus.out,
           "clamp x {max=1.0, min=-1.0}": aten.hardtanh.out}


@op(*(line.split()[0] for line in further), "selu", "celu")
def further_functions():
    for line, f in further.items():
        for shape in shapes[:2]:
            x = rand(*shape)
            x = x.abs() if line.startswith("log") else x
            out = torch.empty_like(x)
            yield case(line, lambda: f(x, out=out), x=x)
    x = rand(4096, 768)
    yield case("selu x", lambda: torch.selu(x), x=x)
    yield case("celu x {alpha=2.0}", lambda: torch.celu(x, 2.0), x=x)


@op("isnan", "isinf", "isfinite")
def properties():
    x = rand(4096, 768)
    for name in "isnan", "isinf", "isfinite":
        yield case(name + " x", lambda: getattr(torch, name)(x), x=x)


@op("and", "or", "xor", "not", "shift_left", "shift_right", "mod", "remainder")
def bits():
    for d in torch.int32, torch.bool:
        x, y = (rand(4096, 768) * 100).int(), (rand(4096, 768) * 100).int()
        if d == torch.bool:
            x, y = x > 0, y > 0
        for name, f in {"and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor}.items():
            yield case(name + " x, y", into(f, x, y), x=x, y=y)
        yield case("not x", lambda: torch.bitwise_not(x), x=x)
    x, y = (rand(4096, 768) * 100).int(), (rand(4096, 768).abs() * 9).int() + 1
    for name, f in {"shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
                    "mod": torch.remainder,
                    "remainder": torch.fmod}.items():
        yield case(name + " x, y", into(f, x, y), x=x, y=y)
    x, y = rand(4096, 768), rand(4096, 768).abs() + 0.1
    for name, f in {"mod": torch.remainder, "remainder": torch.fmod}.items():
        yield case(name + " x, y", into(f, x, y), x=x, y=y)


binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum,
          "min": torch.minimum, "pow": torch.pow,
          "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}


@op(*binary)
def arithmetic():
    for name, f in binary.items():
        for shape, other in ((4096, 768), (4096, 768)), ((4096, 3072), (3072,)):
            x, y = rand(*shape), rand(*other)
            x = x.abs() if name == "pow" else x
            yield case(name + " x, y", into(f, x, y), x=x, y=y)


@op("add", "mul", "gelu")
def halves():
    for d in torch.bfloat16, torch.float16:
        for shape, other in ((4096, 768), (4096, 768)), ((4096, 3072), (3072,)):
            x, y = rand(*shape, dtype=d), rand(*other, dtype=d)
            # Both sides round an f32 result, so if it lies between two values, they may differ by an ulp.
            for name, f in {"add": torch.add, "mul": torch.mul}.items():
                yield case(name + " x, y", into(f, x, y), tol=0.01, x=x, y=y)
        out = torch.empty_like(x)
        yield case("gelu x", lambda: aten.gelu.out(x, out=out), tol=0.01, x=x)


@op("where")
def where():
    for c, a, b in ((4096, 768), (4096, 768), (4096, 768)), ((1, 1, 512, 512), (1, 16, 512, 512), ()):
        c, a, b = rand(*c) > 0, rand(*a), rand(*b)
        yield case("where c, a, b", into(torch.where, c, a, b), c=c, a=a, b=b)


@op("cast")
def cast():
    for src, to in (torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.float32,
        torch.float16), (torch.float16, torch.float32), \
            (torch.int32, torch.float32), (torch.float32, torch.int32):
        x = (rand(4096, 768) * 100).to(src)
        out = torch.empty_like(x, dtype=to)
        name = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int32: "i32"}[to]
        yield case("cast x {to=%s}" % name, lambda: out.copy_(x), x=x)


@op("elementwise_region")
def regions():
    x, y, b = rand(4096, 768), rand(4096, 768), rand(768)
    yield case('elementwise_region x, y, b {expr="v0=add(i0,i2); v1=gelu(v0); v2=mul(v1,i1)"}',
               lambda: torch.nn.functional.gelu(x + b) * y, x=x, y=y, b=b)
    x, y = rand(512, 5632), rand(512, 5632)
    yield case('elementwise_region x, y {expr="v0=silu(i0); v1=mul(v0,i1)"}', lambda: torch.nn.functional.silu(x) * y,
               x=x, y=y)
