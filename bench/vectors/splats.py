"""Gaussian splats, pixel by pixel and without tiles: PyTorch in float64, gradients by its autograd."""
import math

import numpy as np
import torch

import write
from write import TORCH, case, typed

C0, C1 = 0.28209479, 0.48860251
K = math.sqrt(4.5 * math.log2(math.e))
PARTS = ("positions", "scales", "rotations", "opacities", "colors", "sh")


def norm(v):
    n = v.norm()
    return torch.tensor([0.0, 0, 1], dtype=torch.float64) if n <= 1e-8 else v / n


def uniform(lo, hi, *shape):
    return torch.from_numpy(write.rng.uniform(lo, hi, shape).astype(np.float32).astype(np.float64))


def scene(n, c, dc=True):
    s = {"positions": uniform(-1, 1, n, 3), "scales": uniform(-2.5, -0.7, n, 3), "rotations": uniform(-1, 1, n, 4),
         "opacities": uniform(0.05, 1.1, n), "colors": uniform(-0.2, 1.2, n, 3), "sh": uniform(-0.6, 0.9, n, c, 3)}
    if not dc:
        s["sh"][:, 0] = 0
    return s


def meta(**change):
    m = {"pos": [0.3, -0.2, -3], "target": [0, 0.1, 0], "up": [0, 1, 0.1], "fov": 50, "bg": [0.1, 0.3, 0.2],
         "radius": 1.25, "cutoff": 0.00390625, "steps": 0, "thr": 0.015625}
    m.update(change)
    v = [*m["pos"], *m["target"], *m["up"], m["fov"], 0.5, 100, *m["bg"], 0, 0, 0, m["radius"], m["cutoff"],
         m["steps"], m["thr"], 0]
    return m, torch.tensor(v, dtype=torch.float64).float().double()


class View:
    def __init__(self, m, v, width, height):
        self.pos, target, up = v[0:3], v[3:6], v[6:9]
        self.f = norm(target - self.pos)
        self.r = norm(torch.linalg.cross(up, self.f))
        self.u = torch.linalg.cross(self.f, self.r)
        self.focal = 0.5 * height / math.tan(math.radians(v[9].item()) / 2)
        self.width, self.height, self.bg = width, height, v[12:15]
        self.radius, self.cutoff, self.steps, self.thr = v[18].item(), v[19].item(), int(m["steps"]), v[21].item()

    def ray(self, x, y):
        return self.f + self.r * ((x + 0.5 - self.width / 2) / self.focal) + \
            self.u * ((y + 0.5 - self.height / 2) / self.focal)


def turned(q):
    """R(q)^T of a quaternion w, x, y, z."""
    w, x, y, z = q / q.norm()
    return torch.stack([torch.stack(r) for r in (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)))]).T


def color(s, i, view, plain):
    x, y, z = norm(view.pos - s["positions"][i])
    sh = s["sh"][i]
    out = s["colors"][i].clamp(0, 1) if plain else 0.5 + C0 * sh[0]
    if len(sh) >= 4:
        out = out - C1 * y * sh[1] + C1 * z * sh[2] - C1 * x * sh[3]
    return out


def visible(s, view):
    """The splats in order, with local matrix, camera, opacity and colour."""
    plain = bool((s["sh"][:, 0].abs() <= 1e-8).all())
    out = []
    for i in range(len(s["opacities"])):
        rel = s["positions"][i] - view.pos
        opacity = s["opacities"][i].clamp(0, 1)
        if opacity.item() <= view.cutoff or rel.dot(view.f).item() <= 1e-4:
            continue
        a = (s["scales"][i].exp() * view.radius * 3).clamp(min=1e-6)
        out.append((rel.norm().item(), i, turned(s["rotations"][i]) / a[:, None], -rel, opacity,
                    color(s, i, view, plain)))
    return sorted(out, key=lambda e: e[:2])


def finish(c, T, view):
    linear = (c + T * view.bg).clamp(min=0)
    rgb = torch.where(linear > 0, linear.clamp(min=1e-30) ** 2.2, torch.zeros(3, dtype=torch.float64))
    return torch.cat([rgb, (1 - T).reshape(1)])


def render(s, view):
    splats = visible(s, view)
    image = []
    for y in range(view.height):
        for x in range(view.width):
            c, T, count = torch.zeros(3, dtype=torch.float64), torch.ones((), dtype=torch.float64), 0
            for _, _, w, back, opacity, rgb in splats:
                o, d = w @ back, w @ view.ray(x, y)
                t = -o.dot(d) / d.dot(d)
                closest = o + t * d
                alpha = opacity * torch.exp(-4.5 * closest.dot(closest))
                if t <= 0 or alpha.item() < view.cutoff:
                    continue
                c, T, count = c + T * alpha * rgb, T * (1 - alpha), count + 1
                if T.item() < view.thr or count == view.steps:
                    break
            image.append(finish(c, T, view))
    return torch.stack(image).reshape(view.height, view.width, 4)


def flat(s, v):
    return {**{k: s[k].reshape(-1) for k in PARTS}, "meta": v}


def forms(s, view):
    n = len(s["opacities"])
    out, colors, order = torch.zeros(n, 16).double(), torch.zeros(n, 4).double(), []
    for _, i, w, back, opacity, rgb in visible(s, view):
        rel = -back
        depth = rel.dot(view.f)
        x = rel.dot(view.r) / depth * view.focal + view.width / 2 - 0.5
        y = rel.dot(view.u) / depth * view.focal + view.height / 2 - 0.5
        x, y = round(min(max(x.item(), 0), view.width - 1)), round(min(max(y.item(), 0), view.height - 1))
        o = w @ back
        d = [w @ view.ray(x, y), w @ view.r / view.focal, w @ view.u / view.focal]
        d = [a / d[0].norm() for a in d]
        across = [torch.linalg.cross(o, a) * K for a in d]
        e = across[1] / across[1].norm()
        g = torch.linalg.cross(o / o.norm(), e)
        out[i] = torch.stack([torch.tensor(float(x)).double(), torch.tensor(float(y)).double(),
                              *(a.dot(e) for a in across), across[0].dot(g), across[2].dot(g), 2 * d[0].dot(d[1]),
                              2 * d[0].dot(d[2]), d[1].dot(d[1]), 2 * d[1].dot(d[2]), d[2].dot(d[2]),
                              *(-a.dot(o) for a in d), torch.log2(opacity / view.cutoff)])
        colors[i] = torch.cat([rgb, opacity.reshape(1)])
        order.append(i)
    return colors, out, order


def both(s, m, v, width, height, clip=0):
    view = View(m, v, width, height)
    source = TORCH + " loop over pixels"
    case("gaussian_splat_render positions, scales, rotations, opacities, colors, sh, meta {height=%d, width=%d}" %
         (height, width), render(s, view), source, tol=(1e-9, 1e-9), **flat(s, v))

    parts = {k: s[k].clone().requires_grad_() for k in PARTS}
    image = render(parts, view)
    d = uniform(-1, 1, height, width, 4)
    (image[..., :3] * d[..., :3]).sum().backward()
    grads = [(parts[k].grad if parts[k].grad is not None else torch.zeros_like(s[k])).reshape(-1) for k in PARTS]
    case("gaussian_splat_render_backward positions, scales, rotations, opacities, colors, sh, meta, d_rgba "
         "{height=%d, width=%d}" % (height, width), grads, source + ", autograd", tol=(1e-8, 1e-8), **flat(s, v),
         d_rgba=d)

    colors, form, order = forms(s, view)
    tile = max(width, height)
    room = len(order) + 2
    listed = typed("i32", np.array(order + [-1, -1]))
    ranges = typed("i32", np.array([[0, len(order)]]))
    case("gaussian_splat_prepare positions, scales, rotations, opacities, colors, sh, meta "
         "{height=%d, max_list_entries=%d, tile=%d, width=%d}" % (height, room, tile, width),
         [colors, form, listed, ranges], source, tol=(1e-9, 1e-9), **flat(s, v))
    # What the scene gives is what its forms give.
    case("gaussian_splat_rasterize colors, forms, list, ranges, meta {height=%d, tile=%d, width=%d}" %
         (height, tile, width), render(s, view), source, tol=(1e-9, 1e-9), colors=colors, forms=form, list=listed,
         ranges=ranges, meta=v)


both(scene(1, 1), *meta(), 5, 4)
both(scene(4, 4), *meta(), 7, 5)
both(scene(5, 1, dc=False), *meta(bg=[0, 0, 0]), 6, 6)
both(scene(6, 4), *meta(steps=2), 4, 7)
both(scene(8, 5), *meta(thr=0.5, radius=1.5), 6, 5)
both(scene(3, 4), *meta(pos=[0, 0, -0.6], fov=110), 5, 5)
