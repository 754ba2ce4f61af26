"""Writes loss.json: the loss of 3D Gaussian splatting, (1-x) L1 + x (1-SSIM) with a window of 11 x 11 and a deviation
of 1.5, for random images, with its gradient by PyTorch. python loss.py > loss.json"""
import json

import torch
import torch.nn.functional as F

torch.manual_seed(5)
torch.set_default_dtype(torch.float64)


def ssim(a, b):
    t = torch.arange(11.0) - 5
    w = torch.exp(-t * t / (2 * 1.5 ** 2))
    w = w / w.sum()
    window = (w[:, None] * w[None, :]).expand(3, 1, 11, 11)
    blur = lambda x: F.conv2d(x, window, padding=5, groups=3)
    ma, mb = blur(a), blur(b)
    va, vb, cov = blur(a * a) - ma * ma, blur(b * b) - mb * mb, blur(a * b) - ma * mb
    c1, c2 = 0.01 ** 2, 0.03 ** 2
    return (((2 * ma * mb + c1) * (2 * cov + c2)) / ((ma * ma + mb * mb + c1) * (va + vb + c2))).mean()


cases = []
for h, w, share in [(7, 9, 0.0), (13, 12, 0.2), (5, 21, 1.0)]:
    got, target = torch.rand(h, w, 3, requires_grad=True), torch.rand(h, w, 3)
    chw = lambda x: x.permute(2, 0, 1)[None]
    loss = (1 - share) * (got - target).abs().mean() + share * (1 - ssim(chw(got), chw(target)))
    loss.backward()
    mse = ((got - target) ** 2).mean()
    cases.append({"height": h, "width": w, "share": share, "got": got.flatten().tolist(),
                  "target": target.flatten().tolist(), "loss": loss.item(), "mse": mse.item(),
                  "gradient": got.grad.flatten().tolist()})
print(json.dumps(cases))
