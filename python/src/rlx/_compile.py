"""The compiler."""

from __future__ import annotations

import json
import os
import subprocess

from ._programs import program
from .errors import error


def compile(model: str | os.PathLike[str], output: str | os.PathLike[str], *flags: str) -> str:
    """Compile a checkpoint, a folder of Hugging Face, a GGUF or an ONNX file to an .rlx file, and return its path:

        rlx.compile("model.onnx", "model.rlx", "--size", "batch=1..8")

    flags are those of `rlxc --help`. An error has the code and the words of rlxc.
    """
    path = os.fspath(output)
    done = subprocess.run([program("rlxc"), os.fspath(model), "-o", path, "--json", *flags],
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()
        try:
            found = json.loads(text.splitlines()[-1])["error"]
        except (ValueError, LookupError, TypeError):
            raise error("RLX9001", "", f"rlxc: ended with status {done.returncode}: {text}") from None
        subject = found.get("subject", "")
        raise error(found["code"], subject, f"{subject}: {found['message']}" if subject else found["message"],
                    found.get("hint", ""))
    return path
