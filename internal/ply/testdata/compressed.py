"""Writes NAME.compressed.ply and NAME.ply, the same splats before and after PlayCanvas' splat-transform unpacks them:

    npm install @playcanvas/splat-transform && PATH=$PATH:node_modules/.bin python3 internal/ply/testdata/compressed.py
"""
import math
import os
import pathlib
import random
import struct
import subprocess
import tempfile

here = pathlib.Path(__file__).parent
random.seed(8)
for name, rest, count in [("plain", 0, 300), ("harmonics", 9, 261)]:
    names = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", *("f_rest_%d" % k for k in range(rest)), "opacity",
             "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]
    head = ["ply", "format binary_little_endian 1.0", "element vertex %d" % count]
    head += ["property float " + n for n in names] + ["end_header"]
    data = ("\n".join(head) + "\n").encode()
    for _ in range(count):
        row = [random.gauss(0, 1) for _ in names]
        row[6 + rest] *= 4  # opacity
        for k in range(3):
            row[7 + rest + k] -= 4
        n = math.sqrt(sum(x * x for x in row[-4:]))
        row[-4:] = [x / n for x in row[-4:]]
        data += struct.pack("<%df" % len(row), *row)
    with tempfile.TemporaryDirectory() as d:
        source = os.path.join(d, "source.ply")
        pathlib.Path(source).write_bytes(data)
        packed, plain = here / (name + ".compressed.ply"), here / (name + ".ply")
        subprocess.run(["splat-transform", "-w", source, str(packed)], check=True)
        subprocess.run(["splat-transform", "-w", str(packed), str(plain)], check=True)
