import torch
import torch.nn.functional as F

from peer import case, op, rand

# the gate of an MLP, which backends without a kernel of that name run as the ops of its meaning
GATE = """graph acme.gate
sym N = 0..65536
sym M = 1..65536
u = input : f32[N,M]
g = input : f32[N,M]
a = silu g : f32[N,M]
y = mul u, a : f32[N,M]
return y=y
"""


@op("custom")
def custom():
    for shape in (512, 5632), (4096, 768):
        u, g, out = rand(*shape), rand(*shape), torch.empty(shape)
        yield case('custom u, g {expansion=@acme.gate, name="acme.gate"}', lambda: torch.mul(u, F.silu(g), out=out),
                   graphs=GATE, u=u, g=g)
