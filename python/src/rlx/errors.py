"""Errors. Each has a stable code, which ``rlxrun explain CODE`` explains."""

from __future__ import annotations


class Error(Exception):
    """An error of RLX.

    code     a stable code such as "RLX3001"; empty for errors of the system
    subject  the file, input or option in question; may be empty
    hint     how to fix it; may be empty
    """

    def __init__(self, message: str, code: str = "", subject: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code, self.subject, self.hint = code, subject, hint

    def __str__(self) -> str:
        text = super().__str__()
        if self.code and self.code not in text:
            text = f"{text} [{self.code}]"
        return f"{text}\nhint: {self.hint}" if self.hint else text


class CheckError(Error):
    """A check failed (RLX1nnn)."""


class Cancelled(CheckError):
    """The call was cancelled (RLX1002)."""


class UsageError(Error, ValueError):
    """An option, a method or a prompt that does not exist or is not allowed (RLX2nnn)."""


class InputError(Error, ValueError):
    """A source file or an input that is missing, or has a wrong type, shape or value (RLX3nnn)."""


class ArtifactError(Error):
    """The file is no artifact, is damaged or has another version (RLX4nnn)."""


class BackendError(Error):
    """The backend was not found, could not be started, or has ended (RLX5nnn). Load the model again."""


class Timeout(BackendError, TimeoutError):
    """The call took longer than allowed (RLX5202)."""


class DeviceError(Error):
    """The device does not exist or failed (RLX6nnn)."""


class UnsupportedError(Error, NotImplementedError):
    """The backend does not run an op of the model, or does not have the precision (RLX7nnn)."""


class MemoryLimitError(Error, MemoryError):
    """A memory limit would be exceeded (RLX8nnn)."""


class InternalError(Error):
    """A bug in RLX (RLX9nnn)."""


_classes: dict[str, type[Error]] = {
    "1": CheckError, "2": UsageError, "3": InputError, "4": ArtifactError, "5": BackendError, "6": DeviceError,
    "7": UnsupportedError, "8": MemoryLimitError, "9": InternalError,
}
_single: dict[str, type[Error]] = {"RLX1002": Cancelled, "RLX5202": Timeout}


def error(code: str = "", subject: str = "", message: str = "", hint: str = "") -> Error:
    """Return the error of the class that belongs to a code."""
    kind = _single.get(code) or (_classes.get(code[3:4], Error) if code.startswith("RLX") else Error)
    return kind(message, code, subject, hint)
