"""Makes images with Pillow that internal/imaging is compared with:

    pip install pillow==13.0.0
    python3 bench/goldens/images.py

It writes internal/imaging/testdata: a CMYK JPEG; an image and Pillow's bicubic resize of it; an image with an eXIf
chunk that rotates it, with the rotated image; and in formats/ files in the formats WebP, TIFF and BMP, each with what
Pillow reads from it, upright and in RGB, as a PNG. """

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

FORMATS = OUT / "formats"
FORMATS.mkdir(exist_ok=True)


def sample(name, image, **options):
    image.save(FORMATS / name, **options)
    ImageOps.exif_transpose(Image.open(FORMATS / name)).convert("RGB").save(FORMATS / (name + ".png"))


# A smooth image: decoders interpolate the chroma of lossy files in different ways.
smooth = Image.new("RGB", (37, 21))
smooth.putdata([(5 * x, 3 * y + 120, 255 - 3 * x - 2 * y) for y in range(21) for x in range(37)])
alpha = smooth.convert("RGBA")
alpha.putalpha(Image.linear_gradient("L").resize(smooth.size))
grey, few = noise.convert("L"), noise.quantize(16)
sample("lossy.webp", smooth, quality=95)
sample("alpha.webp", alpha, quality=95)
sample("turned.webp", smooth, quality=95, exif=exif)
sample("lossless.webp", noise, lossless=True)
sample("palette.webp", few.convert("RGB"), lossless=True)
sample("clear.webp", alpha, lossless=True, exact=True)
sample("raw.tif", noise)
for compression in "tiff_lzw", "tiff_adobe_deflate", "packbits":
    sample(f"{compression}.tif", noise, compression=compression)
sample("turned.tif", noise, exif=exif)
sample("grey.tif", grey)
sample("palette.tif", few)
sample("fax.tif", noise.convert("1"), compression="group4", tiffinfo={262: 0})
sample("rgba.tif", alpha)
sample("colour.bmp", noise)
sample("grey.bmp", grey)
sample("palette.bmp", few)
sample("bits.bmp", noise.convert("1"))
noise.convert("1").save(FORMATS / "inverted.tif", compression="group4")
smooth.save(FORMATS / "animated.webp", save_all=True, append_images=[smooth.rotate(180)])
# For the memory of decoding: large, and small as files.
large = Image.linear_gradient("L").resize((1500, 1000)).convert("RGB")
large.save(OUT / "large.webp", lossless=True)
large.putalpha(Image.radial_gradient("L").resize(large.size))
large.save(OUT / "large-alpha.webp", quality=20, alpha_quality=50)
