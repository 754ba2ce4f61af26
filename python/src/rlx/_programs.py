"""The programs of the wheel: rlxc, rlxrun and the cpu backend."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from .errors import BackendError

_folder = Path(__file__).parent / "bin"


def program(name: str) -> str:
    """Return the path of a program: that of RLX_BIN, of the wheel, or in PATH."""
    for folder in (os.environ.get("RLX_BIN"), _folder):
        if folder and os.access(path := os.path.join(folder, name), os.X_OK):
            return path
    if path := shutil.which(name):
        return path
    raise BackendError(f"{name} is neither in {_folder} nor in PATH", hint="install the wheel of rlx for this system")


def rlxc() -> None:
    """Become rlxc."""
    _become("rlxc")


def rlxrun() -> None:
    """Become rlxrun."""
    _become("rlxrun")


def _become(name: str) -> None:
    path = program(name)
    os.execv(path, [path, *sys.argv[1:]])
