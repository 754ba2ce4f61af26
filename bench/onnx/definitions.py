"""definitions.py OPS TEXT [NODES DIR...]: writes what the definitions of ONNX ops say about inputs and attributes.

    python bench/onnx/definitions.py docs/onnx-ops.md models/onnx/definitions.txt \\
        models/onnx/testdata/nodes.bin out/onnx-nodes out/onnx-contrib out/onnx-trees models/onnx/testdata

OPS names the ops; TEXT is for the import. The definitions are those of the packages onnx and onnxruntime (for
com.microsoft). From DIRs, folders that nodes.py, contrib.py and trees.py write, NODES gets a few small models for each
op, for the tests; small inputs become initializers.
"""

import glob, os, re, sys, warnings

warnings.filterwarnings("ignore")
import onnx
from onnx.onnx_cpp2py_export.defs import get_all_schemas_with_history  # all versions
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

# The types of core; the others are stored in one of them.
TYPES = {"float": "f32", "float16": "f16", "bfloat16": "bf16", "double": "f64", "int8": "i8", "int16": "i16",
         "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "i32", "uint32": "u32", "uint64": "i64",
         "bool": "bool", "int4": "i8", "uint4": "u8", "int2": "i8", "uint2": "u8", "float8e4m3fn": "u8",
         "float8e4m3fnuz": "u8", "float8e5m2": "u8", "float8e5m2fnuz": "u8", "float8e8m0": "u8", "float4e2m1": "u8"}
ORDER = ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u32", "bool"]


def types(schema, p):
    kind = getattr(p, "type_str", None) or p.typeStr
    names = [kind]
    for c in schema.type_constraints:
        if c.type_param_str == kind:
            names = list(c.allowed_type_strs)
    found = {TYPES[m] for n in names for m in re.findall(r"^tensor\((\w+)\)$", n) if m in TYPES}
    if not found or any(not n.startswith("tensor(") for n in names):
        return set(ORDER)  # also sequences and the like, which are refused elsewhere
    return found


ops = []
for line in open(sys.argv[1]):
    m = re.match(r"\| ([\w.]+) \| \d+ \|", line)
    if m:
        ops.append(m.group(1))

versions = {}
for s in list(get_all_schemas_with_history()) + list(get_all_operator_schema()):
    name = s.name if s.domain in ("", "ai.onnx") else s.domain + "." + s.name
    versions.setdefault(name, {}).setdefault(s.since_version, s)

lines = []
for name in ops:
    known = [versions.get(name, {})[v] for v in sorted(versions.get(name, {}))]
    last = None
    for s in known:
        parts = []
        for i, p in enumerate(s.inputs):
            # Types are those of all versions: the newer definitions only allow more.
            union = set()
            for o in known:
                if i < len(o.inputs):
                    union |= types(o, o.inputs[i])
            mark = {"Single": "", "Optional": "?", "Variadic": "*"}[str(p.option).split(".")[-1]]
            if mark == "*" and s.min_input > len(s.inputs) - 1:
                mark = "+"
            kinds = "any" if len(union) == len(ORDER) else "|".join(t for t in ORDER if t in union)
            parts.append(f"{p.name}{mark}:{kinds}")
        attrs = []
        for a in sorted(s.attributes.values(), key=lambda a: a.name):
            attrs.append(f"{a.name}{'!' if a.required else ''}:{str(a.type).split('.')[-1].lower()}")
        text = " ".join(parts) + " ; " + " ".join(attrs)
        if text != last:
            lines.append(f"{name} {s.since_version} ; {text}".rstrip())
        last = text
with open(sys.argv[2], "w") as f:
    f.write("# The inputs and attributes of ONNX ops, from a version of the opset on. Written by bench/onnx/definitions.py\n"
            "# from the packages onnx (Apache License 2.0) and onnxruntime (MIT). An input is NAME:TYPES, with ? if it is\n"
            "# optional, * if any number follow and + if one or more do; an attribute is NAME:TYPE, with ! if it is required.\n")
    f.write("\n".join(lines) + "\n")

if len(sys.argv) < 4:
    sys.exit()
models = {}
for d in sys.argv[4:]:
    for path in sorted(glob.glob(os.path.join(d, "*", "model.onnx"))):
        if os.path.getsize(path) > 1 << 14 or "_expanded" in path:
            continue
        m = onnx.load(path)
        for i, v in enumerate(list(m.graph.input)):
            data = os.path.join(os.path.dirname(path), f"input_{i}.pb")
            if not os.path.exists(data) or os.path.getsize(data) > 200:
                continue
            t = onnx.load_tensor(data)
            numel = 1
            for n in t.dims:
                numel *= n
            if len(t.dims) <= 1 and numel <= 16:
                t.name = v.name
                t.ClearField("doc_string")
                m.graph.initializer.append(t)
                m.graph.input.remove(v)
        if not m.graph.input:  # one that is not computed during the import
            m = onnx.load(path)
        m.graph.name, m.graph.doc_string, m.producer_name = "", "", ""
        n = m.graph.node[-1] if len(m.graph.node) else None
        if n is None:
            continue
        name = n.op_type if n.domain in ("", "ai.onnx") else n.domain + "." + n.op_type
        if name in ops:
            key = (tuple(sorted(a.name for a in n.attribute)), len(n.input))
            models.setdefault(name, {}).setdefault(key, []).append(m.SerializeToString())


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


with open(sys.argv[3], "wb") as f:
    for name in ops:
        kinds = [min(v, key=len) for v in models.get(name, {}).values()]
        if not kinds:
            print("no model:", name)
        kinds.sort(key=len)
        for b in kinds[:2] + kinds[2:][-3:]:  # with the least, and with the most
            f.write(varint(len(b)) + b)
