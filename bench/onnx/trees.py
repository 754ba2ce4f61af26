"""trees.py DIR: writes models of the sums over trees of ai.onnx.ml, with ONNX Runtime's results.

    python bench/onnx/trees.py models/onnx/testdata

writes a folder ml_trees_* for each form: modes of the nodes, values that are missing, targets, and scores of classes.
Left out is what ONNX Runtime does not compute as ONNX defines it: LOGISTIC of one target, the label of two classes that
both have weights, sets with other numbers than integers, and post_transform of TreeEnsemble, where it swaps 1 and 2.
"""

import os, sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

FEATURES = 4


def forest(rng, count, modes, limits, missing):
    """Returns the attributes of the nodes of random trees, and their leaves as pairs (tree, node)."""
    a = {k: [] for k in "treeids nodeids featureids values modes truenodeids falsenodeids missing".split()}
    leaves = []
    for tree in range(count):
        todo, size = [(0, 0)], 1
        while todo:
            node, depth = todo.pop()
            leaf = depth > 0 and (depth == 5 or rng.random() < 0.3)
            a["treeids"].append(tree)
            a["nodeids"].append(node)
            a["featureids"].append(0 if leaf else int(rng.integers(FEATURES)))
            a["values"].append(0.0 if leaf else float(rng.choice(limits)))
            a["modes"].append("LEAF" if leaf else str(rng.choice(modes)))
            a["truenodeids"].append(0 if leaf else size)
            a["falsenodeids"].append(0 if leaf else size + 1)
            a["missing"].append(int(missing and not leaf and rng.random() < 0.5))
            if leaf:
                leaves.append((tree, node))
            else:
                todo += [(size, depth + 1), (size + 1, depth + 1)]
                size += 2
    attrs = {"nodes_" + k: v for k, v in a.items() if k != "missing"}
    if missing:
        attrs["nodes_missing_value_tracks_true"] = a["missing"]
    return attrs, leaves


def write(path, op, outputs, attrs, x):
    node = helper.make_node(op, ["x"], [n for n, _ in outputs], domain="ai.onnx.ml", **attrs)
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", FEATURES])]
    g = helper.make_graph([node], "main", given, [helper.make_tensor_value_info(n, t, None) for n, t in outputs])
    ids = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5 if op == "TreeEnsemble" else 3)]
    m = helper.make_model(g, opset_imports=ids, ir_version=8)
    s = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    os.makedirs(path, exist_ok=True)
    for name, v in [("input_0", x)] + [(f"output_{i}", v) for i, v in enumerate(s.run(None, {"x": x}))]:
        with open(os.path.join(path, name + ".pb"), "wb") as f:
            f.write(numpy_helper.from_array(v, "x" if name == "input_0" else "").SerializeToString())
    with open(os.path.join(path, "model.onnx"), "wb") as f:
        f.write(m.SerializeToString())
    with open(os.path.join(path, "tolerance"), "w") as f:
        f.write("largest 1e-4")


def forest5(rng, count, limits, missing, member, targets):
    """Returns the attributes of TreeEnsemble. With member, some nodes look a feature up in a set."""
    a = {k: [] for k in "featureids splits modes truenodeids trueleafs falsenodeids falseleafs missing".split()}
    roots, sets, leaves = [], [], 0
    for _ in range(count):
        roots.append(len(a["modes"]))
        todo = [(None, 0)]
        while todo:
            parent, depth = todo.pop()
            here = len(a["modes"])
            if parent is not None:
                name, node = parent
                if depth == 5 or rng.random() < 0.3:
                    a[name + "nodeids"][node], a[name + "leafs"][node] = leaves, 1
                    leaves += 1
                    continue
                a[name + "nodeids"][node] = here
            in_set = member and rng.random() < 0.4
            a["modes"].append(6 if in_set else int(rng.integers(6)))
            a["splits"].append(0.0 if in_set else float(rng.choice(limits)))
            a["featureids"].append(int(rng.integers(FEATURES)))
            a["missing"].append(int(missing and rng.random() < 0.5))
            for k in ["truenodeids", "trueleafs", "falsenodeids", "falseleafs"]:
                a[k].append(0)
            if in_set:
                sets += [*rng.choice(limits, rng.integers(1, 4), replace=False), np.nan]
            todo += [(("false", here), depth + 1), (("true", here), depth + 1)]

    def tensor(name, t, values):
        return helper.make_tensor(name, t, [len(values)], values)

    attrs = {"nodes_" + k: v for k, v in a.items() if k not in ("missing", "splits", "modes")}
    attrs["nodes_splits"] = tensor("splits", TensorProto.FLOAT, a["splits"])
    attrs["nodes_modes"] = tensor("modes", TensorProto.UINT8, a["modes"])
    attrs["leaf_weights"] = tensor("weights", TensorProto.FLOAT, [float(v) for v in rng.standard_normal(leaves)])
    attrs["leaf_targetids"] = [int(v) for v in rng.integers(targets, size=leaves)]
    if missing:
        attrs["nodes_missing_value_tracks_true"] = a["missing"]
    if sets:
        attrs["membership_values"] = tensor("members", TensorProto.FLOAT, sets)
    return dict(attrs, tree_roots=roots, n_targets=targets)


def main(out):
    rng = np.random.default_rng(3)
    all_modes = [f"BRANCH_{m}" for m in "LEQ LT GTE GT EQ NEQ".split()]
    whole = np.arange(-2, 3).astype(np.float32)
    x = rng.standard_normal((17, FEATURES)).astype(np.float32)
    x[::3] = rng.choice(whole, x[::3].shape)  # also equal to limits
    gaps = x.copy()
    gaps[rng.random(x.shape) < 0.3] = np.nan
    gaps[0, 0], gaps[1, 1] = np.inf, -np.inf

    for name, modes, data, missing, extra, targets in [
        ("sum", ["BRANCH_LEQ"], x, False, {}, 1),
        ("mixed", all_modes, x, False, dict(base_values=[0.5, -1.0]), 2),
        ("missing", ["BRANCH_LEQ"], gaps, True, {}, 1),
        ("missing_mixed", ["BRANCH_LT", "BRANCH_GT"], gaps, False, {}, 1),
        ("average", ["BRANCH_LT"], x, False, dict(aggregate_function="AVERAGE"), 3),
        ("min", ["BRANCH_LEQ"], x, False, dict(aggregate_function="MIN"), 1),
        ("max", ["BRANCH_GT"], x, False, dict(aggregate_function="MAX", base_values=[2.0]), 1),
    ]:
        attrs, leaves = forest(rng, 5, modes, whole, missing)
        at = [(t, n, k) for t, n in leaves for k in range(targets)]
        attrs.update(
            target_treeids=[t for t, _, _ in at],
            target_nodeids=[n for _, n, _ in at],
            target_ids=[k for _, _, k in at],
            target_weights=[float(v) for v in rng.standard_normal(len(at))],
            n_targets=targets,
            **extra,
        )
        write(os.path.join(out, "ml_trees_" + name), "TreeEnsembleRegressor", [("y", TensorProto.FLOAT)], attrs, data)
    for name, labels, classes, positive, extra in [
        ("three", [3, 5, 9], [0, 1, 2], True, {}),
        ("softmax", [0, 1, 2], [0, 1, 2], False, dict(post_transform="SOFTMAX", base_values=[0.1, 0.2, -0.3])),
        ("one", [0, 1], [0], False, dict(post_transform="LOGISTIC", base_values=[0.3])),
        ("one_plain", [0, 1], [0], False, {}),
        ("one_positive", [7, 8], [0], True, {}),
    ]:
        attrs, leaves = forest(rng, 4, ["BRANCH_LEQ"], whole, False)
        at = [(t, n, k) for t, n in leaves for k in classes]
        weights = rng.random(len(at)) / 4 if positive else rng.standard_normal(len(at))
        attrs.update(
            class_treeids=[t for t, _, _ in at],
            class_nodeids=[n for _, n, _ in at],
            class_ids=[k for _, _, k in at],
            class_weights=[float(v) for v in weights],
            classlabels_int64s=labels,
            **extra,
        )
        outputs = [("label", TensorProto.INT64), ("scores", TensorProto.FLOAT)]
        write(os.path.join(out, "ml_trees_class_" + name), "TreeEnsembleClassifier", outputs, attrs, x)

    integers = rng.choice(whole, x.shape)
    for how in ["MIN", "MAX"]:  # each leaf gives something for one of three targets
        attrs, leaves = forest(rng, 4, ["BRANCH_LEQ"], whole, False)
        attrs.update(
            target_treeids=[t for t, _ in leaves],
            target_nodeids=[n for _, n in leaves],
            target_ids=[int(v) for v in rng.integers(3, size=len(leaves))],
            target_weights=[float(v) for v in rng.standard_normal(len(leaves))],
            n_targets=3,
            aggregate_function=how,
        )
        path = os.path.join(out, "ml_trees_some_" + how.lower())
        write(path, "TreeEnsembleRegressor", [("y", TensorProto.FLOAT)], attrs, x)
    for name, data, missing, member, targets, extra in [
        ("plain", x, False, False, 2, {}),
        ("missing", gaps, True, False, 3, {}),
        ("member", integers, False, True, 2, {}),
        ("least", integers, False, True, 2, dict(aggregate_function=2)),
        ("mean", x, False, False, 3, dict(aggregate_function=0)),
    ]:
        attrs = dict(forest5(rng, 5, whole, missing, member, targets), **extra)
        write(os.path.join(out, "ml_trees5_" + name), "TreeEnsemble", [("y", TensorProto.FLOAT)], attrs, data)


if __name__ == "__main__":
    main(sys.argv[1])
