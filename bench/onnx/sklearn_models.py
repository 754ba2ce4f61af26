"""sklearn_models.py DIR [REGEXP]: fits small models of scikit-learn, XGBoost, LightGBM and CatBoost, exports them with
skl2onnx, onnxmltools or their own exporters, and writes them to DIR/NAME as models.py does.

A row of the result of ZipMap is what its map has for a row. Names end in the form: binary or three classes, f64 inputs,
zipmap, text labels, raw scores. Models of text have no inputs: rlxc refuses them. It needs scikit-learn, skl2onnx,
onnxmltools, xgboost, lightgbm, catboost, onnx and onnxruntime.
"""

import os, re, sys, warnings

warnings.filterwarnings("ignore")
import numpy as np, onnx, onnxruntime as ort
from onnx import numpy_helper
import skl2onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn import (
    calibration,
    cluster,
    compose,
    covariance,
    cross_decomposition,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    feature_selection,
    gaussian_process,
    impute,
    kernel_approximation,
    linear_model,
    mixture,
    model_selection,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    random_projection,
    semi_supervised,
    svm,
    tree,
)
from sklearn.gaussian_process import kernels as K

rng = np.random.default_rng(7)
ROWS, FEATURES = 90, 4
X = rng.standard_normal((ROWS, FEATURES)).astype(np.float32)
POSITIVE = rng.integers(0, 6, (ROWS, FEATURES)).astype(np.float32)
INTS = rng.integers(0, 4, (ROWS, 3)).astype(np.int64)
GAPS = np.where(rng.random(X.shape) < 0.2, np.nan, X).astype(np.float32)
score = X @ np.array([1, -2, 0.5, 1]) + np.sin(3 * X[:, 0])
BINARY = (score > 0).astype(np.int64)
THREE = np.digitize(score, [-1, 1]).astype(np.int64)
MANY = np.digitize(score, [-2, -1, 0, 1, 2]).astype(np.int64)
REAL = score.astype(np.float32)
TWO = np.stack([score, X[:, 0] ** 2], 1).astype(np.float32)
LABELS = np.stack([BINARY, (X[:, 1] > 0.2).astype(np.int64)], 1)

L, E, P, N = linear_model, ensemble, preprocessing, neighbors
classifiers = {
    "logistic": L.LogisticRegression,
    "logistic_cv": lambda: L.LogisticRegressionCV(cv=3),
    "logistic_l1": lambda: L.LogisticRegression(penalty="l1", solver="liblinear"),
    "ridge": L.RidgeClassifier,
    "ridge_cv": L.RidgeClassifierCV,
    "perceptron": L.Perceptron,
    "passive_aggressive": L.PassiveAggressiveClassifier,
    "sgd": L.SGDClassifier,
    "sgd_log": lambda: L.SGDClassifier(loss="log_loss"),
    "sgd_huber": lambda: L.SGDClassifier(loss="modified_huber"),
    "linear_svc": svm.LinearSVC,
    "svc": svm.SVC,
    "svc_linear": lambda: svm.SVC(kernel="linear"),
    "svc_poly": lambda: svm.SVC(kernel="poly", coef0=1),
    "svc_sigmoid": lambda: svm.SVC(kernel="sigmoid"),
    "svc_probability": lambda: svm.SVC(probability=True),
    "nu_svc": svm.NuSVC,
    "svc_ovo": lambda: svm.SVC(decision_function_shape="ovo"),
    "nu_svc_probability": lambda: svm.NuSVC(probability=True),
    "tree": lambda: tree.DecisionTreeClassifier(max_depth=4),
    "extra_tree": lambda: tree.ExtraTreeClassifier(max_depth=4),
    "forest": lambda: E.RandomForestClassifier(7, max_depth=4),
    "extra_trees": lambda: E.ExtraTreesClassifier(7),
    "gradient": lambda: E.GradientBoostingClassifier(n_estimators=7),
    "gradient_exponential": lambda: E.GradientBoostingClassifier(n_estimators=7, loss="exponential"),
    "gradient_zero": lambda: E.GradientBoostingClassifier(n_estimators=5, init="zero"),
    "hist_gradient": lambda: E.HistGradientBoostingClassifier(max_iter=7),
    "ada": lambda: E.AdaBoostClassifier(n_estimators=5),
    "bagging": lambda: E.BaggingClassifier(L.LogisticRegression(), 4),
    "bagging_trees": lambda: E.BaggingClassifier(n_estimators=4),
    "voting_soft": lambda: E.VotingClassifier(
        [("a", L.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))],
        voting="soft",
        flatten_transform=False,
    ),
    "voting_hard": lambda: E.VotingClassifier(
        [("a", L.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))],
        voting="hard",
        flatten_transform=False,
    ),
    "stacking": lambda: E.StackingClassifier([("a", L.LogisticRegression()), ("b", naive_bayes.GaussianNB())], cv=2),
    "gaussian_nb": naive_bayes.GaussianNB,
    "bernoulli_nb": naive_bayes.BernoulliNB,
    "neighbors": N.KNeighborsClassifier,
    "neighbors_distance": lambda: N.KNeighborsClassifier(3, weights="distance"),
    "neighbors_manhattan": lambda: N.KNeighborsClassifier(3, metric="manhattan"),
    "radius": lambda: N.RadiusNeighborsClassifier(radius=9.0),
    "mlp": lambda: neural_network.MLPClassifier((6, 5), max_iter=60),
    "mlp_tanh": lambda: neural_network.MLPClassifier((6,), activation="tanh", max_iter=60),
    "mlp_logistic": lambda: neural_network.MLPClassifier((6,), activation="logistic", max_iter=60),
    "lda": discriminant_analysis.LinearDiscriminantAnalysis,
    "qda": discriminant_analysis.QuadraticDiscriminantAnalysis,
    "gaussian_process": lambda: gaussian_process.GaussianProcessClassifier(K.RBF()),
    "calibrated": lambda: calibration.CalibratedClassifierCV(L.LogisticRegression(), cv=2),
    "calibrated_isotonic": lambda: calibration.CalibratedClassifierCV(
        naive_bayes.GaussianNB(), cv=2, method="isotonic"
    ),
    "calibrated_svc": lambda: calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=2),
    "one_vs_rest": lambda: multiclass.OneVsRestClassifier(L.LogisticRegression()),
    "one_vs_one": lambda: multiclass.OneVsOneClassifier(L.LogisticRegression()),
    "grid": lambda: model_selection.GridSearchCV(L.LogisticRegression(), {"C": [1, 2]}, cv=2),
    "pipeline": lambda: pipeline.make_pipeline(P.StandardScaler(), decomposition.PCA(2), L.LogisticRegression()),
    "pipeline_svc": lambda: pipeline.make_pipeline(P.MinMaxScaler(), svm.SVC(probability=True)),
    "columns": lambda: pipeline.make_pipeline(
        compose.ColumnTransformer(
            [("s", P.StandardScaler(), [0, 2]), ("m", P.MinMaxScaler(), [1])], remainder="passthrough"
        ),
        E.RandomForestClassifier(5, max_depth=3),
    ),
    "dummy_free_feature": lambda: pipeline.make_pipeline(feature_selection.SelectKBest(k=2), L.LogisticRegression()),
}
positive_classifiers = {
    "multinomial_nb": naive_bayes.MultinomialNB,
    "complement_nb": naive_bayes.ComplementNB,
    "categorical_nb": naive_bayes.CategoricalNB,
}
regressors = {
    "linear": L.LinearRegression,
    "ridge": L.Ridge,
    "ridge_cv": L.RidgeCV,
    "lasso": lambda: L.Lasso(0.1),
    "elastic_net": lambda: L.ElasticNet(0.1),
    "lars": L.Lars,
    "lasso_lars": lambda: L.LassoLars(0.1),
    "omp": L.OrthogonalMatchingPursuit,
    "bayesian_ridge": L.BayesianRidge,
    "ard": L.ARDRegression,
    "huber": L.HuberRegressor,
    "theil_sen": L.TheilSenRegressor,
    "ransac": L.RANSACRegressor,
    "sgd": L.SGDRegressor,
    "quantile": lambda: L.QuantileRegressor(alpha=0.1),
    "passive_aggressive": L.PassiveAggressiveRegressor,
    "linear_svr": svm.LinearSVR,
    "svr": svm.SVR,
    "svr_linear": lambda: svm.SVR(kernel="linear"),
    "svr_poly": lambda: svm.SVR(kernel="poly", degree=2, coef0=0.5),
    "svr_sigmoid": lambda: svm.SVR(kernel="sigmoid"),
    "nu_svr": svm.NuSVR,
    "tree": lambda: tree.DecisionTreeRegressor(max_depth=5),
    "extra_tree": lambda: tree.ExtraTreeRegressor(max_depth=5),
    "forest": lambda: E.RandomForestRegressor(7, max_depth=5),
    "extra_trees": lambda: E.ExtraTreesRegressor(7),
    "gradient": lambda: E.GradientBoostingRegressor(n_estimators=7),
    "hist_gradient": lambda: E.HistGradientBoostingRegressor(max_iter=7),
    "ada": lambda: E.AdaBoostRegressor(n_estimators=5),
    "bagging": lambda: E.BaggingRegressor(n_estimators=4),
    "voting": lambda: E.VotingRegressor([("a", L.LinearRegression()), ("b", tree.DecisionTreeRegressor(max_depth=3))]),
    "stacking": lambda: E.StackingRegressor([("a", L.LinearRegression()), ("b", L.Ridge())], cv=2),
    "neighbors": N.KNeighborsRegressor,
    "neighbors_distance": lambda: N.KNeighborsRegressor(3, weights="distance"),
    "neighbors_minkowski": lambda: N.KNeighborsRegressor(3, p=3),
    "radius": lambda: N.RadiusNeighborsRegressor(radius=9.0),
    "mlp": lambda: neural_network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=60),
    "gaussian_process": lambda: gaussian_process.GaussianProcessRegressor(K.RBF() + K.WhiteKernel(), alpha=0.1),
    "gaussian_process_matern": lambda: gaussian_process.GaussianProcessRegressor(
        K.ConstantKernel() * K.Matern(nu=1.5), alpha=0.1
    ),
    "gaussian_process_quadratic": lambda: gaussian_process.GaussianProcessRegressor(K.RationalQuadratic(), alpha=0.1),
    "gaussian_process_periodic": lambda: gaussian_process.GaussianProcessRegressor(K.ExpSineSquared(), alpha=0.1),
    "gaussian_process_dot": lambda: gaussian_process.GaussianProcessRegressor(K.DotProduct(), alpha=0.1),
    "pls": cross_decomposition.PLSRegression,
    "polynomial": lambda: pipeline.make_pipeline(P.PolynomialFeatures(2), L.Ridge()),
}
positive_regressors = {
    "gamma": L.GammaRegressor,
    "poisson": L.PoissonRegressor,
    "tweedie": lambda: L.TweedieRegressor(power=1.5),
}
several = {
    "linear": L.LinearRegression,
    "multi_lasso": lambda: L.MultiTaskLasso(0.1),
    "multi_elastic": lambda: L.MultiTaskElasticNet(0.1),
    "tree": lambda: tree.DecisionTreeRegressor(max_depth=4),
    "forest": lambda: E.RandomForestRegressor(5, max_depth=4),
    "neighbors": N.KNeighborsRegressor,
    "mlp": lambda: neural_network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=60),
    "multi_output": lambda: multioutput.MultiOutputRegressor(L.Ridge()),
    "chain": lambda: multioutput.RegressorChain(L.Ridge()),
    "pls": cross_decomposition.PLSRegression,
}
several_classes = {
    "multi_output": lambda: multioutput.MultiOutputClassifier(L.LogisticRegression()),
    "chain": lambda: multioutput.ClassifierChain(L.LogisticRegression()),
    "forest": lambda: E.RandomForestClassifier(5, max_depth=3),
    "tree": lambda: tree.DecisionTreeClassifier(max_depth=3),
    "mlp": lambda: neural_network.MLPClassifier((6,), max_iter=60),
    "one_vs_rest": lambda: multiclass.OneVsRestClassifier(L.LogisticRegression()),
    "neighbors": N.KNeighborsClassifier,
}
transformers = {
    "standard": P.StandardScaler,
    "standard_no_mean": lambda: P.StandardScaler(with_mean=False),
    "min_max": P.MinMaxScaler,
    "min_max_clip": lambda: P.MinMaxScaler(clip=True),
    "max_abs": P.MaxAbsScaler,
    "robust": P.RobustScaler,
    "normalizer": P.Normalizer,
    "normalizer_l1": lambda: P.Normalizer("l1"),
    "normalizer_max": lambda: P.Normalizer("max"),
    "binarizer": lambda: P.Binarizer(threshold=0.2),
    "polynomial": lambda: P.PolynomialFeatures(3),
    "polynomial_interaction": lambda: P.PolynomialFeatures(2, interaction_only=True, include_bias=False),
    "power": P.PowerTransformer,
    "quantile": lambda: P.QuantileTransformer(n_quantiles=20),
    "quantile_normal": lambda: P.QuantileTransformer(n_quantiles=20, output_distribution="normal"),
    "bins": lambda: P.KBinsDiscretizer(4, encode="ordinal"),
    "bins_onehot": lambda: P.KBinsDiscretizer(3, encode="onehot-dense"),
    "function": P.FunctionTransformer,
    "pca": lambda: decomposition.PCA(2),
    "pca_whiten": lambda: decomposition.PCA(2, whiten=True),
    "kernel_pca": lambda: decomposition.KernelPCA(2, kernel="rbf"),
    "kernel_pca_poly": lambda: decomposition.KernelPCA(2, kernel="poly"),
    "kernel_pca_cosine": lambda: decomposition.KernelPCA(2, kernel="cosine"),
    "incremental_pca": lambda: decomposition.IncrementalPCA(2),
    "truncated_svd": lambda: decomposition.TruncatedSVD(2),
    "projection": lambda: random_projection.GaussianRandomProjection(2),
    "variance": feature_selection.VarianceThreshold,
    "k_best": lambda: feature_selection.SelectKBest(k=2),
    "percentile": lambda: feature_selection.SelectPercentile(percentile=50),
    "from_model": lambda: feature_selection.SelectFromModel(L.LinearRegression()),
    "rfe": lambda: feature_selection.RFE(L.LinearRegression()),
    "k_means": lambda: cluster.KMeans(3, n_init=2),
    "mini_k_means": lambda: cluster.MiniBatchKMeans(3, n_init=2),
    "mixture": lambda: mixture.GaussianMixture(3),
    "mixture_tied": lambda: mixture.GaussianMixture(3, covariance_type="tied"),
    "mixture_diag": lambda: mixture.GaussianMixture(3, covariance_type="diag"),
    "mixture_bayesian": lambda: mixture.BayesianGaussianMixture(n_components=2),
    "mixture_spherical": lambda: mixture.GaussianMixture(3, covariance_type="spherical"),
    "isolation": lambda: E.IsolationForest(n_estimators=9),
    "outlier_factor": lambda: N.LocalOutlierFactor(novelty=True),
    "one_class_svm": svm.OneClassSVM,
    "sgd_one_class": L.SGDOneClassSVM,
    "knn_transformer": lambda: N.KNeighborsTransformer(n_neighbors=3),
    "random_trees": lambda: E.RandomTreesEmbedding(4, max_depth=3, sparse_output=False),
    "union": lambda: pipeline.make_union(P.StandardScaler(), decomposition.PCA(2)),
    "columns": lambda: compose.ColumnTransformer(
        [("s", P.StandardScaler(), [0, 2]), ("b", P.Binarizer(), [1])], remainder="drop"
    ),
}
imputers = {
    "mean": impute.SimpleImputer,
    "median": lambda: impute.SimpleImputer(strategy="median"),
    "frequent": lambda: impute.SimpleImputer(strategy="most_frequent"),
    "constant": lambda: impute.SimpleImputer(strategy="constant", fill_value=5.0),
    "knn": lambda: impute.KNNImputer(n_neighbors=2),
    "mean_indicator": lambda: impute.SimpleImputer(add_indicator=True),
    "pipeline": lambda: pipeline.make_pipeline(impute.SimpleImputer(), P.StandardScaler()),
}
encoders = {
    "onehot": lambda: P.OneHotEncoder(sparse_output=False),
    "onehot_sparse": P.OneHotEncoder,
    "onehot_ignore": lambda: P.OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    "onehot_drop": lambda: P.OneHotEncoder(drop="first", sparse_output=False),
    "ordinal": P.OrdinalEncoder,
    "ordinal_unknown": lambda: P.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "target": lambda: P.TargetEncoder(target_type="binary"),
    "columns": lambda: compose.ColumnTransformer(
        [("o", P.OneHotEncoder(sparse_output=False), [0, 1]), ("s", "passthrough", [2])]
    ),
}


def skl(m, x, types=None, zipmap=None, opset=None, raw=False):
    kind = {np.float32: FloatTensorType, np.float64: DoubleTensorType, np.int64: Int64TensorType}[x.dtype.type]
    o = {}
    if zipmap is not None and hasattr(m, "predict_proba"):
        o["zipmap"] = zipmap
    if raw:
        o["raw_scores"] = True
    return skl2onnx.to_onnx(
        m,
        initial_types=types or [("X", kind([None, x.shape[1]]))],
        options={id(m): o} if o else None,
        target_opset=opset,
    )


def flat(v):
    """Returns a result as an array, also one of ZipMap."""
    if isinstance(v, list):
        return np.array([list(r.values()) for r in v], np.float32)
    return v


def save(path, name, a):
    open(path, "wb").write(numpy_helper.from_array(np.ascontiguousarray(a), name).SerializeToString())


def write(out, name, m, feeds):
    d = os.path.join(out, name)
    os.makedirs(d, exist_ok=True)
    open(os.path.join(d, "model.onnx"), "wb").write(m.SerializeToString())
    open(os.path.join(d, "tolerance"), "w").write("largest 1e-4")
    s = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    text = any(v.dtype.kind in "OU" for v in feeds[0].values())
    for k, feed in enumerate(feeds):
        to = os.path.join(d, f"size{k}") if k else d
        os.makedirs(to, exist_ok=True)
        results = [flat(v) for v in s.run(None, feed)]
        if text or any(v.dtype.kind in "OU" for v in results):
            break
        for i, (n, v) in enumerate(feed.items()):
            save(os.path.join(to, f"input_{i}.pb"), n, v)
        for i, v in enumerate(results):
            save(os.path.join(to, f"output_{i}.pb"), "", v)


def cases():
    """Yields names, and functions that return a model and its inputs."""

    def one(make, x, y, wide=False, **kw):
        def f():
            np.random.seed(1)
            m = make()
            m.fit(x, y) if y is not None else m.fit(x)
            z = x.astype(np.float64) if wide else x
            return skl(m, z, **kw), [{"X": z[:17]}, {"X": z[20:21]}]

        return f

    for name, make in classifiers.items():
        yield f"{name}_binary", one(make, X, BINARY, zipmap=False)
        yield f"{name}_three", one(make, X, THREE + 3, zipmap=False)
        yield f"{name}_zipmap", one(make, X, THREE, zipmap=True)
        yield f"{name}_f64", one(make, X, THREE, wide=True, zipmap=False)
        yield f"{name}_opset12", one(make, X, BINARY, zipmap=False, opset={"": 12, "ai.onnx.ml": 1})
        yield f"{name}_text", one(make, X, np.array(["no", "yes"])[BINARY], zipmap=False)
    for name in ["logistic", "svc", "svc_probability", "linear_svc", "mlp", "gradient", "sgd", "svc_linear"]:
        yield f"{name}_raw", one(classifiers[name], X, THREE, raw=True, zipmap=False)
        yield f"{name}_raw_binary", one(classifiers[name], X, BINARY, raw=True, zipmap=False)
        yield f"{name}_six", one(classifiers[name], X, MANY, zipmap=False)
    for name, make in positive_classifiers.items():
        for form, y in [("binary", BINARY), ("three", THREE)]:
            yield f"{name}_{form}", one(make, POSITIVE, y, zipmap=False)
    for kind, group, x, y in [
        ("regressor", regressors, X, REAL),
        ("regressor_positive", positive_regressors, X, abs(REAL) + 1),
        ("regressor_two", several, X, TWO),
        ("transformer", transformers, X, REAL),
    ]:
        for name, make in group.items():
            yield f"{kind}_{name}", one(make, x, y)
            yield f"{kind}_{name}_f64", one(make, x, y, wide=True)
    for name, make in several_classes.items():
        yield f"classes_two_{name}", one(make, X, LABELS, zipmap=False)
    for name, make in imputers.items():
        yield f"imputer_{name}", one(make, GAPS, None)
        yield f"imputer_{name}_f64", one(make, GAPS, None, wide=True)
    for name, make in encoders.items():
        yield f"encoder_{name}", one(make, INTS, BINARY[: len(INTS)])
    yield "hist_gradient_missing", one(lambda: E.HistGradientBoostingClassifier(max_iter=7), GAPS, THREE, zipmap=False)
    yield from others()


def others():
    """Yields gradient boosting of other packages, and models of text and of several inputs."""
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType as F
    import catboost, lightgbm, xgboost

    types = [("X", F([None, FEATURES]))]
    feeds = lambda x: [{"X": x[:17]}, {"X": x[20:21]}]
    data = [("binary", BINARY), ("three", THREE), ("missing", THREE)]

    for form, y in data:
        x = GAPS if form == "missing" else X
        yield f"xgboost_{form}", lambda x=x, y=y: (
            convert_xgboost(xgboost.XGBClassifier(n_estimators=6, max_depth=3).fit(x, y), "x", types),
            feeds(x),
        )
        yield f"lightgbm_{form}", lambda x=x, y=y: (
            convert_lightgbm(
                lightgbm.LGBMClassifier(n_estimators=6, verbose=-1).fit(x, y), initial_types=types, zipmap=False
            ),
            feeds(x),
        )
        yield f"lightgbm_{form}_zipmap", lambda x=x, y=y: (
            convert_lightgbm(lightgbm.LGBMClassifier(n_estimators=6, verbose=-1).fit(x, y), initial_types=types),
            feeds(x),
        )
    for name, make in [
        ("", {}),
        ("_poisson", dict(objective="count:poisson")),
        ("_gamma", dict(objective="reg:gamma")),
        ("_random_forest", dict(num_parallel_tree=3)),
        ("_dart", dict(booster="dart")),
        ("_linear", dict(booster="gblinear")),
        ("_logistic", dict(objective="reg:logistic")),
        ("_huber", dict(objective="reg:pseudohubererror")),
    ]:
        y = (
            abs(REAL) + 1
            if name in ("_poisson", "_gamma")
            else 1 / (1 + np.exp(-REAL)) if name == "_logistic" else REAL
        )
        yield f"xgboost_regressor{name}", lambda y=y, make=make: (
            convert_xgboost(xgboost.XGBRegressor(n_estimators=6, max_depth=3, **make).fit(X, y), "x", types),
            feeds(X),
        )
    for name, make in [
        ("", {}),
        ("_poisson", dict(objective="poisson")),
        ("_l1", dict(objective="regression_l1")),
        ("_forest", dict(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7)),
        ("_dart", dict(boosting_type="dart")),
        ("_tweedie", dict(objective="tweedie")),
        ("_quantile", dict(objective="quantile")),
    ]:
        y = abs(REAL) + 1 if name in ("_poisson", "_tweedie") else REAL
        yield f"lightgbm_regressor{name}", lambda y=y, make=make: (
            convert_lightgbm(lightgbm.LGBMRegressor(n_estimators=6, verbose=-1, **make).fit(X, y), initial_types=types),
            feeds(X),
        )

    def categories():
        c = np.concatenate([X[:, :3], INTS[:, :1].astype(np.float32)], 1)
        m = lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, min_data_in_leaf=2).fit(
            c, INTS[:, 0] % 2, categorical_feature=[3]
        )
        return convert_lightgbm(m, initial_types=types, zipmap=False), feeds(c)

    yield "lightgbm_categories", categories

    def cat(m, y):
        def f():
            m.fit(X, y, verbose=False)
            path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"cat{os.getpid()}.onnx")
            m.save_model(path, format="onnx")
            p = onnx.load(path)
            os.remove(path)
            return p, [{"features": v["X"]} for v in feeds(X)]

        return f

    for form, y in data[:2]:
        yield f"catboost_{form}", cat(catboost.CatBoostClassifier(iterations=6, depth=3, allow_writing_files=False), y)
    yield "catboost_regressor", cat(catboost.CatBoostRegressor(iterations=6, depth=3, allow_writing_files=False), REAL)

    def inputs():
        import pandas as pd

        frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": INTS[:, 0]})
        t = compose.ColumnTransformer([("s", P.StandardScaler(), ["a", "b"]), ("o", P.OneHotEncoder(), ["c"])])
        m = pipeline.make_pipeline(t, L.LogisticRegression()).fit(frame, BINARY)
        p = skl2onnx.to_onnx(
            m,
            initial_types=[
                ("a", FloatTensorType([None, 1])),
                ("b", FloatTensorType([None, 1])),
                ("c", Int64TensorType([None, 1])),
            ],
            options={id(m): {"zipmap": False}},
        )
        return p, [{"a": X[s, :1], "b": X[s, 1:2], "c": INTS[s, :1]} for s in (slice(17), slice(20, 21))]

    yield "frame", inputs

    def text(m, words):
        def f():
            m.fit(words)
            return skl2onnx.to_onnx(m, initial_types=[("X", StringTensorType([None, 1]))]), [
                {"X": np.array(words).reshape(-1, 1)}
            ]

        return f

    yield "text_onehot", text(P.OneHotEncoder(), [["a"], ["b"], ["a"]])
    yield "text_count", text(feature_extraction.text.CountVectorizer(), ["a cat sat", "the dog"])
    yield "text_tfidf", text(feature_extraction.text.TfidfVectorizer(), ["a cat sat", "the dog"])


def main(out, pattern=""):
    for name, make in cases():
        if not re.search(pattern, name):
            continue
        try:
            write(out, name, *make())
            print("ok", name, flush=True)
        except Exception as e:
            path = os.path.join(out, name, "model.onnx")
            if os.path.exists(path):
                os.remove(path)
            print("FAIL", name, type(e).__name__, str(e)[:200].replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
