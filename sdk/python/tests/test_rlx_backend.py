"""Tests that need no host. `go test ./sdk/python` runs these, and the conformance suite on the example."""

import pathlib
import socket
import struct
import threading

import numpy as np
import pytest

from rlx_backend import Backend, BadInput, Cancelled, Device, Refused, Unsupported, dims, messages, msgpack
from rlx_backend.program import Program
from rlx_backend.rules import Rule
from rlx_backend.run import Executable, Execution, check_header
from rlx_backend.service import Service


def pack(v):
    """Encodes small values as msgpack."""
    if isinstance(v, bool):
        return b"\xc3" if v else b"\xc2"
    if isinstance(v, int):
        return bytes([v]) if 0 <= v < 128 else b"\xff" if v == -1 else b"\xcd" + struct.pack(">H", v)
    if isinstance(v, float):
        return b"\xcb" + struct.pack(">d", v)
    if isinstance(v, str):
        return bytes([0xA0 | len(v)]) + v.encode()
    if isinstance(v, list):
        return bytes([0x90 | len(v)]) + b"".join(map(pack, v))
    return bytes([0x80 | len(v)]) + b"".join(pack(k) + pack(x) for k, x in sorted(v.items()))


def document(size=32, shape=("N", 4)):
    """The program y = neg x for N rows of 4."""
    node = lambda op, inputs, name: {"attrs": [], "dtype": "f32", "in": inputs, "name": name, "op": op, "optional": [],
                                     "shape": list(shape)}
    return {"graph": {"method": "f", "nesting": 0, "nodes": [node("input", [], "x"), node("neg", [0], "y")],
                      "outputs": [["y", 1]], "reference": [], "rewritten": [],
                      "syms": [["N", 1, 2]], "target": "t"},
            "plan": {"arena": 0, "io": 512, "places": [[2, 0, size, -1], [2, 256, size, -1]], "state": 0},
            "sched": {"queues": 1, "steps": [1]}}


@pytest.mark.parametrize("text,sizes,want",
                         [("2*N+3", {"N": 4}, 11), ("(N+7)/8", {"N": 9}, 2), ("-N+8", {"N": 3}, 5),
                          ("B*S", {"B": 3, "S": 5}, 15),
                                             ("(-N+1)/2", {"N": 4}, -2), ("2*(N/8)+1", {"N": 17}, 5), (7, {}, 7)])
def test_dims(text, sizes, want):
    assert dims.parse(text)(sizes) == want


@pytest.mark.parametrize("text", ["", "N+", "2 * N", "(N", "N)", "N//2", "*N", "N N"])
def test_bad_dims(text):
    with pytest.raises(ValueError):
        dims.parse(text)


def test_msgpack():
    v = {"a": [1, -1, 300, 2.5, True, "text"], "b": {}}
    assert msgpack.decode(pack(v)) == v
    for bad in [b"", b"\xc0", b"\x92\x01", pack(1) + b"\x01", b"\x82" + pack("b") + pack(1) + pack("a") + pack(1),
                b"\xdd\xff\xff\xff\xff", b"\x91" * 40 + b"\x01"]:
        with pytest.raises(ValueError):
            msgpack.decode(bad)


def test_program():
    p = Program(pack(document()), 0)
    assert (p.method, p.inputs, p.outputs, p.steps) == ("f", [0], [("y", 1)], [1])
    assert [v.shape for v in p.bind({"N": 2})] == [(2, 4), (2, 4)]
    for bad in ({}, {"N": 0}, {"N": 3}, {"N": 1, "M": 1}):
        with pytest.raises(BadInput):
            p.bind(bad)
    with pytest.raises(Refused, match="takes 400 bytes at 256 of its space, which has 512"):
        Program(pack(document(size=400)), 0)
    with pytest.raises(Refused):
        Program(b"\x01", 0)


def backend():
    b = Backend("t", "1", [Device("0", "x")])

    @b.kernel("neg", dtypes=("f32",))
    def neg(attrs, x, out):
        if x[0, 0] > 100:
            raise ZeroDivisionError("too much")
        np.negative(x, out=out)

    return b


def test_run():
    p, io = Program(pack(document()), 0), np.zeros(512, np.uint8)
    e = Executable(backend(), p, np.zeros(0, np.uint8), io)
    h = messages.RunHeader(executable=1, generation=1, syms={"N": 2}, inputs=[dict(offset=0, size=32)],
                           outputs=[dict(offset=256, size=32)], dump=[1], profile=True)
    io[:32].view(np.float32)[:] = np.arange(8)
    seen = []
    Execution(e, h, check_header(e, h), lambda n: None).execute(lambda n: None, lambda n, a: seen.append((n, a.copy())))
    assert io[256:288].view(np.float32).tolist() == (-np.arange(8.0)).tolist() and seen[0][0] == 1 and len(e.times) == 1
    io[:4].view(np.float32)[:] = 1000
    with pytest.raises(Exception, match="ZeroDivisionError: too much") as err:
        Execution(e, h, check_header(e, h), lambda n: None).execute(lambda n: None, lambda n, a: None)
    assert (err.value.code, err.value.step, err.value.op) == ("RLX5111", 1, "neg")
    io[:4].view(np.float32)[:] = np.nan
    h.check_nan = True
    with pytest.raises(Exception) as err:
        Execution(e, h, check_header(e, h), lambda n: None).execute(lambda n: None, lambda n, a: None)
    assert (err.value.code, err.value.step) == ("RLX1003", 1)
    for spoil in (dict(generation=0), dict(dump=[9]), dict(dump=[0]), dict(unwanted=[3]), dict(unwanted=[0, 0]),
                  dict(feeds=[{}] * 4097), dict(inputs=[dict(offset=4, size=32)])):
        bad = messages.RunHeader()
        bad.CopyFrom(h)
        for k, v in spoil.items():
            bad.ClearField(k)
            bad.MergeFrom(messages.RunHeader(**{k: v}))
        with pytest.raises(Refused):
            check_header(e, bad)


def service():
    return Service(backend(), {})


def test_one_at_a_time():
    s, of = service(), messages.message
    state = s.MakeState(of("rlx.v1.MakeStateRequest")(size=256), None).state
    s.turn.acquire()  # a run is in progress
    for call in (lambda: s.MakeState(of("rlx.v1.MakeStateRequest")(size=256), None),
                 lambda: s.ChangeState(of("rlx.v1.ChangeStateRequest")(state=state, clear=True), None),
                 lambda: list(s.ReadState(of("rlx.v1.StateRange")(state=state, size=256), None)),
                 lambda: list(s.Stats(of("rlx.v1.StatsRequest")(executable=1, generation=1), None)),
                 lambda: s.WriteState(iter([of("rlx.v1.WriteStateRequest")(range=dict(state=state))]), None),
                 lambda: s.Unload(of("rlx.v1.UnloadRequest")(executable=1), None)):
        with pytest.raises(Refused, match="in progress"):
            call()
    s.turn.release()
    assert b"".join(m.data for m in s.ReadState(of("rlx.v1.StateRange")(state=state, size=256), None)) == bytes(256)


def test_direct_runs():
    for bad in (struct.pack("<I", 5 << 20), struct.pack("<I", 2) + b"\xff\xff"):
        host, own = socket.socketpair()
        host.settimeout(30)
        threading.Thread(target=service()._serve_runs, args=(own,), daemon=True).start()
        header = messages.RunHeader(executable=1, generation=1, dump=[1]).SerializeToString()
        host.sendall(struct.pack("<I", len(header)) + header)
        with host.makefile("rb") as f:
            result = messages.RunResult.FromString(f.read(struct.unpack("<I", f.read(4))[0]))
            error = messages.Error.FromString(messages.Status.FromString(result.status).details[0].value)
            assert (error.code, error.message) == ("RLX5115", "run: a direct run has no dumps")
            host.sendall(bad)
            assert f.read(1) == b""  # closed


def test_rules():
    p = Program(pack(document()), 0)
    for text, takes in {"(f32)": True, "(f32|f64...)": True, "(f64)": False, "(any rank 2) -> same": True,
                        "(f32 rank 3..4)": False, "(f32 static)": False, "(f32 param)": False,
                        "()": False}.items():
        assert Rule(text).takes(p, p.nodes[1]) == takes, text
    optional = document()
    optional["graph"]["nodes"][1]["optional"] = [["bias", 0]]
    p = Program(pack(optional), 0)
    for text, takes in {"(f32)": False, "(f32, bias: f32)": True, "(f32, bias: f64)": False, "(f32, other: f32)": False,
                        "(f32...)": True, "(f32..., bias: f64)": False}.items():
        assert Rule(text).takes(p, p.nodes[1]) == takes, text
    for bad in ("f32", "(f32 big)", "(f32) if broadcast = suffix", "(f32) if x"):
        with pytest.raises(ValueError):
            Rule(bad)
    other = Backend("t", "1", [Device("0", "x")])
    with pytest.raises(Unsupported, match="no kernel for neg"):
        other.check(p)
    with pytest.raises(ValueError, match="type 'toaster'"):
        Device("0", "x", "toaster")
    assert backend().target() == "target t 1\ntypes f32 i32 i64 bool\n\nrun neg(f32...)\n"


def test_custom():
    """The kernel of a custom op is found by its name and gets the attributes of its definition."""
    doc = document()
    own = {"attrs": [["alpha", 0.5], ["mode", "x"], ["t", {"dtype": "f32"}]]}
    doc["graph"]["nodes"][1] |= {"op": "custom", "attrs": [["abs", 0.0], ["expansion", {"graph": 0}],
                                                          ["name", "acme.wave"], ["own", own], ["rel", 0.0]]}
    p, b = Program(pack(doc), 0), Backend("t", "1", [Device("0", "x")])
    assert p.nodes[1].kernel == "acme.wave" and vars(p.nodes[1].attrs) == {"alpha": 0.5, "mode": "x", "t": "f32"}
    with pytest.raises(Unsupported, match="no kernel for acme.wave"):
        b.check(p)

    @b.kernel("acme.wave", rule='(f32) if alpha <= 1 and mode = "x"')
    def wave(attrs, x, out):
        np.multiply(np.sin(x), np.float32(attrs.alpha), out=out)

    b.check(p)
    assert b.target().endswith('\nrun custom(f32) if name = "acme.wave" and alpha <= 1 and mode = "x"\n')
    io = np.zeros(512, np.uint8)
    io[:32].view(np.float32)[:] = np.arange(8)
    e, h = Executable(b, p, np.zeros(0, np.uint8), io), messages.RunHeader(
        executable=1, generation=1, syms={"N": 2}, inputs=[dict(offset=0, size=32)],
        outputs=[dict(offset=256, size=32)])
    Execution(e, h, check_header(e, h), lambda n: None).execute(lambda n: None, lambda n, a: None)
    assert np.allclose(io[256:288].view(np.float32), np.sin(np.arange(8)) / 2)
    for rule in ("(f32) if alpha >= 1", "(f32) if beta = 1"):
        assert not Rule(rule).takes(p, p.nodes[1])


def looped(region=256, length=3):
    """A loop in a loop over x f32[N,4]: an iteration of the outer one ends early or negates x as often as length says.
    The results are x at the end and x after each iteration."""
    node = lambda op, inputs, name, attrs=(), shape=("N", 4), dtype="f32": {
        "attrs": [list(a) for a in sorted(attrs)], "dtype": dtype, "in": inputs, "name": name, "op": op, "optional": [],
        "shape": list(shape)}
    loop = lambda body, cond, length, results, guarded: [
        ("body", {"graph": body}), ("carried", 1), ("cond", {"graph": cond}), ("guarded", guarded), ("length", length),
        ("results", results), ("steps", 0)]
    tuple_ = lambda *args: node(*args, shape=(), dtype="")
    graph = lambda name, nodes, outputs: {"name": name, "nodes": nodes, "outputs": outputs, "syms": [["N", 1, 2]]}
    x, flag = node("input", [], "x"), node("input", [], "on", shape=(), dtype="bool")
    bodies = [graph("flip", [x, node("neg", [0], "y")], [["y", 1]]),
              graph("small", [x, node("is_small", [0], "c", shape=(), dtype="bool")], [["c", 1]]),
              graph("twice", [x, tuple_("loop", [0], "", loop(0, -1, length, [0], False)), node("result", [1], "z"),
                              node("double", [2], "y")], [["y", 3]])]
    plan = lambda body, places, **more: {"arena": 0, "body": body, "io": 512, "places": places, **more}
    tail, none = {"bodies": bodies, "reference": [], "rewritten": [], "target": "t"}, [1, 0, 0, -1]
    return {"graph": graph("f", [x, flag, tuple_("loop", [0, 1], "", loop(2, 1, 5, [0, 1], True)),
                                 node("result", [2], "y"), node("result", [2], "all", shape=(5, "N", 4))],
                           [["y", 3], ["all", 4]])
                     | tail | {"method": "f", "nesting": 2},
            "plan": {"arena": region + 1792, "io": 1024, "loops": [[2, region]], "state": 0,
                     "places": [[2, 0, 32, -1], [2, 256, 1, -1], none, [2, 512, 32, -1], [2, 768, 160, -1]],
                     "bodies": [plan(0, [[2, 0, 32, -1], [2, 256, 32, -1]]),
                                plan(1, [[2, 0, 32, -1], [2, 256, 1, -1]]),
                                plan(2, [[2, 0, 32, -1], none, [1, 1024, 32, -1], [2, 256, 32, -1]]) | {
                                    "arena": 1280, "loops": [[1, 256]]}]},
            "sched": {"queues": 1, "steps": [2], "bodies": [{"body": 0, "steps": [1]}, {"body": 1, "steps": [1]},
                                                            {"body": 2, "steps": [1, 3]}]}}


def test_loop():
    b, running = Backend("t", "1", [Device("0", "x")]), []

    @b.kernel("neg")
    def neg(attrs, x, out):
        if x[0, 0] == 7:
            raise ZeroDivisionError("seven")
        np.negative(x, out=out)

    @b.kernel("double")
    def double(attrs, x, out):
        if x[0, 0] == -5:
            running[-1].cancelled.set()
        np.multiply(x, 2, out=out)

    @b.kernel("is_small")
    def is_small(attrs, x, out):
        out[...] = abs(x[0, 0]) < 20

    with pytest.raises(Unsupported, match="no kernel for loop"):
        Executable(b, Program(pack(looped()), 0), np.zeros(0, np.uint8), np.zeros(1024, np.uint8))
    b.run_loops()
    p, io = Program(pack(looped()), 0), np.zeros(1024, np.uint8)
    e = Executable(b, p, np.zeros(0, np.uint8), io)
    assert e.memory() == 8 * (32 + 1 + 32 + 160) and e.ops == ["loop"]

    def run(first, on=1, rows=2):
        h = messages.RunHeader(executable=1, generation=1, syms={"N": rows},
                               inputs=[dict(offset=0, size=16 * rows), dict(offset=256, size=1)],
                               outputs=[dict(offset=512, size=16 * rows), dict(offset=768, size=80 * rows)])
        x = np.arange(first, first + 4 * rows, dtype=np.float32)
        io[: 16 * rows].view(np.float32)[:], io[256], io[512:] = x, on, 0xff
        r = Execution(e, h, check_header(e, h), lambda n: None)
        running.append(r)
        r.execute(lambda n: None, lambda n, a: None)
        y, every = io[512 : 512 + 16 * rows].view(np.float32), io[768 : 768 + 80 * rows].view(np.float32).reshape(5, -1)
        want, values = x, np.zeros_like(every)
        for t in range(5):
            if not on or abs(want[0]) >= 20:
                break
            want = values[t] = -2 * want
        assert y.tolist() == want.tolist() and every.tolist() == values.tolist()

    for rows in (2, 1, 2):
        for first in (0, 1, 3, 20):
            run(first, rows=rows)
    run(1, on=0)
    with pytest.raises(Exception) as err:
        run(-3.5)
    text = "iteration 1: loop %1: iteration 0: neg y: ZeroDivisionError: seven"
    assert (err.value.code, err.value.message, err.value.step, err.value.op) == ("RLX5111", text, 1, "loop")
    with pytest.raises(Cancelled, match="^the run was cancelled$"):
        run(5)
    doc = looped()
    doc["plan"]["arena"] -= 256
    with pytest.raises(Refused, match=r"loop %2 takes 1792 bytes at 256 of the arena, which has 1792"):
        Program(pack(doc), 0)
    doc["plan"]["bodies"][2]["loops"] = [[1, 2000]]
    with pytest.raises(Refused, match="of the arena"):
        Program(pack(doc), 0)
    doc["sched"]["bodies"].pop()
    with pytest.raises(Refused):
        Program(pack(doc), 0)


def test_transcript():
    """The messages of spec/testdata/session.txt are those of this package, and their program can be decoded."""
    path = pathlib.Path(__file__).parents[3] / "spec/testdata/session.txt"
    seen, program = 0, b""
    for block in path.read_text().split("\n\n"):
        head, *rest = block.strip().split("\n")
        mark, name = head.split()[:2]
        if mark not in "<>":
            continue
        data = bytes.fromhex("".join(line for line in rest if not line.startswith("#")))
        kind = messages.message("rlx.v1." + head.split()[2])
        m = kind.FromString(data)
        assert len(data) == int(head.split()[-1]) and m.SerializeToString(deterministic=True) == data, head
        if head.split()[2] == "LoadRequest":
            program = m.program or program
        seen += 1
    p = Program(program, 24)
    assert seen > 40 and (p.method, p.steps, [p.nodes[s].op for s in p.steps]) == ("rows", [2, 3], ["gather", "neg"])
