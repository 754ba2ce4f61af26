"""Checks the clients of KServe's SDK for REST and gRPC against rlxrun serve: check_kserve.py URL GRPC-ADDRESS."""

import asyncio
import sys
import urllib.parse

import grpc
import httpx
import numpy
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

base = "http://" + urllib.parse.urlsplit(sys.argv[1]).netloc
image = numpy.random.default_rng(1).random((1, 3, 256, 256), numpy.float32)
points = numpy.array([[[128, 128]]], numpy.float32)
labels = numpy.array([[1]], numpy.int32)


def request(method, binary, **inputs):
    tensors = []
    for name, value in inputs.items():
        x = InferInput(name, list(value.shape), {"float32": "FP32", "int32": "INT32"}[str(value.dtype)])
        x.set_data_from_numpy(value, binary_data=binary)
        tensors.append(x)
    outputs = ["embeddings"] if method == "encode" else ["low_res_masks", "iou"]
    wanted = [RequestedOutput(name, {"binary_data": binary}) for name in outputs]
    return InferRequest("sam." + method, tensors, request_id="7", request_outputs=wanted)


async def check():
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    calls = InferenceGRPCClient(sys.argv[2])
    assert await rest.is_server_live(base) and await rest.is_server_ready(base)
    assert await rest.is_model_ready(base, "sam.encode")
    assert await calls.is_server_live() and await calls.is_server_ready() and await calls.is_model_ready("sam.encode")

    async def infer(client, q):
        if client is rest:
            return await rest.infer(base, q, model_name=q.model_name)
        return await client.infer(q)

    results = []
    for client, binary in (rest, True), (rest, False), (calls, True):
        a = await infer(client, request("encode", binary, image=image))
        assert a.id == "7" and a.model_name == "sam.encode"
        embeddings = a.outputs[0].as_numpy()
        assert embeddings.shape == (1, 128, 32, 32), embeddings.shape
        b = await infer(client, request("decode", binary, embeddings=embeddings, points=points, labels=labels))
        results.append((embeddings, b.outputs[0].as_numpy(), b.outputs[1].as_numpy()))
    assert all(numpy.array_equal(x, y) for r in results for x, y in zip(r, results[0]))
    wrong = dict(image=image[..., 1:].copy())
    try:
        await infer(rest, request("encode", True, **wrong))
        raise AssertionError("a wrong shape")
    except httpx.HTTPStatusError as e:
        assert "allowed is f32[1,3,256,256]" in str(e) and e.response.status_code == 400, e
    try:
        await infer(calls, request("encode", True, **wrong))
        raise AssertionError("a wrong shape")
    except grpc.RpcError as e:
        assert "allowed is f32[1,3,256,256]" in e.details() and e.code() == grpc.StatusCode.INVALID_ARGUMENT, e
    await calls.close()


asyncio.run(check())
print("kserve: ok")
