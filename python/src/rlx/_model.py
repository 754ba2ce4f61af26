"""Models and their methods."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ._bridge import Object, bridge, numpy_dtype, place
from ._segment import Image, Segmenter
from ._text import Generator, Message, Token
from .errors import UsageError, error


@dataclasses.dataclass(frozen=True)
class Dim:
    """A size of a value: ``expr`` is "256", "N" or "2*N+3", between ``min`` and ``max``."""

    expr: str
    min: int
    max: int

    def __str__(self) -> str:
        return self.expr


@dataclasses.dataclass(frozen=True)
class Value:
    """An input or output of a method."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    optional: bool

    def __str__(self) -> str:
        shape = ",".join(map(str, self.shape))
        return f"{self.name} {self.dtype}[{shape}]{' (optional)' if self.optional else ''}"


class Result(dict):
    """The outputs of a run by name, as arrays. ``result.mask`` is short for ``result["mask"]``."""

    seconds: float = 0.0  # that the backend took

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the method has no output {name!r}; it has {', '.join(self)}") from None


class Method:
    """A function of a model from named arrays to named arrays."""

    def __init__(self, model: Model, about: dict[str, Any]) -> None:
        self._model = model
        self.name: str = about["name"]
        self.inputs, self.outputs = ([Value(v["name"], v["dtype"], tuple(Dim(**d) for d in v["shape"]), v["optional"])
                                      for v in about[key]] for key in ("inputs", "outputs"))
        self.stateful: bool = about["stateful"]
        self._signature: str = about["signature"]
        self._by_name = {v.name: v for v in self.inputs}

    def __repr__(self) -> str:
        return self._signature

    def __call__(self, *, state: State | None = None, outputs: Sequence[str] | None = None,
                 **inputs: ArrayLike) -> Result:
        """Run the method. Inputs are keyword arguments; see Model.run."""
        return self._model.run(self.name, inputs, state=state, outputs=outputs)

    def _array(self, name: str, x: ArrayLike) -> np.ndarray:
        """Return an input as an array of the right type. Only what has no type of its own is converted."""
        if not (v := self._by_name.get(name)):
            raise error("RLX3001", name, f"{self.name}: has no input {name!r}; it has "
                        + (", ".join(map(str, self.inputs)) or "none"))
        want = numpy_dtype(v.dtype)
        if not hasattr(x, "dtype"):
            try:
                return np.asarray(x, want, order="C")
            except (TypeError, ValueError, OverflowError) as e:
                raise error("RLX3001", name, f"{name}: {e}") from e
        a = np.asarray(x, order="C")
        if a.dtype != want:
            raise error("RLX3001", name, f"{name}: the array has the type {a.dtype}; {self.name} takes {v}",
                        f"{name}.astype(np.{want})")
        return a


class State(Object):
    """What a model keeps from run to run, such as a cache of keys and values."""

    def reset(self) -> None:
        """Give it the initial values."""
        self._bridge.call("reset", {"state": self._id})

    def clone(self) -> State:
        """Return a copy."""
        return State(self._bridge, self._bridge.call("clone", {"state": self._id})["object"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a safetensors file. Model.state reads it."""
        self._bridge.call("save", {"state": self._id, "path": os.fspath(path)})


class Model(Object):
    """A compiled model on a backend. Methods of the model are methods of this object:

        encoded = model.encode(image=x)

    A model may be used by several threads. Use it as a context manager, or call close, to end its backend.
    """

    def __init__(self, path: str | os.PathLike[str], *, backend: str, device: str, precision: str, threads: int,
                 memory: int, sandbox: str, timeout: float) -> None:
        b = bridge()
        about = b.call("open", {"path": os.fspath(path), "backend": backend, "device": device, "precision": precision,
                                "threads": threads, "memory": memory, "sandbox": sandbox, "timeout": timeout})
        super().__init__(b, about["object"])
        self.path, self.backend, self.device = os.fspath(path), backend, about["device"]
        facts = about["facts"]
        self.name, self.architecture, self.task = facts["name"], facts["architecture"], facts["task"]
        self.compiler, self.identity, self.weights = facts["compiler"], facts["identity"], facts["weights"]
        self.precisions: list[str] = facts["precisions"]
        self.methods = {m["name"]: Method(self, m) for m in about["methods"]}
        self.has_state: bool = about["states"]
        self._segmenter: Segmenter | None = None

    def __repr__(self) -> str:
        return f"<rlx.Model {self.path!r} on {self.backend}: {', '.join(self.methods)}>"

    def __getattr__(self, name: str) -> Method:
        if name in (methods := self.__dict__.get("methods", {})):
            return methods[name]
        raise AttributeError(f"the model has no method {name!r}; it has {', '.join(methods)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.methods]

    def run(self, method: str, inputs: Mapping[str, ArrayLike], *, state: State | None = None,
            outputs: Sequence[str] | None = None) -> Result:
        """Run a method.

        inputs   arrays by name. Lists and numbers are converted; arrays must have the type of the input.
        state    what the run reads and updates, for methods that keep something
        outputs  names of the outputs to return; None means all. What only other outputs need is not computed.

        Raises InputError, UsageError, BackendError, MemoryLimitError and others of rlx.errors.
        """
        if not (m := self.methods.get(method)):
            raise UsageError(f"the model has no method {method!r}; it has {', '.join(self.methods)}", "RLX2001", method)
        args: dict[str, Any] = {"session": self._id, "method": method}
        if outputs is not None:
            args["outputs"] = list(outputs)
        if state is not None:
            args["state"] = state._id
        result, arrays = place(self._bridge, "run", args, {k: m._array(k, x) for k, x in inputs.items()})
        out = Result((v.name, arrays[v.name]) for v in m.outputs if v.name in arrays)
        out.__dict__["seconds"] = result["seconds"]
        return out

    def state(self, path: str | os.PathLike[str] | None = None) -> State:
        """Return a new state, with the initial values or those of a file that State.save has written."""
        args = {"session": self._id, "path": "" if path is None else os.fspath(path)}
        return State(self._bridge, self._bridge.call("state", args)["object"])

    def generator(self) -> Generator:
        """Return a generator of text, for models with the task "text"."""
        return Generator(self)

    def generate(self, prompt: str | Sequence[int] | Sequence[Message], **options: Any) -> Iterator[Token]:
        """Continue a text, as an iterator of tokens. See Generator.generate for the options."""
        return self.generator().generate(prompt, **options)

    def encode_image(self, image: Any) -> Image:
        """Encode an image: a path, a PIL image, or u8[height, width, 3 or 4].

        The model has the task "segment" or "segment_concepts".
        """
        if self._segmenter is None:
            self._segmenter = Segmenter(self)
        return self._segmenter.encode(image)


def load(path: str | os.PathLike[str], backend: str = "cpu", *, device: str = "", precision: str = "",
         threads: int = 0, memory: int = 0, sandbox: str = "on", timeout: float = 0) -> Model:
    """Load a compiled model.

    backend    name of a backend, such as "cpu" or "wgpu"
    device     ID of a device, as `rlxrun devices` lists it; empty means the backend's first
    precision  one of Model.precisions; empty means the first
    threads    0 means as many as the process may use
    memory     limit in bytes; 0 means what is free
    sandbox    "on", "off", or "require"
    timeout    seconds that a run may take; 0 means an hour

    Raises FileNotFoundError, ArtifactError, BackendError, MemoryLimitError and others of rlx.errors.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"{os.fspath(path)}: no such file")
    return Model(path, backend=backend, device=device, precision=precision, threads=threads, memory=memory,
                 sandbox=sandbox, timeout=timeout)
