"""ml_nodes.py DIR: writes models of one op of ai.onnx.ml each, with ONNX Runtime's results: support vector machines,
encoders of numbers, imputers, and scores after SOFTMAX_ZERO.

    python bench/onnx/ml_nodes.py models/onnx/testdata
"""

import os, sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto as T, helper, numpy_helper

KINDS = {
    np.dtype("float32"): T.FLOAT,
    np.dtype("float64"): T.DOUBLE,
    np.dtype("int64"): T.INT64,
    np.dtype("int32"): T.INT32,
}


def write(path, op, inputs, outputs, version=3, **attrs):
    names = [f"x{i}" for i in range(len(inputs))]
    outs = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(op, names, outs, domain="ai.onnx.ml", **attrs)
    given = [helper.make_tensor_value_info(n, KINDS[x.dtype], ["n", *x.shape[1:]]) for n, x in zip(names, inputs)]
    g = helper.make_graph(
        [node], "main", given, [helper.make_tensor_value_info(n, t, None) for n, t in zip(outs, outputs)]
    )
    ids = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    m = helper.make_model(g, opset_imports=ids, ir_version=8)
    s = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    os.makedirs(path, exist_ok=True)
    results = s.run(None, dict(zip(names, inputs)))
    for kind, list_ in [("input", inputs), ("output", results)]:
        for i, v in enumerate(list_):
            name = names[i] if kind == "input" else ""
            open(os.path.join(path, f"{kind}_{i}.pb"), "wb").write(numpy_helper.from_array(v, name).SerializeToString())
    open(os.path.join(path, "model.onnx"), "wb").write(m.SerializeToString())
    open(os.path.join(path, "tolerance"), "w").write("largest 1e-4")


def main(out):
    rng = np.random.default_rng(5)
    r = lambda *s: rng.standard_normal(s).astype(np.float32)
    x = r(9, 3)
    at = lambda name: os.path.join(out, "ml_" + name)
    for kernel, params in [
        ("LINEAR", [0, 0, 0]),
        ("RBF", [0.4, 0, 3]),
        ("POLY", [0.3, 1, 3]),
        ("SIGMOID", [0.2, 0.1, 3]),
    ]:
        support = dict(support_vectors=r(15).tolist(), kernel_type=kernel, kernel_params=[float(v) for v in params])
        write(
            at("svm_regressor_" + kernel.lower()),
            "SVMRegressor",
            [x],
            [T.FLOAT],
            n_supports=5,
            rho=[0.3],
            coefficients=r(5).tolist(),
            **support,
        )
    write(
        at("svm_one_class"),
        "SVMRegressor",
        [x],
        [T.FLOAT],
        n_supports=5,
        rho=[0.1],
        one_class=1,
        coefficients=r(5).tolist(),
        **support,
    )
    write(
        at("svm_linear"),
        "SVMRegressor",
        [x],
        [T.FLOAT],
        rho=[0.3],
        coefficients=r(3).tolist(),
        kernel_params=[0.0, 0.0, 0.0],
    )
    for classes, name in [(2, "two"), (4, "four")]:
        per, pairs = [3, 2, 1, 4][:classes], classes * (classes - 1) // 2
        total = sum(per)
        a = dict(
            support_vectors=r(3 * total).tolist(),
            vectors_per_class=per,
            rho=r(pairs).tolist(),
            coefficients=(2 * r((classes - 1) * total)).tolist(),
            kernel_type="RBF",
            kernel_params=[0.5, 0.0, 3.0],
            classlabels_ints=list(range(5, 5 + classes)),
        )
        write(at(f"svm_{name}"), "SVMClassifier", [x], [T.INT64, T.FLOAT], **a)
        for how in "LOGISTIC", "SOFTMAX":
            write(at(f"svm_{name}_{how.lower()}"), "SVMClassifier", [x], [T.INT64, T.FLOAT], post_transform=how, **a)
        write(
            at(f"svm_{name}_probability"),
            "SVMClassifier",
            [x],
            [T.INT64, T.FLOAT],
            prob_a=(-abs(r(pairs)) - 1).tolist(),
            prob_b=(r(pairs) / 9).tolist(),
            **a,
        )
        write(
            at(f"svm_{name}_linear"),
            "SVMClassifier",
            [x],
            [T.INT64, T.FLOAT],
            rho=[0.2],
            coefficients=r(3 * classes).tolist(),
            classlabels_ints=list(range(classes)),
            kernel_params=[0.0, 0.0, 0.0],
        )
    numbers = np.array([[3, 7], [1, 3], [9, -1]], np.int64)
    floats = np.array([[0.5, np.nan], [2, 7]], np.float32)
    write(at("label_ints"), "LabelEncoder", [numbers], [T.INT64], keys_int64s=[1, 3, 9], values_int64s=[10, 11, 12])
    write(
        at("label_floats"),
        "LabelEncoder",
        [numbers],
        [T.FLOAT],
        keys_int64s=[1, 3, 9],
        values_floats=[0.5, 1.5, 2.5],
        default_float=9.0,
    )
    for version in 3, 4:
        write(
            at(f"label_nan_{version}"),
            "LabelEncoder",
            [floats],
            [T.INT64],
            version=version,
            keys_floats=[0.5, float("nan")],
            values_int64s=[4, 5],
            default_int64=7,
        )
    write(
        at("label_tensor"),
        "LabelEncoder",
        [numbers],
        [T.FLOAT],
        version=4,
        keys_tensor=helper.make_tensor("k", T.INT64, [2], [7, 3]),
        values_tensor=helper.make_tensor("v", T.FLOAT, [2], [0.25, 2]),
        default_tensor=helper.make_tensor("d", T.FLOAT, [1], [-3]),
    )
    write(at("onehot"), "OneHotEncoder", [numbers], [T.FLOAT], cats_int64s=[3, 9, 1])
    write(at("onehot_all"), "OneHotEncoder", [numbers[:, :1]], [T.FLOAT], cats_int64s=[3, 9, 1], zeros=0)
    write(at("vectorizer"), "FeatureVectorizer", [x, r(9, 2), r(9, 4)], [T.FLOAT], inputdimensions=[3, 2, 4])
    write(at("imputer_ints"), "Imputer", [numbers], [T.INT64], replaced_value_int64=3, imputed_value_int64s=[20, 30])
    scores = dict(coefficients=[1.0, 0, 0, 0, 0, 0, 0, 0, -1.0], intercepts=[0.0, 0, 0], classlabels_ints=[0, 1, 2])
    write(at("softmax_zero"), "LinearClassifier", [x], [T.INT64, T.FLOAT], post_transform="SOFTMAX_ZERO", **scores)


if __name__ == "__main__":
    main(sys.argv[1])
