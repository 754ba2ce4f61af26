"""Checks Triton's clients for REST and gRPC against rlxrun serve: check_triton.py URL GRPC-ADDRESS."""

import sys
import urllib.parse

import numpy
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils

rest = urllib.parse.urlsplit(sys.argv[1]).netloc
image = numpy.random.default_rng(1).random((1, 3, 256, 256), numpy.float32)
results = []
for module, address in (tritonclient.http, rest), (tritonclient.grpc, sys.argv[2]):
    client = module.InferenceServerClient(address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("sam.encode")
    metadata = client.get_model_metadata("sam.encode")
    inputs = metadata["inputs"] if module is tritonclient.http else metadata.inputs
    assert len(inputs) == 1, metadata
    for binary in (True, False) if module is tritonclient.http else (None,):
        options = {} if binary is None else {"binary_data": binary}
        x = module.InferInput("image", image.shape, "FP32")
        x.set_data_from_numpy(image, **options)
        out = module.InferRequestedOutput("embeddings", **options)
        results.append(client.infer("sam.encode", [x], outputs=[out]).as_numpy("embeddings"))
    try:
        client.get_model_metadata("sam.nothing")
        raise AssertionError("a model that is not there")
    except tritonclient.utils.InferenceServerException as e:
        assert "there is no model sam.nothing" in str(e), e
    wrong = module.InferInput("image", [1, 3, 256, 255], "FP32")
    wrong.set_data_from_numpy(image[..., 1:].copy())
    try:
        client.infer("sam.encode", [wrong])
        raise AssertionError("a wrong shape")
    except tritonclient.utils.InferenceServerException as e:
        assert "allowed is f32[1,3,256,256]" in str(e), e
assert all(r.shape == (1, 128, 32, 32) and numpy.array_equal(r, results[0]) for r in results)
print("triton: ok")
