"""The protocol's messages, built at run time from a compiled spec/backend.proto. This works with every release of
protobuf since 3.20."""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(
        resources.files(__package__).joinpath("backend.binpb").read_bytes())
    for f in files.file:
        pool.Add(f) if hasattr(pool, "Add") else pool.AddSerializedFile(f.SerializeToString())
    any_file = descriptor_pb2.FileDescriptorProto()
    any_pb2.DESCRIPTOR.CopyToProto(any_file)
    pool.AddSerializedFile(any_file.SerializeToString())
    status = descriptor_pb2.FileDescriptorProto(name="google/rpc/status.proto", package="google.rpc", syntax="proto3",
                                                dependency=[any_file.name])
    m = status.message_type.add(name="Status")
    kinds = descriptor_pb2.FieldDescriptorProto
    m.field.add(name="code", number=1, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    m.field.add(name="message", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    m.field.add(name="details", number=3, type=kinds.TYPE_MESSAGE, type_name=".google.protobuf.Any",
                label=kinds.LABEL_REPEATED)
    pool.AddSerializedFile(status.SerializeToString())
    return pool


_POOL = _pool()


def message(name: str) -> Any:
    """Returns the class of a message, for example message("rlx.v1.InfoReply")."""
    descriptor = _POOL.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_POOL).GetPrototype(descriptor)


_SERVICE = _POOL.FindServiceByName("rlx.v1.Backend")


def methods() -> dict[str, tuple[Any, Any]]:
    """Returns the request and reply messages of each call."""
    return {m.name: (message(m.input_type.full_name), message(m.output_type.full_name)) for m in _SERVICE.methods}


Error = message("rlx.v1.Error")
Status = message("google.rpc.Status")
InfoReply = message("rlx.v1.InfoReply")
LoadReply = message("rlx.v1.LoadReply")
RunHeader = message("rlx.v1.RunHeader")
RunReply = message("rlx.v1.RunReply")
RunResult = message("rlx.v1.RunResult")
Done = message("rlx.v1.Done")
