"""Writes the vectors of all families, or of those named: python run.py [FAMILY ...]. See README.md."""
import json
import pathlib
import runpy
import sys

sys.dont_write_bytecode = True
import write  # noqa: E402

here = pathlib.Path(__file__).parent
out = here.parent.parent / "core/op/testdata/vectors"
families = sys.argv[1:] or sorted(p.stem for p in here.glob("*.py") if p.stem not in ("run", "write"))
for name in families:
    write.start()
    runpy.run_path(str(here / (name + ".py")))
    lines = [json.dumps(c, separators=(",", ":")) for c in write.cases]
    (out / (name + ".json")).write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print("%-12s %4d vectors, %d bytes" % (name, len(lines), sum(map(len, lines))))
