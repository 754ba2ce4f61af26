"""Errors with the codes of spec/protocol.md, section 7. A kernel may raise them or any other exception."""

from __future__ import annotations


class RlxError(Exception):
    """An error for the user. The message is in lower case and says what was found and what is allowed."""

    code = "RLX9001"

    def __init__(self, message: str, subject: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.subject, self.hint = message, subject, hint
        self.step, self.op, self.result = 0, "", 0


class Cancelled(RlxError):
    """The run was cancelled."""

    code = "RLX1002"


class FoundNaN(RlxError):
    """A step produced a NaN in a run with check_nan."""

    code = "RLX1003"


class BadInput(RlxError):
    """A value that the op does not allow, such as an index out of range, or sizes that the program does not allow."""

    code = "RLX3001"


class Panicked(RlxError):
    """A kernel raised an exception other than an RlxError."""

    code = "RLX5111"


class Refused(RlxError):
    """The request violates the protocol."""

    code = "RLX5115"


class Unavailable(RlxError):
    """There is no such device."""

    code = "RLX6001"


class DeviceError(RlxError):
    """The device failed."""

    code = "RLX6002"


class Unsupported(RlxError):
    """An op, element type, size or precision that the backend does not support."""

    code = "RLX7001"


class OutOfMemory(RlxError):
    """There is not enough memory."""

    code = "RLX8001"
