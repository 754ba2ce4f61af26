"""check.py: validates the manifests of this folder against the schemas of Kubernetes and KServe.

It needs kubectl, which applies kustomize, and pip install kubernetes-validate kserve 'kubernetes<32'. make test-deploy
calls it.
"""

import json, os, subprocess, sys, types

import kserve.models, kubernetes.client, kubernetes_validate, yaml

here = os.path.dirname(os.path.abspath(__file__))
made = subprocess.run(["kubectl", "kustomize", os.path.join(here, "kubernetes")], check=True, stdout=subprocess.PIPE)
for d in yaml.safe_load_all(made.stdout):
    kubernetes_validate.validate(d, "1.33", strict=True)
    print("kubernetes/%s: valid" % d["kind"])

# KServe has no schemas in its package, but types, which keep only what they know.
for name in dir(kserve.models):
    if name.startswith("V1"):
        setattr(kubernetes.client.models, name, getattr(kserve.models, name))
with open(os.path.join(here, "kserve", "runtime.yaml")) as f:
    d = yaml.safe_load(f)
api = kubernetes.client.ApiClient()
typed = api.deserialize(types.SimpleNamespace(data=json.dumps(d)), "V1alpha1ServingRuntime")
if api.sanitize_for_serialization(typed) != d:
    sys.exit("kserve/runtime.yaml: KServe's types do not keep all of it:\n" + str(typed))
print("kserve/ServingRuntime: valid")
