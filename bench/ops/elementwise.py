import torch

from peer import case, into, op, rand

aten = torch.ops.aten
# SAM ViT-B's residual stream and its MLP, and the MLP of a language model of 2048.
shapes = (4096, 768), (4096, 3072), (512, 5632)

unary = {"abs": torch.abs, "neg": torch.neg, "ceil": torch.ceil, "floor": torch.floor, "round": torch.round, "relu": aten.clamp_min.out,
         "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
         "atan": torch.atan, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": aten.silu.out, "gelu": aten.gelu.out, "erf": torch.erf}


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


binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum, "min": torch.minimum, "pow": torch.pow,
          "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}


@op(*binary)
def arithmetic():
    for name, f in binary.items():
        for shape, other in ((4096, 768), (4096, 768)), ((4096, 3072), (3072,)):
            x, y = rand(*shape), rand(*other)
            x = x.abs() if name == "pow" else x
            yield case(name + " x, y", into(f, x, y), x=x, y=y)


@op("where")
def where():
    for c, a, b in ((4096, 768), (4096, 768), (4096, 768)), ((1, 1, 512, 512), (1, 16, 512, 512), ()):
        c, a, b = rand(*c) > 0, rand(*a), rand(*b)
        yield case("where c, a, b", into(torch.where, c, a, b), c=c, a=a, b=b)


@op("cast")
def cast():
    for src, to in (torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.float32, torch.float16), (torch.float16, torch.float32), \
            (torch.int32, torch.float32), (torch.float32, torch.int32):
        x = (rand(4096, 768) * 100).to(src)
        out = torch.empty_like(x, dtype=to)
        name = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int32: "i32"}[to]
        yield case("cast x {to=%s}" % name, lambda: out.copy_(x), x=x)


@op("elementwise_region")
def regions():
    x, y, b = rand(4096, 768), rand(4096, 768), rand(768)
    yield case('elementwise_region x, y, b {expr="v0=add(i0,i2); v1=gelu(v0); v2=mul(v1,i1)"}', lambda: torch.nn.functional.gelu(x + b) * y, x=x, y=y, b=b)
    x, y = rand(512, 5632), rand(512, 5632)
    yield case('elementwise_region x, y {expr="v0=silu(i0); v1=mul(v0,i1)"}', lambda: torch.nn.functional.silu(x) * y, x=x, y=y)
