"""The table that run.py prints and writes as a page."""
import math

# Ops without any work to time.
UNMEASURED = {
    "input": "a value of the caller", "param": "a weight", "state": "a value of earlier runs",
              "result": "part of the op before it",
    "reshape": "always a view", "const": "computed when the model is compiled",
              "iota": "computed when the model is compiled",
    "window": "computed when the model is compiled",
}
MEAN, LEAST = 1.3, 0.7  # our goals for the geometric mean over all ops, and for each op


def geomean(x):
    return math.exp(sum(map(math.log, x)) / len(x))


def share(row, peaks):
    """The larger of two shares: that of the bytes moved in the copy bandwidth, and that of the arithmetic in the peak
    of multiply-adds."""
    moved = row["bytes"] / row["ours"] / peaks["copy_gb_per_s"]
    done = row["flops"] / row["ours"] / peaks["fma_gflop_per_s"] if peaks["fma_gflop_per_s"] else 0
    return "%.0f %% of %s" % (100 * max(moved, done), "copy" if moved >= done else "FMA")


def duration(ns):
    return "%.2f ms" % (ns / 1e6) if ns >= 1e5 else "%.1f us" % (ns / 1e3)


def by(row):
    """The ops that replace this one if it has no kernel."""
    return "" if row["op"] in row["steps"] else "as " + ", ".join(row["steps"])


def line(row, peaks):
    head = "%-26s %-50s" % (row["op"], row["shape"])
    if "ratio" not in row:
        return head + " " + row["problem"]
    return "%s %10s %10s  %5.2f  %-15s %s %s" % (head, duration(row["ours"]), duration(row["theirs"]), row["ratio"],
        share(row, peaks), by(row), row["problem"])


def ops(rows):
    """The geometric mean over the shapes of each op."""
    out = {}
    for r in rows:
        if "ratio" in r:
            out.setdefault(r["op"], []).append(r["ratio"])
    return {op: geomean(v) for op, v in out.items()}


def summary(rows):
    means = ops(rows)
    if not means:
        return "nothing was timed"
    text = "The geometric mean over %d ops is %.2f (we aim for %.1f)." % (len(means), geomean(means.values()), MEAN)
    slow = sorted((v, k) for k, v in means.items() if v < LEAST)
    if slow:
        text += " %d %s below %.1f: %s." % (len(slow), "is" if len(slow) == 1 else "are", LEAST,
                                            ", ".join("%s %.2f" % (k, v) for v, k in slow))
    else:
        v, k = min((v, k) for k, v in means.items())
        text += " No op is below %.1f in the mean of its rows; the slowest is %s with %.2f." % (LEAST, k, v)
    rows = sorted((r["ratio"], r["op"]) for r in rows if r.get("ratio", LEAST) < LEAST)
    if rows:
        text += " Of single rows, these are below it: %s." % ", ".join("%s %.2f" % (k, v) for v, k in rows)
    return text


def overview(rows):
    """A table that counts ops by their ratio, and names those that are slower than the peer's."""
    means = ops(rows)
    edges = [2, MEAN, 1, LEAST, 0]
    names = ["%g and more" % edges[0]] + ["%g to %g" % (low, high) for high, low in zip(edges, edges[1:-1])]
    lines = ["| ratio | ops | those below 1 |", "|---|---|---|"]
    for name, low, high in zip(names + ["below %g" % LEAST], edges, [math.inf] + edges):
        group = sorted((v, k) for k, v in means.items() if low <= v < high)
        listed = ", ".join("%s %.2f" % (k, v) for v, k in group) if high <= 1 else ""
        lines.append("| %s | %d | %s |" % (name, len(group), listed))
    return lines


def page(rows, peaks, missing, what, torch):
    lines = ["# Speed of single ops", "",
             "`make bench-ops` made this page; do not edit it. bench/ops/README.md explains how it measures.", "",
             "A ratio is the time of PyTorch, or of another peer where a row says so, divided by the time of RLX. The ratio "
             "of an op\nis the geometric mean of the ratios of its rows.", "", *overview(rows), "", summary(rows), "",
             "%s, %s, %s; %.0f GB/s copied (read and written), %.0f GFLOP/s of f32 multiply-adds; PyTorch %s, eager; %s." % (
                 peaks["processor"], "one thread" if peaks["threads"] == 1 else "%d threads" % peaks["threads"],
                 peaks["features"], peaks["copy_gb_per_s"], peaks["fma_gflop_per_s"], torch, what),
             "Above a ratio of 1, RLX is faster. *Share of the machine* is the larger of two: bytes moved, as a share of the\ncopy bandwidth, or arithmetic, as a share of the multiply-add peak.",
             "",
             "| op | operands | ours | peer | ratio | share of the machine | |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        if "ratio" in r:
            peer = duration(r["theirs"]) + ("" if r["peer"] == "torch" else " (%s)" % r["peer"])
            note = "; ".join(filter(None, [by(r), r["problem"]]))
            lines.append("| %s | `%s` | %s | %s | %.2f | %s | %s |" % (r["op"], r["shape"], duration(r["ours"]), peer,
                r["ratio"], share(r, peaks), note))
    lines += ["", "Not timed: " + "; ".join("%s (%s)" % kv for kv in sorted(UNMEASURED.items())) + "."]
    if missing:
        lines += ["", "Without an entry yet: " + ", ".join(missing) + "."]
    return "\n".join(lines) + "\n"
