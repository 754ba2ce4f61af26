"""Time of a call of a method from Python, without what the method computes: its graph negates 16 numbers.

    make build && PYTHONPATH=python/src RLX_BIN=bin python bench/python/call.py [CALLS]

Prints the minimum, the median and the 90th percentile in microseconds.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import rlx
from rlx._programs import program

GRAPH = "graph f\nx = input : f32[16]\ny = neg x : f32[16]\nreturn y=y\n"


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    with tempfile.TemporaryDirectory() as folder:
        text, model = Path(folder, "f.txt"), Path(folder, "f.rlx")
        text.write_text(GRAPH)
        subprocess.run([program("rlxc"), text, "-o", model, "--target", "cpu", "--quiet"], check=True)
        x = np.arange(16, dtype=np.float32)
        times = []
        with rlx.load(model) as m:
            for _ in range(calls + 100):
                start = time.perf_counter()
                y = m.f(x=x)
                times.append((time.perf_counter() - start) * 1e6)
        assert np.array_equal(y if isinstance(y, np.ndarray) else y["y"], -x)
    times = np.array(times[100:])  # the first ones load the method
    print(f"{calls} calls: minimum {times.min():.0f} us, median {np.median(times):.0f} us, "
          f"90th percentile {np.percentile(times, 90):.0f} us")


main()
