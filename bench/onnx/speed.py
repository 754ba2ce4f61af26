"""speed.py DIR: compares models with ONNX Runtime, which has its best settings for the cpu.

DIR is a folder that models.py wrote. For each model the script measures, in turns: runs of the artifact through package
rlx and of the session; the time of rlxc and of creating the session with all optimizations; the peak memory of rlxc and
of a process that creates the session, less that of Python itself. It needs bin/rlxc, bin/rlx-backend-cpu and bin/onnx.

Results are kept in a file, so that a run continues where the last one ended; --again measures models anew. --table
prints the table of docs/onnx.md. Ratios are ONNX Runtime's time divided by ours.
"""

import argparse, json, math, os, re, resource, statistics, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(HERE, "..", "..", "bin")
PAUSE = 0.2  # seconds; see runs
parser = argparse.ArgumentParser()
parser.add_argument("dir")
parser.add_argument("--only", default="", help="a regular expression for names")
parser.add_argument("--again", action="store_true", help="measure models that have results, too")
parser.add_argument("--results", default="out/onnx-speed.json")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--compiles", type=int, default=3)
parser.add_argument("--best", action="store_true", help="compare the shortest runs, for a machine that others use")
parser.add_argument("--table", action="store_true", help="print a table of all results and measure nothing")
parser.add_argument("--session", action="store_true", help=argparse.SUPPRESS)
parser.add_argument("--runs", action="store_true", help=argparse.SUPPRESS)
args = parser.parse_args()


def session(model):
    import onnxruntime as ort

    o = ort.SessionOptions()
    o.intra_op_num_threads = args.threads
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    return ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def creation(model):
    """In a process of its own: the seconds and the memory in MiB that creating a session takes."""
    import numpy  # noqa: F401, which is no part of ONNX Runtime

    before = peak()
    import onnxruntime  # noqa: F401, before the clock starts

    start = time.perf_counter()
    session(model)
    print(json.dumps([time.perf_counter() - start, peak() - before]))


def runs(folder):
    """In a process of its own: medians and minima of runs, in turns, in seconds, as (ours, theirs, our
    minimum, their minimum) of each round."""
    import onnx
    from onnx import numpy_helper

    names, feeds = [], {}
    s = session(os.path.join(folder, "model.onnx"))
    for i in range(len(os.listdir(folder))):
        path = os.path.join(folder, "input_%d.pb" % i)
        if os.path.exists(path):
            t = onnx.TensorProto()
            t.ParseFromString(open(path, "rb").read())
            names.append(t.name)
            feeds[t.name] = numpy_helper.to_array(t)
    feeds = {x.name: feeds[x.name] for x in s.get_inputs()}
    peer = subprocess.Popen([os.path.join(BIN, "onnx"), "-threads", str(args.threads), "-serve", args.results + ".rlx",
                             folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    # The threads of both wait actively for some time after a run, those of ONNX Runtime for 60 ms. Without a pause, a
    # turn would begin while the other's threads use the processors. The first run of a turn finds cold caches and is
    # left out.
    def ours(n):
        time.sleep(PAUSE)
        peer.stdin.write("%d\n" % (n + 1))
        peer.stdin.flush()
        return [float(x) for x in peer.stdout.readline().split()][1:]

    def theirs(n):
        time.sleep(PAUSE)
        out = []
        for _ in range(n + 1):
            start = time.perf_counter()
            s.run(None, feeds)
            out.append(time.perf_counter() - start)
        return out[1:]

    a, b = min(ours(3)), min(theirs(3))
    counts = [max(1, min(200, int(0.05 / x))) for x in (a, b)]
    print(json.dumps([[f(t) for f in (statistics.median, min) for t in turn]
                      for turn in ((ours(counts[0]), theirs(counts[1])) for _ in range(args.rounds))]))
    peer.stdin.close()
    if peer.wait():
        sys.exit("the artifact did not run")


def child(flag, path):
    line = [sys.executable, os.path.abspath(__file__), path, flag, "--threads", str(args.threads), "--rounds",
            str(args.rounds), "--results", args.results]
    return json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def compiled(folder, sizes):
    """The seconds and the MiB of a run of rlxc."""
    artifact = args.results + ".rlx"
    if os.path.exists(artifact):
        os.remove(artifact)
    line = [os.path.join(BIN, "rlxc"), os.path.join(folder, "model.onnx"), "-o", artifact, "--target", "cpu"]
    for s in sizes:
        line += ["--size", s]
    start = time.perf_counter()
    p = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    err = p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    if status:
        raise RuntimeError(err.strip().splitlines()[-1] if err.strip() else "rlxc failed")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def measure(folder):
    sizes = subprocess.run([os.path.join(BIN, "onnx"), "-ranges", folder], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.split()
    mine, other = [], []
    for _ in range(args.compiles):
        mine.append(compiled(folder, sizes))
        other.append(child("--session", os.path.join(folder, "model.onnx")))
    rounds = child("--runs", folder)
    middle = lambda rows, k: statistics.median(r[k] for r in rows)
    return {"ours": middle(rounds, 0), "theirs": middle(rounds, 1),
            "ratio": statistics.median(r[1] / r[0] for r in rounds),
            "best": [min(r[2] for r in rounds), min(r[3] for r in rounds)], "compile": middle(mine, 0),
            "session": middle(other, 0), "memory": middle(mine, 1), "their_memory": middle(other, 1)}


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def table(results):
    done = {k: v for k, v in results.items() if "ratio" in v and re.search(args.only, k)}
    if args.best:
        for v in done.values():
            v["ours"], v["theirs"] = v["best"]
            v["ratio"] = v["theirs"] / v["ours"]
    print("| model | ms | ONNX Runtime, ms | ratio | compile, s | session, s | MiB | session, MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for k in sorted(done, key=lambda k: done[k]["ratio"]):
        v = done[k]
        print("| %s | %.3g | %.3g | %.2f | %.2f | %.2f | %.0f | %.0f |" % (
            k, v["ours"] * 1e3, v["theirs"] * 1e3, v["ratio"], v["compile"], v["session"], v["memory"],
            v["their_memory"]))
    ratios = [v["ratio"] for v in done.values()]
    if ratios:
        print("\n%d models: geometric mean %.2f, worst %.2f, %d below 0.9; compile time %.2f times, worst %.2f; "
              "memory %.2f times, worst %.2f" % (
                  len(ratios), mean(ratios), min(ratios), sum(r < 0.9 for r in ratios),
                  mean([v["compile"] / v["session"] for v in done.values()]),
                  max(v["compile"] / v["session"] for v in done.values()),
                  mean([v["memory"] / max(v["their_memory"], 1) for v in done.values()]),
                  max(v["memory"] / max(v["their_memory"], 1) for v in done.values())))
    for k, v in results.items():
        if "error" in v:
            print("%s: %s" % (k, v["error"]))


def main():
    results = {}
    if os.path.exists(args.results):
        results = json.load(open(args.results))
    if args.table:
        return table(results)
    for name in sorted(os.listdir(args.dir)):
        folder = os.path.join(args.dir, name)
        if not os.path.exists(os.path.join(folder, "model.onnx")) or not re.search(args.only, name):
            continue
        if "ratio" in results.get(name, {}) and not args.again:
            continue
        try:
            v = results[name] = measure(folder)
            print("%-40s %8.3f ms %8.3f ms  ratio %.2f  compile %.2f s %.2f s  memory %.0f MiB %.0f MiB" % (
                name, v["ours"] * 1e3, v["theirs"] * 1e3, v["ratio"], v["compile"], v["session"], v["memory"],
                v["their_memory"]), flush=True)
        except Exception as e:
            results[name] = {"error": str(e)}
            print(name, e, flush=True)
        with open(args.results + ".new", "w") as f:
            json.dump(results, f, indent=1, sort_keys=True)
        os.replace(args.results + ".new", args.results)
    table(results)


if args.session:
    creation(args.dir)
elif args.runs:
    runs(args.dir)
else:
    main()
