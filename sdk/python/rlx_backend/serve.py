"""The backend's side of the protocol: spec/protocol.md. Authors call only serve."""

from __future__ import annotations

import base64
import datetime
import os
import signal
import sys
import threading
from concurrent import futures
from typing import Any, Callable, Iterator

import grpc

from . import messages
from .errors import Refused
from .kernels import Backend
from .service import MAX_MESSAGE, Service, status

COOKIE = ("RLX_BACKEND", "1f6d3a52c7e84b0e9d0b5a6f2c91e0d4")
VERSION = 2
LONGEST_CALL = 1e9  # seconds; a longer deadline is none


def _certificate() -> tuple[bytes, bytes, bytes]:
    """Returns a P-256 key and a self-signed certificate as PEM, and the certificate as DER."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name(
        [x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    cert = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(
            x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False).sign(key,
            hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return (key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
            cert.public_bytes(pem),
            cert.public_bytes(serialization.Encoding.DER))


def _abort(context: grpc.ServicerContext, err: BaseException) -> None:
    s = status(err)
    context.set_trailing_metadata((("grpc-status-details-bin", s.SerializeToString()),))
    code = next(c for c in grpc.StatusCode if c.value[0] == s.code)
    context.abort(code, s.message)


def _handler(f: Callable[..., Any], takes: Any, gives: Any, many_in: bool, many_out: bool) -> grpc.RpcMethodHandler:
    """Wraps a call. Its errors become a status with a detail."""

    def check(context: Any) -> None:
        left = context.time_remaining()  # grpcio answers None or some hundred years if there is no deadline
        if left is None or left > LONGEST_CALL:
            raise Refused("the call has no deadline")

    def one(request: Any, context: Any) -> Any:
        try:
            check(context)
            return f(request, context)
        except Exception as err:
            _abort(context, err)

    def many(request: Any, context: Any) -> Iterator[Any]:
        try:
            check(context)
            yield from f(request, context)
        except Exception as err:
            _abort(context, err)

    kind = {(False, False): grpc.unary_unary_rpc_method_handler, (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler}[many_in, many_out]
    return kind(many if many_out else one, request_deserializer=takes.FromString,
                response_serializer=lambda m: m.SerializeToString())


_STREAMS = {"Load": (True, False), "Run": (True, True), "Stats": (False, True), "ReadState": (False, True),
            "WriteState": (True, False), "SetWeights": (True, False)}


def _end() -> None:
    """Kills this process and its children."""
    if os.getpgrp() == os.getpid():
        os.kill(0, signal.SIGKILL)
    os._exit(1)


def _watch(fd: int) -> None:
    os.read(fd, 1)  # returns when the host has exited
    _end()


def serve(backend: Backend) -> None:
    """Serves the backend to the host that started this process, and returns when the host ends the session."""
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.exit(
            f"rlx-backend-{backend.name} is a backend of rlxrun, which starts it: rlxrun MODEL.rlx --backend {backend.name}")
    if str(VERSION) not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "").split(","):
        sys.exit(
            f"rlx-backend-{backend.name} speaks protocol version {VERSION}; the host, {os.environ.get('PLUGIN_PROTOCOL_VERSIONS')}")
    fds = {name: int(fd) for name, fd in (e.split("=") for e in os.environ["RLX_FDS"].split(","))}
    for fd in fds.values():
        os.set_inheritable(fd, False)
    threading.Thread(target=_watch, args=(fds["lifeline"],), daemon=True).start()
    key, cert, der = _certificate()
    options = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE),
               ("grpc.max_concurrent_streams", 32),
               ("grpc.max_metadata_size", 64 << 10), ("grpc.so_reuseport", 0)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=32), options=options)
    service, ended = Service(backend, fds), threading.Event()
    handlers = {name: _handler(getattr(service, name), takes, gives, *_STREAMS.get(name, (False, False))) for name,
                (takes, gives) in messages.methods().items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("rlx.v1.Backend", handlers),))

    def shutdown(request: bytes, context: Any) -> bytes:
        ended.set()
        return b""

    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("plugin.GRPCController",
                                              {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)}),))
    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "backend.sock")
    server.add_secure_port("unix:" + path,
                           grpc.ssl_server_credentials([(key, cert)], os.environ["PLUGIN_CLIENT_CERT"].encode(),
                               require_client_auth=True))
    server.start()
    print(f"1|{VERSION}|unix|{path}|grpc|{base64.b64encode(der).decode().rstrip('=')}", flush=True)
    sys.stdout = sys.stderr
    ended.wait()
    server.stop(0.2).wait(0.5)
    os._exit(0)
