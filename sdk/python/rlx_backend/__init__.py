"""A backend of RLX in Python: write kernels, call serve.

    from rlx_backend import Backend, Device, serve

    backend = Backend("mine", "1.0", [Device("0", "My device")])

    @backend.kernel("neg", dtypes=("f32",))
    def neg(attrs, x, out):
        np.negative(x, out=out)

    serve(backend)

`rlxrun plugins test ./rlx-backend-mine` runs the conformance suite on it.
"""

from .errors import (BadInput, Cancelled, DeviceError, FoundNaN, OutOfMemory, Panicked, Refused, RlxError, Unavailable,
                     Unsupported)
from .kernels import Backend, Device
from .program import Attrs, Node, Program, Value
from .serve import serve

__all__ = ["Attrs", "BadInput", "Backend", "Cancelled", "Device", "DeviceError", "FoundNaN", "Node", "OutOfMemory",
           "Panicked", "Program", "Refused",
           "RlxError", "Unavailable", "Unsupported", "Value", "serve"]
