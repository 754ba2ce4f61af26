"""Tests of the module rlx against the demo models. RLX_BIN has the programs, RLX_DEMO the folder demo/."""

import gc
import json
import os
import pathlib
import shutil
import signal
import socket
import sys
import threading

import numpy as np
import pytest

import rlx
from rlx import _bridge, errors

DEMO = os.environ["RLX_DEMO"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def graph(folder):
    """A function that compiles a graph and loads it."""
    def load(text, *flags, **options):
        source = folder / f"{abs(hash((text, flags)))}.txt"
        source.write_text(text)
        return rlx.load(rlx.compile(source, source.with_suffix(".rlx"), "--target", "cpu", *flags), **options)
    return load


@pytest.fixture(scope="session")
def sam(folder):
    return rlx.load(rlx.compile(f"{DEMO}/sam-nano.safetensors", folder / "sam.rlx"))


@pytest.fixture(scope="session")
def llama(folder):
    return rlx.load(rlx.compile(f"{DEMO}/llama", folder / "llama.rlx"))


SUM = "graph f\nsym N = 1..3000000\nx = input : f32[N,3]\ny = input : f32[N,3]\nz = add x, y : f32[N,3]\nreturn z=z\n"


# 5,000 rows are 60 KB, so that inputs and results go different ways, and 2,000,000 are 24 MB.
@pytest.mark.parametrize("rows", [1, 2, 1000, 1365, 1366, 5000, 5461, 5462, 2_000_000])
def test_run(graph, rows):
    m = graph(SUM)
    rng = np.random.default_rng(rows)
    x, y = (rng.standard_normal((rows, 3), np.float32) for _ in range(2))
    r = m.f(x=x, y=y)
    np.testing.assert_array_equal(r.z, x + y)
    assert list(r) == ["z"] and r.seconds > 0
    first = r.z.copy()
    m.f(x=y, y=y)
    np.testing.assert_array_equal(r.z, first)  # the result belongs to the caller
    r.z[:] = 0


def test_large_result_of_small_inputs(graph):
    m = graph("graph g\nsym N = 1..64\nx = input : f32[N]\n"
              "y = pad x {before=[100], after=[1000000], value=0.5} : f32[N+1000100]\nreturn y=y\n")
    for n in (1, 3, 40):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(m.g(x=x).y, np.pad(x, (100, 1000000), constant_values=np.float32(0.5)))


@pytest.mark.parametrize("name,dtype", [(k, v) for k, v in _bridge._dtypes.items()])
def test_types(graph, name, dtype):
    m = graph(f"graph f\nx = input : {name}[2,3]\ny = transpose x {{perm=[1,0]}} : {name}[3,2]\nreturn y=y\n")
    x = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    y = m.f(x=x).y
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x.T)


def test_conversion(graph):
    m = graph(SUM)
    np.testing.assert_array_equal(m.f(x=[[1, 2, 3]], y=[[0.5, 0, 0]]).z, [[1.5, 2, 3]])
    x = np.ones((3, 4), np.float32).T[:2, :]  # neither contiguous nor owned
    np.testing.assert_array_equal(m.f(x=x, y=x).z, 2 * x)
    with pytest.raises(errors.InputError) as e:
        m.f(x=np.ones((1, 3)), y=np.ones((1, 3)))
    assert e.value.code == "RLX3001" and "float64" in str(e.value) and "astype" in e.value.hint


def test_errors(graph, folder, tmp_path):
    m = graph(SUM)
    x = np.ones((1, 3), np.float32)
    for inputs, words in [({"x": x}, "y"), ({"x": x, "y": x, "w": x}, "no input"), ({"x": x, "y": x[0]}, "y"),
                          ({"x": x, "y": np.ones((2, 3), np.float32)}, "N"),
                          ({"x": x, "y": [["a"] * 3]}, "y"), ({"x": x, "y": [[1, 2], [3]]}, "y")]:
        with pytest.raises(errors.InputError, match=words) as e:
            m.run("f", inputs)
        assert e.value.code == "RLX3001"
    for call in [lambda: m.run("g", {}), lambda: m.f(x=x, y=x, outputs=["q"]), lambda: m.state(),
                 lambda: m.generator(), lambda: m.encode_image(np.zeros((2, 2, 3), np.uint8)),
                 lambda: rlx.load(m.path, precision="f4")]:
        with pytest.raises(errors.UsageError) as e:
            call()
        assert e.value.code.startswith("RLX2")
    with pytest.raises(AttributeError, match="has no method"):
        m.other
    with pytest.raises(FileNotFoundError):
        rlx.load(tmp_path / "absent.rlx")
    damaged = tmp_path / "damaged.rlx"
    damaged.write_bytes(b"not an artifact")
    with pytest.raises(errors.ArtifactError):
        rlx.load(damaged)
    with pytest.raises(errors.BackendError, match="nothing"):
        rlx.load(m.path, "nothing")
    with pytest.raises(errors.MemoryLimitError):
        rlx.load(m.path, memory=1)
    with pytest.raises(errors.InputError) as e:
        rlx.compile(damaged, tmp_path / "x.rlx")
    assert e.value.code.startswith("RLX3") and not (tmp_path / "x.rlx").exists()
    np.testing.assert_array_equal(m.f(x=x, y=x).z, 2 * x)  # nothing is lost


def test_outputs(graph):
    m = graph("graph f\nx = input : f32[2]\na = neg x : f32[2]\nb = abs x : f32[2]\nreturn a=a, b=b\n")
    assert list(m.f(x=[1, -2])) == ["a", "b"]
    assert list(m.f(x=[1, -2], outputs=["b"])) == ["b"]
    with pytest.raises(AttributeError, match="no output"):
        m.f(x=[1, -2]).c


def test_threads(graph):
    m = graph(SUM)
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(30):
            x = rng.standard_normal((int(rng.integers(1, 20000)), 3), np.float32)
            if not np.array_equal(m.f(x=x, y=x).z, 2 * x):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_close(graph):
    m = graph(SUM)
    x = np.ones((1, 3), np.float32)
    m.close()
    m.close()
    with pytest.raises(errors.UsageError, match="closed"):
        m.f(x=x, y=x)
    with graph(SUM) as m:
        m.f(x=x, y=x)
    del m
    gc.collect()


def test_segment(sam, tmp_path):
    image = sam.encode_image(f"{DEMO}/scene1.png")
    assert (image.width, image.height) == (256, 256)
    best, = image.masks(points=[(128, 128)])
    assert best.array.dtype == bool and best.array.shape == (256, 256) and best.quality > 0.8
    every = image.masks(points=[(128, 128, 1)], choice="all")
    assert len(every) == 4 and any(np.array_equal(m.array, best.array) for m in every)
    assert image.masks(box=(20, 20, 100, 100))[0].array.any()
    found = image.everything(side=8)
    assert found.labels.shape == (256, 256) and {r.label for r in found.regions} == set(np.unique(found.labels)) - {0}
    for bad in [dict(), dict(points=[(-5, 0)]), dict(box=(9, 9, 1, 1)), dict(points=[(1, 1)], choice="worst")]:
        with pytest.raises(errors.UsageError):
            image.masks(**bad)


def small_sam3(source, golden, *parts):
    """A SAM 3 with random weights: the configuration of one golden case, and the tensors of others."""
    source.mkdir()
    goldens = pathlib.Path(DEMO).parent / "testdata" / "goldens"
    shutil.copy(goldens / golden / "config.json", source)
    shutil.copy(goldens / "sam3_tiny" / "tokenizer.json", source)
    entries = [e for part in parts for e in json.loads((goldens / part / "manifest.json").read_text())]
    header, data = {}, []
    rng, end = np.random.default_rng(0), 0
    for e in entries:
        x = e["shift"] + e["scale"] * rng.uniform(-1, 1, e["shape"])
        data.append(x.astype(np.float32).tobytes())
        header[e["name"]] = {"dtype": "F32", "shape": e["shape"], "data_offsets": [end, end + len(data[-1])]}
        end += len(data[-1])
    text = json.dumps(header).encode()
    (source / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))
    return rlx.load(rlx.compile(source, source.with_suffix(".rlx"), "--target", "cpu"))


@pytest.fixture(scope="session")
def sam3(folder):
    return small_sam3(folder / "sam3", "sam3_concepts", "sam3_concepts")


def test_find(sam, sam3):
    image = sam3.encode_image(f"{DEMO}/scene1.png")
    found = image.find("a coin", threshold=0)
    assert len(found) == 12 and [o.score for o in found] == sorted((o.score for o in found), reverse=True)
    assert found[0].array.shape == (256, 256) and found[0].array.dtype == bool and len(found[0].box) == 4
    more = image.find("a coin", threshold=found[5].score)
    assert len(more) == 5 and np.array_equal(more[4].array, found[4].array)
    assert image.find(examples=[(10, 20, 60, 70), (100, 100, 150, 140, 0)], threshold=0)[0].score != found[0].score
    for bad in [dict(), dict(text=" "), dict(text="coin " * 40), dict(examples=[(9, 9, 1, 1)]),
                dict(text="coin", threshold=2)]:
        with pytest.raises(errors.UsageError):
            image.find(**bad)
    with pytest.raises(errors.UsageError, match="not clicks"):
        image.masks(points=[(1, 1)])
    with pytest.raises(errors.UsageError, match="not texts"):
        sam.encode_image(f"{DEMO}/scene1.png").find("a coin")


def test_find_and_click(folder):
    both = small_sam3(folder / "both", "sam3_clicks", "sam3_concepts", "sam3_clicks")
    image = both.encode_image(f"{DEMO}/scene1.png")
    mask, = image.masks(points=[(128, 128)])
    assert mask.array.shape == (256, 256) and 1 <= mask.index <= 3
    assert len(image.masks(box=(60, 70, 200, 190), choice="all")) == 4
    assert len(image.find("a coin", threshold=0)) == 12
    with pytest.raises(errors.UsageError):
        image.masks(points=[(-5, 0)])


def test_pixels(sam):
    PIL = pytest.importorskip("PIL.Image")
    picture = PIL.open(f"{DEMO}/scene1.png")
    want = sam.encode_image(f"{DEMO}/scene1.png").masks(points=[(128, 128)])[0]
    for image in (picture, picture.convert("RGBA"), np.asarray(picture.convert("RGB"))):
        got = sam.encode_image(image).masks(points=[(128, 128)])[0]
        assert np.array_equal(got.array, want.array) and got.quality == want.quality
    assert want.image().size == (256, 256)


def test_bad_pixels(sam):
    for bad in (np.zeros((4, 4)), np.zeros((4, 4), np.uint8), np.zeros((4, 4, 2), np.uint8)):
        with pytest.raises(errors.InputError, match="image"):
            sam.encode_image(bad)
    with pytest.raises(errors.Error):
        sam.encode_image(np.zeros((0, 4, 3), np.uint8))
    with pytest.raises(errors.Error):
        sam.encode_image("/nonexistent.png")


def test_generate(llama, tmp_path):
    def text(g, prompt, **options):
        return "".join(map(str, g.generate(prompt, **options)))

    g = llama.generator()
    first = text(g, "ROMEO:", tokens=12, temperature=0)
    assert first and g.stop == "length"
    assert "".join(map(str, llama.generate("ROMEO:", tokens=12, temperature=0))) == first
    g.save(tmp_path / "state.safetensors")
    more = text(g, "", tokens=5, temperature=0)
    other = llama.generator()
    other.load(tmp_path / "state.safetensors")
    assert text(other, "", tokens=5, temperature=0) == more
    g.reset()
    ids = g.tokens("ROMEO:")
    assert text(g, ids, tokens=12, temperature=0) == first
    g.reset()
    drawn = text(g, "ROMEO:", tokens=12, temperature=1, seed=7)
    g.reset()
    assert text(g, "ROMEO:", tokens=12, temperature=1, seed=7) == drawn != first
    word = first.split()[1]
    g.reset()
    assert word not in text(g, "ROMEO:", tokens=12, temperature=0, stop=word) and g.stop == "stop"
    with pytest.raises(errors.UsageError):
        text(g, [10**6], tokens=1)
    with pytest.raises(errors.UsageError):
        text(g, "a", tokens=1, temperature=-1)


@pytest.fixture(scope="session")
def vl(folder):
    """A tiny model that takes images, and the folder of the golden it is made of."""
    sys.path.insert(0, f"{DEMO}/../bench/goldens")
    from formula import synth

    golden, source = pathlib.Path(DEMO).parent / "testdata/goldens/qwen3vl_tiny", folder / "vl"
    source.mkdir()
    for name in "config.json", "preprocessor_config.json", "tokenizer.json", "chat_template.jinja":
        shutil.copy(golden / name, source)
    header, data = {}, b""
    for e in json.loads((golden / "manifest.json").read_text()):
        raw = synth(e).tobytes()
        header[e["name"]] = {"dtype": "F32", "shape": e["shape"], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    (source / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)
    return rlx.load(rlx.compile(source, folder / "vl.rlx", "--target", "cpu")), golden


def test_images(vl):
    """A conversation with two images has the tokens that Transformers gives; a longer one continues it."""
    model, golden = vl
    messages = json.loads((golden / "case.json").read_text())["images"]
    for part in messages[1]["content"]:
        if part["type"] == "image":
            part["image"] = golden / f"{part['image']}.png"
    g = model.generator()
    want = [78, 213, 24, 203, 24, 203]  # greedy of the golden
    assert len(g.tokens(messages)) == 90
    assert [t.id for t in g.generate(messages, tokens=6, temperature=0, ignore_end=True)] == want
    g.reset()
    pixels = np.zeros((21, 37, 3), np.uint8)
    ask = [{"role": "user", "content": [{"type": "image", "image": pixels}, {"type": "text", "text": "Who?"}]}]
    first = [t.id for t in g.generate(ask, tokens=3, temperature=0)]
    g.reset()
    assert [t.id for t in g.generate(ask, tokens=3, temperature=0)] == first
    with pytest.raises(errors.UsageError, match="audio"):
        g.tokens([{"role": "user", "content": [{"type": "audio"}]}])
    with pytest.raises(errors.Error, match="one side"):
        g.tokens([{"role": "user", "content": [{"type": "image", "image": np.zeros((1, 300, 3), np.uint8)}]}])
    with pytest.raises(errors.UsageError, match="image"):
        list(g.generate([1, 261, 2], tokens=1))


def test_left_early(llama):
    g = llama.generator()
    for n, token in enumerate(g.generate("ROMEO:", temperature=0)):
        if n == 3:
            break
    del token
    gc.collect()
    assert not g._bridge.calls
    g = llama.generator()
    assert len(list(g.generate("ROMEO:", tokens=3, temperature=0, ignore_end=True))) >= 3


def test_killed(graph):
    """A bridge that dies is an error of all calls, and the next load starts another."""
    m = graph(SUM)
    x = np.ones((1, 3), np.float32)
    os.kill(m._bridge.process.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(errors.BackendError, match="ended"):
            m.f(x=x, y=x)
    m = rlx.load(m.path)
    np.testing.assert_array_equal(m.f(x=x, y=x).z, 2 * x)


def test_interrupted(llama):
    """KeyboardInterrupt ends a call, and the model stays usable."""
    g = llama.generator() if not llama._bridge.lost else rlx.load(llama.path).generator()
    begun = threading.Event()  # so that the signal comes while tokens are read, and not just before

    def interrupt():
        begun.wait()
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        for n in range(100):
            for _ in g.generate("ROMEO:", tokens=400, temperature=0, ignore_end=True):
                begun.set()
            g.reset()
    assert not g._bridge.calls


def test_no_unix_sockets(monkeypatch):  # as in Python for Windows
    monkeypatch.delattr(socket, "AF_UNIX")
    monkeypatch.setattr(_bridge, "_bridge", None)
    with pytest.raises(errors.BackendError, match="no Unix sockets on this system") as e:
        rlx.load(__file__)
    assert e.value.code == "RLX5113"
