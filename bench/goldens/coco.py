"""Masks in COCO's run-length encoding, and a check of files that rlxrun writes, by pycocotools:

    pip install pycocotools==2.0.11 numpy
    python3 bench/goldens/coco.py                       # writes segment/testdata/coco.json
    python3 bench/goldens/coco.py out.json [other.json]  # checks files of "rlxrun ... -o coco=out.json"

The check loads a file as programs do that train and evaluate on COCO's, and compares area and bounding box of each
annotation with those of its mask. Of two files about the same images, such as one with run lengths and one with
polygons, it compares the masks; polygons cannot have holes, so it fills those. """

import json
import pathlib
import random
import sys

import numpy
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

OUT = pathlib.Path(__file__).parents[2] / "segment" / "testdata"


def pictures():
    """Yields masks of many shapes, as arrays of 0 and 1."""
    random.seed(1)
    rng = numpy.random.default_rng(1)
    for h, w in (1, 1), (1, 9), (9, 1), (5, 7), (8, 8), (33, 64), (70, 41):
        yield numpy.zeros((h, w), numpy.uint8)
        yield numpy.ones((h, w), numpy.uint8)
        for density in 0.03, 0.5, 0.9:
            yield (rng.random((h, w)) < density).astype(numpy.uint8)
        y, x = numpy.mgrid[:h, :w]
        ring = numpy.hypot(x - w / 2, y - h / 2)
        yield ((ring < min(h, w) / 2) & (ring > min(h, w) / 5)).astype(numpy.uint8)
    yield numpy.ones((3000, 2), numpy.uint8)  # long runs
    yield (numpy.arange(5000 * 3).reshape(3, 5000) % 2000 < 1500).astype(numpy.uint8)


def write():
    OUT.mkdir(exist_ok=True)
    cases = []
    for m in pictures():
        rle = coco_mask.encode(numpy.asfortranarray(m))
        cases.append({
            "size": rle["size"], "pixels": numpy.packbits(m).tobytes().hex(), "counts": rle["counts"].decode(),
            "area": int(coco_mask.area(rle)), "bbox": [int(v) for v in coco_mask.toBbox(rle)]})
    (OUT / "coco.json").write_text("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")


def fill(m):
    """Fills holes: zeros that no path along edges of pixels leads out of."""
    h, w = m.shape
    outside, todo = numpy.zeros((h + 2, w + 2), bool), [(0, 0)]
    inside = numpy.pad(m, 1).astype(bool)
    while todo:
        y, x = todo.pop()
        if 0 <= y < h + 2 and 0 <= x < w + 2 and not inside[y, x] and not outside[y, x]:
            outside[y, x] = True
            # polygons touch at corners, so paths lead through them
            todo += [(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return ~outside[1:-1, 1:-1]


def check(paths):
    files = [COCO(p) for p in paths]
    for path, c in zip(paths, files):
        for a in c.loadAnns(c.getAnnIds()):
            m = c.annToMask(a)
            rle = coco_mask.encode(numpy.asfortranarray(m))
            if isinstance(a["segmentation"], dict):
                assert m.sum() == a["area"], (path, a["id"], m.sum(), a["area"])
                assert list(coco_mask.toBbox(rle)) == a["bbox"], (path, a["id"], coco_mask.toBbox(rle), a["bbox"])
        print(f"{path}: {len(c.getImgIds())} images, {len(c.getAnnIds())} masks")
    for path, c in zip(paths[1:], files[1:]):
        for a, b in zip(files[0].loadAnns(files[0].getAnnIds()), c.loadAnns(c.getAnnIds())):
            x, y = fill(files[0].annToMask(a)), fill(c.annToMask(b))
            assert a["id"] == b["id"] and (x == y).all(), (path, a["id"], x.sum(), y.sum())
        print(f"{path}: the masks of {paths[0]}")


check(sys.argv[1:]) if sys.argv[1:] else write()
