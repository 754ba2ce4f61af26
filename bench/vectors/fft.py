"""Fourier transforms and ops made of them. Complex numbers are real parts followed by imaginary parts along the last
axis."""
import numpy as np
import scipy.fft
import scipy.signal
import torch

import write
from write import F32, NUMPY, SCIPY, TORCH, case, typed

rng = write.rng
fs = {"fft": scipy.fft.fft, "ifft": scipy.fft.ifft, "rfft": scipy.fft.rfft, "irfft": scipy.fft.irfft}
# SciPy's names for our norms, by direction. "backward" scales only the inverse transform, and "forward" only the
# forward transform.
norms = {False: {"none": "backward", "inverse": "backward", "ortho": "ortho"},
         True: {"none": "forward", "inverse": "backward", "ortho": "ortho"}}
lengths = [1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 31, 37, 60, 64, 97]
LARGE = (1e-10, 1e-9)


def normal(*shape):
    return (rng.standard_normal(shape) * 64).round() / 64


def blocks(z):
    return np.concatenate([z.real, z.imag], -1)


def numbers(x):
    half = x.shape[-1] // 2
    return x[..., :half] + 1j * x[..., half:]


def transform(name, x, norm, n=None, **kw):
    f, judge = fs[name], norms["i" in name][norm]
    if name == "rfft":
        out = blocks(f(x, norm=judge))
    elif name == "irfft":
        out = f(numbers(x), n, norm=judge)
    else:
        out = blocks(f(numbers(x), norm=judge))
    at = 'n=%d, norm="%s"' % (n, norm) if name == "irfft" else 'norm="%s"' % norm
    t = lambda v: typed("f64", v)
    case("%s x {%s}" % (name, at), t(out), SCIPY, x=t(x), tol=(1e-12 * (len(x) + 30), 1e-10), **kw)


for i, n in enumerate(lengths):
    norm = ["none", "inverse", "ortho"][i % 3]
    rows = [2] * (n < 32)
    transform("fft", normal(*rows, 2 * n), norm)
    transform("ifft", normal(*rows, 2 * n), norm)
    transform("rfft", normal(*rows, n), norm)
    transform("irfft", normal(*rows, 2 * (n // 2 + 1)), norm, n)
for norm in "none", "inverse", "ortho":
    transform("fft", normal(2, 3, 20), norm)
    transform("ifft", normal(2, 3, 20), norm)
    transform("rfft", normal(2, 3, 9), norm)
    transform("irfft", normal(2, 3, 10), norm, 9)

for kind in "hann", "hamming":
    for n in 1, 2, 7, 16, 33:
        for periodic in True, False:
            line = 'window {kind="%s"%s}' % (kind, ", periodic=true" if periodic else "")
            case(line, scipy.signal.get_window(kind, n, fftbins=periodic), SCIPY)

for pad in "none", "reflect", "constant":
    for shape, n, hop, norm in ((50,), 16, 4, "none"), ((2, 41), 15, 3, "ortho"), ((3, 9), 7, 1, "none"), ((2, 30), 8,
        5, "none"):
        x, w = normal(*shape), scipy.signal.get_window("hann", n) + 0.25
        z = torch.stft(torch.from_numpy(x), n, hop, n, torch.from_numpy(w), center=pad != "none",
                       pad_mode="constant" if pad == "none" else pad,
                       normalized=norm == "ortho", return_complex=True).transpose(-1, -2).numpy()
        case('stft x, w {hop=%d, norm="%s", pad="%s"}' % (hop, norm, pad), typed("f64", blocks(z)), TORCH, tol=LARGE,
             x=typed("f64", x), w=typed("f64", w))


def log_mel(spectrum, filters, scope):
    """The part after the transform of log_mel_spectrogram in github.com/openai/whisper, audio.py. The maximum is that
    of the clip."""
    magnitudes = np.abs(spectrum) ** 2
    log_spec = np.log10(np.clip(magnitudes @ filters.T, 1e-10, None))
    top = log_spec.max((-2, -1), keepdims=True) if scope == "clip" else log_spec.max(-1, keepdims=True)
    return (np.maximum(log_spec, top - 8.0) + 4.0) / 4.0


for scope in "frame", "clip":
    for shape, mels in ((3, 12), 4), ((2, 5, 16), 6), ((7, 15), 3), ((1, 2), 1), ((4, 40), 8):
        x, n = normal(*shape) * 10.0 ** rng.integers(-6, 3, shape[:-1] + (1,)), shape[-1]
        filters = np.abs(normal(mels, n // 2 + 1))
        whole, half = np.fft.fft(x), np.fft.rfft(x)
        for spectrum in whole, half:
            case('log_mel x, f {floor_scope="%s"}' % scope,
                 typed("f64", log_mel(spectrum[..., : n // 2 + 1], filters, scope)), NUMPY, tol=LARGE,
                 x=typed("f64", blocks(spectrum)), f=typed("f64", filters))

for rows, n, segments, k in (1, 2, 1, 1), (6, 16, 2, 3), (3, 16, 3, 9), (5, 14, 1, 4), (8, 34, 4, 5), (4, 30, 2, 16):
    x = normal(rows, n)
    z = np.fft.fft(x)
    # Like ours, scipy.signal.welch does not double the last bin of an even length. For an odd length it is a bin like
    # the others.
    _, p = scipy.signal.welch(x.reshape(rows // segments, segments * n), window="boxcar", nperseg=n, noverlap=0,
                              detrend=False, scaling="spectrum")
    p = p * n * n
    if n % 2:
        p[:, -1] /= 2
    order = np.argsort(-p, axis=-1, kind="stable")[:, :k]
    out = np.stack([order, np.take_along_axis(p, order, -1)], -1).reshape(rows // segments, 2 * k)
    for one_sided in False, True:
        case("welch_peaks x {k=%d, %ssegments=%d}" % (k, "one_sided=true, " if one_sided else "", segments),
             typed("f64", out), SCIPY, tol=LARGE,
             x=typed("f64", blocks(z[:, : n // 2 + 1] if one_sided else z)))
