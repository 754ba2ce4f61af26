"""Errors with the codes of spec/protocol.md, section 7. A kernel may raise any of them, or any other exception."""

from __future__ import annotations


class RlxError(Exception):
    """An error that the user reads: lower case, what was found, what is allowed."""

    code = "RLX9001"

    def __init__(self, message: str, subject: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.subject, self.hint = message, subject, hint
        self.step, self.op, self.result = 0, "", 0


class Cancelled(RlxError):
    """The run was cancelled."""

    code = "RLX1002"


class FoundNaN(RlxError):
    """A step made a NaN in a run that was to look for one."""

    code = "RLX1003"


class BadInput(RlxError):
    """A value that the op does not take, such as an index out of range, or sizes that the program does not take."""

    code = "RLX3001"


class Panicked(RlxError):
    """A kernel raised an exception that is no RlxError."""

    code = "RLX5111"


class Refused(RlxError):
    """The request is against the protocol."""

    code = "RLX5115"


class Unavailable(RlxError):
    """There is no such device."""

    code = "RLX6001"


class DeviceError(RlxError):
    """The device failed."""

    code = "RLX6002"


class Unsupported(RlxError):
    """An op, element type, size or precision that the backend does not run."""

    code = "RLX7001"


class OutOfMemory(RlxError):
    """Memory could not be had."""

    code = "RLX8001"
