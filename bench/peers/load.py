"""Measures, with /proc, time and memory of a run, and the share of the machine that other processes use meanwhile."""

import os
import time

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """Processor time of all threads of a process."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def busy_seconds():
    """Processor time of all processes, including time that the hypervisor gave to others."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def peak_rss(pid):
    """Peak resident memory in bytes, including mapped files."""
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/status has no VmHWM")


def between(a, b):
    """The figures of a run, from two samples of (time, processor time of the process, processor time of all
    processes)."""
    wall, own, all_ = (y - x for x, y in zip(a, b))
    return {
        "wall_s": wall,
        "cpu_s": own,
        # share of the machine that other processes used
        "others": max(0.0, all_ - own) / (wall * os.cpu_count()) if wall else 0.0,
    }


def sample(*pids):
    return time.monotonic(), sum(cpu_seconds(p) for p in pids), busy_seconds()


class Usage:
    """Usage(pid) starts a measurement; since() ends it."""

    def __init__(self, pid):
        self.pid = pid
        self.start = sample(pid)

    def since(self):
        return between(self.start, sample(self.pid))
