"""Makes images with Pillow that internal/imaging is compared with:

    pip install pillow==13.0.0
    python3 bench/goldens/images.py

It writes internal/imaging/testdata: a CMYK JPEG; an image and Pillow's bicubic resize of it; and an image with an eXIf
chunk that rotates it, with the rotated image. """

import pathlib
import random

from PIL import Image, ImageOps

OUT = pathlib.Path(__file__).parents[2] / "internal" / "imaging" / "testdata"
OUT.mkdir(exist_ok=True)

cmyk = Image.new("CMYK", (16, 8), (200, 40, 0, 20))
cmyk.paste((0, 120, 220, 60), (8, 0, 16, 8))
cmyk.save(OUT / "cmyk.jpg", quality=100, subsampling=0)
print("cmyk.jpg as RGB:", [Image.open(OUT / "cmyk.jpg").convert("RGB").getpixel((x, 3)) for x in (3, 12)])

random.seed(1)
# edges so sharp that bicubic interpolation overshoots
noise = Image.frombytes("RGB", (23, 17), random.randbytes(3 * 23 * 17))
noise.save(OUT / "noise.png")
for w, h in (32, 48), (9, 5):  # at these sizes, Pillow resizes along x first, as PyTorch always does
    noise.resize((w, h), Image.BICUBIC).save(OUT / f"noise.{w}x{h}.png")

exif = Image.Exif()
exif[0x0112] = 6
noise.resize((7, 5), Image.BICUBIC).save(OUT / "turned.png", exif=exif)
ImageOps.exif_transpose(Image.open(OUT / "turned.png")).save(OUT / "turned.upright.png")
