"""Measures memory and clock of a GPU with NVML, and its peak rate of matrix products."""

import ctypes
import statistics
import threading
import time


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Gpu:
    """The first GPU. Without NVML, used and clock return None."""

    def __init__(self):
        self.handle = ctypes.c_void_p()
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)):
                self.nvml = None
        except OSError:
            self.nvml = None

    def used(self):
        """Bytes of GPU memory in use by all processes."""
        memory = Memory()
        if self.nvml is None or self.nvml.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(memory)):
            return None
        return memory.used

    def clock(self):
        """Clock of the multiprocessors in MHz."""
        mhz = ctypes.c_uint()
        if self.nvml is None or self.nvml.nvmlDeviceGetClockInfo(self.handle, 1, ctypes.byref(mhz)):
            return None
        return mhz.value


class Watch(threading.Thread):
    """Samples memory and clock of a GPU until ended is set."""

    def __init__(self, gpu):
        super().__init__(daemon=True)
        self.gpu, self.memory, self.clocks, self.ended = gpu, [], [], threading.Event()
        self.start()

    def run(self):
        while not self.ended.is_set():
            self.memory.append(self.gpu.used())
            self.clocks.append(self.gpu.clock())
            self.ended.wait(0.05)

    def end(self):
        """The peak memory in use and the median clock, each None if unknown."""
        self.ended.set()
        self.join()
        memory, clocks = ([x for x in xs if x is not None] for xs in (self.memory, self.clocks))
        return max(memory, default=None), statistics.median(clocks) if clocks else None


def peak(device, size=4096, seconds=1.0):
    """The best rate of many products of square matrices in f32 by PyTorch, in GFLOP/s. On a GPU, PyTorch uses cuBLAS,
    with TF32 off."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.rand(size, size, device=device) - 0.5 for _ in range(2))
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    best, until = 0.0, time.monotonic() + seconds
    while time.monotonic() < until or best == 0:
        wait()
        begin = time.monotonic()
        for _ in range(4):
            torch.mm(a, b)
        wait()
        best = max(best, 4 * 2 * size**3 / (time.monotonic() - begin))
    return best / 1e9
