import scipy.fft
import torch

from peer import case, op, rand

# One row, rows of a batch, Whisper's frames, lengths of odd factors and primes.
shapes = (1, 1 << 10), (1, 1 << 14), (1, 1 << 20), (4096, 64), (256, 1024), (3000, 400), (1, 10007), (1, 59049)


def blocks(z):
    """Real parts and then imaginary parts. Made once, outside of what is timed: the peer interleaves them."""
    z = torch.from_numpy(z)
    return torch.cat([z.real, z.imag], -1)


@op("fft", "rfft")
def transforms():
    for rows, n in shapes:
        re, im = rand(rows, n), rand(rows, n)
        z = torch.complex(re, im).numpy()
        for name, f, arg, x in ("fft", scipy.fft.fft, z, torch.cat([re, im], -1)), ("rfft", scipy.fft.rfft, re.numpy(), re):
            want = blocks(f(arg, workers=2))
            yield case('%s x {norm="none"}' % name, lambda f=f, arg=arg, want=want: (f(arg, workers=2), want)[1], peer="scipy", x=x)
