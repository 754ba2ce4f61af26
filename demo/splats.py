"""Writes a scene of Gaussian splats, a knot above a checkered floor, as a PLY file: python demo/splats.py scene.ply.
It needs nothing but Python. y points down, as in the files of 3D Gaussian splatting."""
import math
import random
import struct
import sys

C0 = 0.28209479
random.seed(3)
rows = []


def splat(position, scale, rotation, opacity, color, shine=0.0):
    rest = [0.0] * 9  # degree 1: for red, then green, then blue, the functions -y, z, -x
    for c in range(3):
        rest[3 * c] = shine
    rows.append([*position, *((x - 0.5) / C0 for x in color), *rest, math.log(opacity / (1 - opacity)),
                 *(math.log(s) for s in scale), *rotation])


def knot(t):
    r = 1 + 0.42 * math.cos(3 * t)
    return r * math.cos(2 * t), 0.42 * math.sin(3 * t), r * math.sin(2 * t)


for i in range(40000):
    t = 2 * math.pi * random.random()
    a, b = knot(t), knot(t + 1e-3)
    along = [y - x for x, y in zip(a, b)]
    n = math.sqrt(sum(x * x for x in along))
    x, y, z = (v / n for v in along)
    away = [random.gauss(0, 1) for _ in range(3)]
    dot = away[0] * x + away[1] * y + away[2] * z
    away = [v - dot * w for v, w in zip(away, (x, y, z))]
    n = math.sqrt(sum(v * v for v in away))
    away = [0.17 * v / n for v in away]
    # the turn from the x axis to the direction of the knot
    w = [1 + x, 0, -z, y]
    n = math.sqrt(sum(v * v for v in w)) or 1
    light = 0.55 - 0.45 * away[1] / 0.17
    color = [light * (0.5 + 0.5 * math.cos(2 * t + p)) + 0.1 for p in (0, 2.1, 4.2)]
    splat([p + q for p, q in zip(a, away)], (0.03, 0.009, 0.009), [v / n for v in w], 0.9, color, 0.08)

for i in range(30000):
    x, z = random.uniform(-2.6, 2.6), random.uniform(-2.6, 2.6)
    dark = (math.floor(x * 1.5) + math.floor(z * 1.5)) % 2
    near = min((x - u) ** 2 + (z - v) ** 2 for u, _, v in (knot(k / 20) for k in range(0, 126, 3)))
    shade = 1 - 0.5 * math.exp(-near / 0.08)
    color = [shade * c for c in ((0.25, 0.27, 0.33) if dark else (0.85, 0.83, 0.78))]
    splat((x, 0.85, z), (0.022, 0.004, 0.022), (1, 0, 0, 0), 0.95, color)

names = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", *("f_rest_%d" % k for k in range(9)), "opacity", "scale_0",
         "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]
with open(sys.argv[1], "wb") as f:
    head = ["ply", "format binary_little_endian 1.0", "element vertex %d" % len(rows)]
    f.write(("\n".join(head + ["property float " + n for n in names] + ["end_header"]) + "\n").encode())
    for row in rows:
        f.write(struct.pack("<%df" % len(names), *row))
