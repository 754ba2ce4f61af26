"""The formula of the tensors in golden cases; testdata/goldens/README.md describes it."""

import math
import pathlib

import numpy as np

GOLDENS = pathlib.Path(__file__).parents[2] / "testdata" / "goldens"


def splitmix(seed, n):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def synth(e):
    """The tensor of a manifest's entry."""
    h = 0xCBF29CE484222325
    for b in e["name"].encode():
        h = (h ^ b) * 0x100000001B3 % 2**64
    u = (splitmix(h, math.prod(e["shape"])) >> np.uint64(40)).astype(np.float64) / 2**24
    return (e["shift"] + e["scale"] * (2 * u - 1)).astype(np.float32).reshape(e["shape"])
