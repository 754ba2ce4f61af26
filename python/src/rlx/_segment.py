"""Models that find objects in images, such as SAM."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from ._bridge import Bridge, Object, place
from .errors import error

if TYPE_CHECKING:
    import PIL.Image

Point = Sequence[float]  # x, y in pixels; and 1 for the object or 0 for what is not of it, by default 1


@dataclasses.dataclass(frozen=True)
class Mask:
    """A mask of the size of the image."""

    array: np.ndarray  # bool[height, width]
    quality: float  # that the model predicts, about 0 to 1
    index: int  # among the masks that the model makes for a prompt

    def image(self) -> PIL.Image.Image:
        """Return it as a PIL image, 255 inside and 0 outside."""
        import PIL.Image

        return PIL.Image.fromarray(self.array.astype(np.uint8) * 255)


@dataclasses.dataclass(frozen=True)
class Region:
    """One object of Image.everything."""

    label: int  # its number in the labels, from 1
    area: int  # pixels of the mask
    visible: int  # pixels with its label; the others belong to smaller objects
    box: tuple[int, int, int, int]  # x0, y0, x1, y1; x1 and y1 are exclusive
    quality: float
    stability: float


@dataclasses.dataclass(frozen=True)
class Everything:
    """All objects of an image."""

    labels: np.ndarray  # i32[height, width], 0 where no object is
    regions: list[Region]  # the largest first


@dataclasses.dataclass(frozen=True)
class Found:
    """One object of Image.find."""

    array: np.ndarray  # bool[height, width], its mask
    score: float  # how sure the model is, 0 to 1
    box: tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels, as the model predicts them


class Segmenter(Object):
    def __init__(self, model: Object) -> None:
        super().__init__(model._bridge, model._bridge.call("segmenter", {"session": model._id})["object"])

    def encode(self, image: Any) -> Image:
        return Image(self, with_image(self._bridge, "encode", {"segmenter": self._id}, image))


def with_image(bridge: Bridge, name: str, args: dict[str, Any], image: Any) -> dict[str, Any]:
    """Do a call that takes an image: a path, a PIL image, or uint8 [height, width, 3 or 4]. Returns the result."""
    if isinstance(image, (str, os.PathLike)):
        return bridge.call(name, {**args, "path": os.path.abspath(image)})
    if hasattr(image, "convert"):  # a PIL image
        image = image.convert("RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB")
    pixels = np.asarray(image, order="C")
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (3, 4):
        raise error("RLX3001", "image", f"image: an array of {pixels.dtype} with the shape {pixels.shape}; "
                    "allowed is uint8 with the shape (height, width, 3 or 4)")
    result, _ = place(bridge, name, args, {"pixels": pixels})
    return result


class Image(Object):
    """An image that a model has encoded. Finding masks in it is fast."""

    def __init__(self, segmenter: Segmenter, about: dict[str, Any]) -> None:
        super().__init__(segmenter._bridge, about["object"])
        self._segmenter = segmenter
        self.width: int = about["width"]
        self.height: int = about["height"]

    def masks(self, points: Sequence[Point] = (), box: Sequence[float] | None = None, choice: str = "best",
              ) -> list[Mask]:
        """Find the object of points, a box, or both.

        points  (x, y) or (x, y, label) in pixels; label 1 means the object, 0 what is not of it
        box     x0, y0, x1, y1 in pixels
        choice  "best", "all", or the number of a mask such as "0"
        """
        args: dict[str, Any] = {"image": self._id, "choice": choice,
                                "points": [[float(p[0]), float(p[1]), float(p[2]) if len(p) > 2 else 1.0]
                                           for p in points]}
        if box is not None:
            args["box"] = [float(v) for v in box]
        result, tensors = place(self._bridge, "masks", args, {})
        return [Mask(array != 0, about["iou"], about["token"])
                for array, about in zip(tensors["masks"], result["masks"])]

    def everything(self, side: int = 0, min_quality: float = 0, min_stability: float = 0, max_overlap: float = 0,
                   ) -> Everything:
        """Find all objects, from a grid of side x side points. A value that is 0 means the default."""
        args = {"image": self._id, "side": side, "min_iou": min_quality, "min_stability": min_stability,
                "max_overlap": max_overlap}
        result, tensors = place(self._bridge, "everything", args, {})
        return Everything(tensors["labels"], [
            Region(r["label"], r["area"], r["visible"], tuple(r["box"]), r["iou"], r["stability"])
            for r in result["regions"]])

    def find(self, text: str = "", examples: Sequence[Sequence[float]] = (), threshold: float | None = None,
             ) -> list[Found]:
        """Find all objects that a text or examples describe, the best first. The model has the task "segment_concepts".

        text       what to find, in few words
        examples   boxes (x0, y0, x1, y1) or (x0, y0, x1, y1, label) in pixels; label 1 means an example, 0 what is none
        threshold  the score above which something is an object; None means that of the model
        """
        args: dict[str, Any] = {"image": self._id, "text": text, "threshold": threshold, "boxes": [
            [float(v) for v in b] + [1.0] * (5 - len(b)) for b in examples]}
        result, tensors = place(self._bridge, "find", args, {})
        return [Found(array != 0, about["score"], tuple(about["box"]))
                for array, about in zip(tensors["masks"], result["objects"])]
