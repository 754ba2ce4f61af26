"""Writes the table and the JSON of a comparison."""

import json
import os
import platform
import statistics

import model


def cpu_name():
    with open("/proc/cpuinfo") as f:
        return next((l.split(":")[1].strip() for l in f if l.startswith("model name")), platform.machine())


def best(peaks, key):
    """The highest peak of the rounds, because disturbances only lower it."""
    return max((p[key] for p in peaks), default=None)


def median_of(runs, key):
    values = [r[key] for r in runs if r.get(key) is not None]
    return statistics.median(values) if values else None


def most_of(rounds, key):
    return max((x[key] for x in rounds if x.get(key) is not None), default=None)


def summary(a, results):
    """One row per implementation. Times are medians over all timed runs, and ratios are ratios of medians."""
    rows = []
    for name, rounds in results.items():
        runs = [r for x in rounds for r in x["runs"]]
        wall = [r["wall_s"] for r in runs]
        cpu = [r["cpu_s"] / a.threads for r in runs if "cpu_s" in r]
        rows.append({
            "name": name, "version": rounds[-1]["version"], "runs": len(runs),
            "wall_s": statistics.median(wall), "wall_min_s": min(wall), "wall_max_s": max(wall),
            "cpu_s": statistics.median(cpu) if cpu else None, "cpu_min_s": min(cpu, default=None),
                     "cpu_max_s": max(cpu, default=None),
            "device_s": median_of(runs, "device_s"),
            "first_s": statistics.median(x["first_s"] for x in rounds),
            "load_s": statistics.median(x["load_s"] for x in rounds),
            "others": median_of(runs, "others"),
            "peak_rss_bytes": most_of(rounds, "peak_rss_bytes"),
            "gpu_bytes": most_of(rounds, "gpu_bytes"),
            "clock_mhz": median_of(rounds, "clock_mhz"),
            "error": most_of(rounds, "error"),
        })
    return rows


def by_round(results, name):
    """The ratio of a peer's median to RLX's, for each round."""
    def medians(rounds):
        out = {}
        for x in rounds:
            out.setdefault(x["round"], []).extend(r["wall_s"] for r in x["runs"])
        return {i: statistics.median(walls) for i, walls in out.items()}

    own, other = medians(results.get("rlx", [])), medians(results[name])
    return [other[i] / own[i] for i in sorted(own) if i in other]


def cell(value, form):
    return "" if value is None else form.format(value)


def cpu_table(a, peaks, rows):
    peak, own = best(peaks, "fma_gflop_per_s"), next((r for r in rows if r["name"] == "rlx"), None)
    flop = model.flop(a.model)
    floor = flop / peak / 1e9 if flop else None
    lines = [
        f"{a.model}, {cpu_name()}, {os.cpu_count()} processors, {a.threads} threads, {a.precision}, {len(peaks)} rounds; FMA peak {peak:.0f} GFLOP/s "
        f"(the best of the rounds; the least {min(p['fma_gflop_per_s'] for p in peaks):.0f}){cell(floor, ', floor {:.2f} s')}; "
        f"copying {best(peaks, 'copy_gb_per_s'):.0f} GB/s.",
        "",
        "| implementation | runs | wall, median (range) | processor time / threads, median (range) | share of peak (by processor time) | over ours, wall | over ours, processor time | first run | peak memory | largest error | busy with others |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        ratio = [f"{r[k] / own[k]:.2f}" if own and own[k] else "" for k in ("wall_s", "cpu_s")]
        lines.append(
            f"| {r['name']} {r['version']} | {r['runs']} | {r['wall_s']:.2f} s ({r['wall_min_s']:.2f} to {r['wall_max_s']:.2f}) "
            f"| {r['cpu_s']:.2f} s ({r['cpu_min_s']:.2f} to {r['cpu_max_s']:.2f}) | {cell(floor and 100 * floor / r['cpu_s'], '{:.0f} %')} | {ratio[0]} | {ratio[1]} "
            f"| {r['first_s']:.1f} s | {r['peak_rss_bytes'] / 1e6:.0f} MB | {cell(r['error'], '{:.1e}')} | {100 * r['others']:.0f} % |")
    return lines


def gpu_table(a, peaks, rows, results):
    peak, own = best(peaks, "gflop_per_s"), next((r for r in rows if r["name"] == "rlx"), None)
    flop = model.flop(a.model)
    lines = [
        f"{a.model}, {a.backend}, {a.precision}, {a.rounds} rounds; each is the peers, ours, the peers again. Wall: image in host memory to results in "
        f"host memory." + (f" Products of 4096 x 4096 in f32 by PyTorch: {peak / 1e3:.1f} TFLOP/s." if peak else ""),
        "",
        "| implementation | runs | wall, median (range) | of it on the device | share of the products' rate | over ours | over ours, by round | first run | load | GPU memory | GPU clock | largest error |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        share = flop / r["wall_s"] / peak / 1e9 if peak and flop else None
        ratios = by_round(results, r["name"])
        lines.append(
            f"| {r['name']} {r['version']} | {r['runs']} | {1e3 * r['wall_s']:.2f} ms ({1e3 * r['wall_min_s']:.2f} to {1e3 * r['wall_max_s']:.2f}) "
            f"| {cell(r['device_s'] and 1e3 * r['device_s'], '{:.2f} ms')} | {cell(share and 100 * share, '{:.0f} %')} | {cell(own and r['wall_s'] / own['wall_s'], '{:.2f}')} "
            f"| {f'{min(ratios):.2f} to {max(ratios):.2f}' if ratios else ''} | {1e3 * r['first_s']:.0f} ms | {r['load_s']:.2f} s "
            f"| {cell(r['gpu_bytes'] and r['gpu_bytes'] / 1e6, '{:.0f} MB')} | {cell(r['clock_mhz'], '{:.0f} MHz')} | {cell(r['error'], '{:.1e}')} |")
    return lines


def write(a, peaks, results):
    """Writes the files named by --markdown and --json, and returns the table."""
    rows = summary(a, results)
    lines = cpu_table(a, peaks, rows) if a.backend == "cpu" else gpu_table(a, peaks, rows, results)
    text = "\n".join(lines) + "\n"
    if a.markdown:
        with open(a.markdown, "w") as f:
            f.write(text)
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"model": a.model, "backend": a.backend, "cpu": cpu_name(), "threads": a.threads,
                       "precision": a.precision, "peaks": peaks,
                       "summary": rows, "rounds": results}, f, indent=1)
    return text
