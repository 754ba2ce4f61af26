import scipy.fft
import torch

from peer import case, op, rand

# One row, a batch of rows, Whisper's frames, lengths with odd factors, primes.
shapes = (1, 1 << 10), (1, 1 << 14), (1, 1 << 20), (4096, 64), (256, 1024), (3000, 400), (1, 10007), (1, 59049)


def blocks(z):
    """Real parts followed by imaginary parts. The conversion is not timed, because the peer interleaves the parts."""
    z = torch.from_numpy(z)
    return torch.cat([z.real, z.imag], -1)


@op("fft", "rfft")
def transforms():
    for rows, n in shapes:
        re, im = rand(rows, n), rand(rows, n)
        z = torch.complex(re, im).numpy()
        for name, f, arg, x in ("fft", scipy.fft.fft, z, torch.cat([re, im], -1)), ("rfft", scipy.fft.rfft, re.numpy(),
            re):
            want = blocks(f(arg, workers=2))
            yield case('%s x {norm="none"}' % name, lambda f=f, arg=arg, want=want: (f(arg, workers=2), want)[1],
                       peer="scipy", x=x)


@op("ifft", "irfft")
def inverses():
    for rows, n in (1, 1 << 14), (1, 1 << 20), (256, 1024), (3000, 400):
        re, im = rand(rows, n), rand(rows, n)
        z = torch.complex(re, im).numpy()
        want = blocks(scipy.fft.ifft(z, workers=2))
        yield case('ifft x {norm="inverse"}', lambda z=z, want=want: (scipy.fft.ifft(z, workers=2), want)[1],
                   peer="scipy", x=torch.cat([re, im], -1))
        half = scipy.fft.rfft(re.numpy())
        want_r = torch.from_numpy(scipy.fft.irfft(half, n, workers=2))
        yield case('irfft x {n=%d, norm="inverse"}' % n, lambda half=half, n=n,
                   want_r=want_r: (scipy.fft.irfft(half, n, workers=2), want_r)[1], peer="scipy", x=blocks(half))


@op("stft", "log_mel", "welch_peaks")
def audio():
    x, w = rand(1, 480000), torch.hann_window(400)  # 30 s, like the input of Whisper

    def call():
        return blocks(torch.stft(x, 400, 160, window=w, return_complex=True).transpose(1, 2).contiguous().numpy())

    yield case('stft x, w {hop=160, norm="none", pad="reflect"}', call, x=x, w=w)
    spectrum, filters = rand(1, 3000, 402), torch.rand(80, 201)

    def mel():
        p = spectrum[..., :201] ** 2 + spectrum[..., 201:] ** 2
        m = (p @ filters.T).clamp(min=1e-10).log10()
        return (torch.maximum(m, m.max() - 8) + 4) / 4

    yield case('log_mel spectrum, filters {floor_scope="clip"}', mel, weights=("filters",), spectrum=spectrum,
               filters=filters)
    s = rand(512, 1026)  # 64 signals of 8 segments of 1024 samples

    def peaks():
        p = (s[:, :513] ** 2 + s[:, 513:] ** 2).reshape(64, 8, 513).mean(1)
        p[:, 1:512] *= 2
        value, at = torch.topk(p, 8)
        return torch.stack([at.float(), value], -1).reshape(64, 16)

    yield case("welch_peaks s {k=8, one_sided=true, segments=8}", peaks, s=s)
