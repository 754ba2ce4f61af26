"""Language models."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Iterator, Sequence, TypedDict

from ._bridge import Object
from ._segment import with_image
from .errors import UsageError


class Message(TypedDict):
    """One turn of a conversation. The role is "system", "user" or "assistant".

    The content is a text or, for models that take images, a list of {"type": "text", "text": ...} and {"type": "image",
    "image": ...}. An image is a path, a PIL image, or an array of uint8 [height, width, 3 or 4].
    """

    role: str
    content: str | list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Token:
    """A generated token. ``text`` is what it adds: whole characters, or nothing yet. ``str(token)`` is the text."""

    id: int
    text: str

    def __str__(self) -> str:
        return self.text


class Generator(Object):
    """A sequence of tokens that a language model continues, such as a conversation."""

    def __init__(self, model: Object) -> None:
        about = model._bridge.call("generator", {"session": model._id})
        super().__init__(model._bridge, about["object"])
        self._model = model  # which must not be closed before
        self.vocabulary: int = about["vocabulary"]
        self.context: int = about["context"]
        self.sampling: dict[str, float] = about["sampling"]  # that the model suggests
        self.stop: str = ""  # why the last text ended: "length", "end", "stop", "context" or "cancelled"

    def tokens(self, prompt: str | Sequence[Message]) -> list[int]:
        """Return the ids of a text or a conversation that follows the sequence."""
        return self._tokens(prompt)[0]

    def _tokens(self, prompt: str | Sequence[Message]) -> tuple[list[int], list[Object]]:
        """Return ids and the images that have places in them."""
        args: dict[str, object] = {"generator": self._id}
        images: dict[int, Object] = {}
        if isinstance(prompt, str):
            args["text"] = prompt
        else:
            args["messages"] = [self._message(m, images) for m in prompt]
        result = self._bridge.call("tokens", args)
        return result["ids"], [images[n] for n in result["images"]]

    def _message(self, message: Message, images: dict[int, Object]) -> dict[str, Any]:
        content = message["content"]
        if isinstance(content, str):
            return {"Role": message["role"], "Content": content}
        parts = []
        for part in content:
            if part["type"] == "text":
                parts.append({"Text": part["text"]})
            elif part["type"] == "image":
                about = with_image(self._bridge, "picture", {"generator": self._id}, part["image"])
                images[about["object"]] = Object(self._bridge, about["object"])
                parts.append({"Image": about["object"]})
            else:
                raise UsageError(f"a part of the type {part['type']!r}; allowed are text and image", "RLX2001",
                                 "messages")
        return {"Role": message["role"], "Parts": parts}

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        return self._bridge.call("text", {"generator": self._id, "ids": list(ids)})["text"]

    def generate(self, prompt: str | Sequence[int] | Sequence[Message] = "", *, tokens: int = 0,
                 temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
                 min_p: float | None = None, repeat_penalty: float | None = None, seed: int = 0,
                 stop: str | Sequence[str] = (), ignore_end: bool = False) -> Iterator[Token]:
        """Append a prompt to the sequence and continue it, as an iterator of tokens:

            for token in generator.generate("ROMEO:", tokens=100):
                print(token, end="", flush=True)

        prompt      a text, ids, or a conversation as a list of {"role": ..., "content": ...}
        tokens      largest number of generated tokens; 0 means until the text ends
        temperature and the other parameters of sampling replace those that the model suggests; 0 always chooses the
                    most probable token
        seed        the same seed draws the same tokens
        stop        texts that end generation, which are not part of the result
        ignore_end  continue after tokens that end a text

        An iterator that is not read to its end cancels the text when it is closed.
        """
        images: list[Object] = []
        if isinstance(prompt, str) or prompt and isinstance(prompt[0], dict):
            ids, images = self._tokens(prompt) if prompt else ([], [])  # type: ignore[arg-type]
        else:
            ids = [int(n) for n in prompt]  # type: ignore[call-overload]
        sampling = dict(self.sampling)
        given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
                 "repeat_penalty": repeat_penalty}
        sampling.update({k: v for k, v in given.items() if v is not None})
        if tokens < 0 or seed < 0:
            raise UsageError("tokens and seed must not be negative", "RLX2001", "generate")
        call = self._bridge.start("generate", {
            "generator": self._id, "ids": ids, "tokens": tokens, "sampling": sampling, "seed": seed,
            "stop": [stop] if isinstance(stop, str) else list(stop), "ignore_end": ignore_end,
            "images": [x._id for x in images]})
        return self._read(call, images)

    def _read(self, call, images: list[Object]) -> Iterator[Token]:  # the images stay until the text has ended
        last = -1
        try:
            while True:
                frame, _ = call.next()
                if "event" not in frame:
                    break
                last = frame["event"]["token"]
                yield Token(last, frame["event"]["text"])
            self.stop = frame["result"]["stop"]
            if rest := frame["result"]["rest"]:
                yield Token(last, rest)
        finally:
            call.cancel()

    def reset(self) -> None:
        """Empty the sequence."""
        self._bridge.call("reset", {"state": self._id})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sequence to a file, for load."""
        self._bridge.call("save", {"state": self._id, "path": os.fspath(path)})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace the sequence by one that save has written for the same model."""
        self._bridge.call("load", {"state": self._id, "path": os.fspath(path)})
