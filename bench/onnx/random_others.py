"""Models for random_models.py of vit-pytorch, x-transformers, segmentation_models_pytorch and kornia, and layers of
torch.nn and of graphs. A package that is not installed has none."""

import importlib, inspect

import torch
from torch import nn

pixels = lambda s, c=3: (lambda b, n: (torch.randn(b, c, s, s),))


def installed(name):
    try:
        return importlib.import_module(name)
    except Exception:
        return None


VIT = dict(image_size=64, patch_size=16, num_classes=10, dim=32, depth=2, heads=2, mlp_dim=48, dim_head=16)
VITS = [  # module, class, arguments other than those of VIT
    ("vit", "ViT", {}),
    ("simple_vit", "SimpleViT", {}),
    ("deepvit", "DeepViT", {}),
    ("rvt", "RvT", {}),
    ("sep_vit", "SepViT", None),
    ("cait", "CaiT", dict(cls_depth=1)),
    ("t2t", "T2TViT", None),
    ("cct", "CCT", None),
    ("cross_vit", "CrossViT", None),
    ("pit", "PiT", None),
    ("levit", "LeViT", None),
    ("cvt", "CvT", None),
    ("twins_svt", "TwinsSVT", None),
    ("crossformer", "CrossFormer", None),
    ("regionvit", "RegionViT", None),
    ("scalable_vit", "ScalableViT", None),
    ("nest", "NesT", None),
    ("mobile_vit", "MobileViT", None),
    ("xcit", "XCiT", dict(cls_depth=1)),
    ("max_vit", "MaxViT", None),
    ("vit_for_small_dataset", "ViT", {}),
    ("parallel_vit", "ViT", {}),
    ("vit_with_patch_merger", "ViT", {}),
    ("simple_flash_attn_vit", "SimpleViT", {}),
    ("simple_vit_with_register_tokens", "SimpleViT", {}),
    ("simple_vit_with_qk_norm", "SimpleViT", {}),
    ("normalized_vit", "nViT", {}),
    ("vit_with_patch_dropout", "ViT", {}),
    ("look_vit", "LookViT", None),
]
OTHER_VITS = {
    "t2t": dict(dim=32, image_size=64, depth=2, heads=2, mlp_dim=48, num_classes=10, t2t_layers=((7, 4), (3, 2))),
    "cct": dict(
        img_size=64,
        embedding_dim=32,
        n_conv_layers=1,
        kernel_size=7,
        stride=2,
        padding=3,
        pooling_kernel_size=3,
        pooling_stride=2,
        pooling_padding=1,
        num_layers=2,
        num_heads=2,
        mlp_ratio=2.0,
        num_classes=10,
        positional_embedding="sine",
    ),
    "cross_vit": dict(
        image_size=64,
        num_classes=10,
        depth=1,
        sm_dim=24,
        sm_patch_size=8,
        sm_enc_depth=1,
        sm_enc_heads=2,
        sm_enc_mlp_dim=32,
        lg_dim=32,
        lg_patch_size=16,
        lg_enc_depth=1,
        lg_enc_heads=2,
        lg_enc_mlp_dim=32,
        cross_attn_depth=1,
        cross_attn_heads=2,
    ),
    "pit": dict(image_size=64, patch_size=8, dim=32, num_classes=10, depth=(1, 1), heads=2, mlp_dim=48),
    "levit": dict(image_size=64, num_classes=10, stages=2, dim=(32, 48), depth=1, heads=(2, 3), mlp_mult=2),
    "cvt": dict(num_classes=10, s1_emb_dim=16, s2_emb_dim=24, s2_heads=2, s3_emb_dim=32, s3_heads=2, s3_depth=1),
    "twins_svt": dict(
        num_classes=10,
        s1_emb_dim=16,
        s1_patch_size=4,
        s1_local_patch_size=4,
        s1_global_k=4,
        s1_depth=1,
        s2_emb_dim=24,
        s2_patch_size=2,
        s2_local_patch_size=4,
        s2_global_k=4,
        s2_depth=1,
        s3_emb_dim=32,
        s3_patch_size=2,
        s3_local_patch_size=2,
        s3_global_k=2,
        s3_depth=1,
        s4_emb_dim=32,
        s4_patch_size=1,
        s4_local_patch_size=2,
        s4_global_k=2,
        s4_depth=1,
    ),
    "crossformer": dict(
        num_classes=10, dim=(16, 24, 32, 48), depth=(1, 1, 1, 1), global_window_size=(4, 2, 2, 1), local_window_size=2
    ),
    "regionvit": dict(dim=(16, 24, 32, 48), depth=(1, 1, 1, 1), window_size=2, num_classes=10),
    "scalable_vit": dict(
        num_classes=10,
        dim=16,
        heads=(1, 2),
        depth=(1, 1),
        ssa_dim_key=8,
        ssa_dim_value=8,
        reduction_factor=(2, 1),
        window_size=(4, 2),
    ),
    "sep_vit": dict(num_classes=10, dim=16, dim_head=8, heads=(1, 2), depth=(1, 1), window_size=4),
    "nest": dict(
        image_size=64, patch_size=4, dim=24, heads=2, num_hierarchies=2, block_repeats=(1, 1), num_classes=10
    ),
    "mobile_vit": dict(
        image_size=(64, 64), dims=[24, 32, 40], channels=[8, 8, 12, 12, 16, 16, 24, 24, 32, 32, 48], num_classes=10
    ),
    "max_vit": dict(
        num_classes=10,
        dim_conv_stem=16,
        dim=16,
        dim_head=8,
        depth=(1, 1),
        window_size=4,
        mbconv_expansion_rate=2,
        mbconv_shrinkage_rate=0.25,
    ),
    "look_vit": dict(
        image_size=64,
        num_classes=10,
        dim=32,
        patch_size=16,
        highres_patch_size=8,
        depth=1,
        heads=2,
        dim_head=16,
        cross_attn_heads=2,
        cross_attn_dim_head=16,
    ),
}


def vits(rng):
    if installed("vit_pytorch"):
        for module, name, kw in VITS:

            def draw(rng, module=module, name=name, kw=kw):
                cls = getattr(importlib.import_module("vit_pytorch." + module), name)
                kw = OTHER_VITS[module] if kw is None else dict(VIT, **kw)
                accepted = inspect.signature(cls.__init__).parameters
                if not any(p.kind == p.VAR_KEYWORD for p in accepted.values()):
                    kw = {k: v for k, v in kw.items() if k in accepted}
                return name, cls(**kw).eval(), pixels(64), ["x"]

            yield "vit_pytorch-" + module, draw


FLAGS = dict(  # of x-transformers: draw a few for a model
    use_rmsnorm=True,
    use_simple_rmsnorm=True,
    use_scalenorm=True,
    ff_glu=True,
    ff_swish=True,
    ff_relu_squared=True,
    rotary_pos_emb=True,
    rel_pos_bias=True,
    alibi_pos_bias=True,
    dynamic_pos_bias=True,
    attn_qk_norm=True,
    attn_talking_heads=True,
    attn_num_mem_kv=3,
    attn_one_kv_head=True,
    attn_kv_heads=2,
    attn_gate_values=True,
    attn_on_attn=True,
    sandwich_coef=1,
    macaron=True,
    shift_tokens=1,
    gate_residual=True,
    residual_attn=True,
    pre_norm=False,
    resi_dual=True,
    attn_sparse_topk=3,
    ff_no_bias=True,
    rotary_xpos=True,
    attn_head_scale=True,
    sandwich_norm=True,
    attn_softclamp_logits=True,
    ff_custom_activation=nn.Mish(),
    attn_value_dim_head=8,
)


def x_transformers(rng):
    x = installed("x_transformers")
    for i in range(16 if x else 0):

        def draw(rng):
            cls = rng.choice((x.Encoder, x.Decoder))
            for _ in range(50):
                flags = dict(rng.sample(sorted(FLAGS.items(), key=lambda kv: kv[0]), rng.randint(1, 4)))
                try:
                    m = x.TransformerWrapper(
                        num_tokens=90,
                        max_seq_len=64,
                        attn_layers=cls(dim=32, depth=2, heads=4, attn_dim_head=8, **flags),
                        use_abs_pos_emb=rng.random() < 0.5,
                    ).eval()
                    with torch.no_grad():
                        m(torch.randint(0, 90, (2, 12)))
                    return "+".join(flags), m, lambda b, n: (torch.randint(0, 90, (b, n)),), ["x"]
                except Exception:
                    continue

        yield f"x_transformers-{i:02}", draw


def segmenters(rng):
    smp = installed("segmentation_models_pytorch")
    for name in (
        "Unet",
        "UnetPlusPlus",
        "MAnet",
        "Linknet",
        "FPN",
        "PSPNet",
        "DeepLabV3",
        "DeepLabV3Plus",
        "PAN",
        "UPerNet",
        "Segformer",
        "DPT",
    ):
        if smp and hasattr(smp, name):

            def draw(rng, name=name):
                encoder = rng.choice(
                    (
                        "resnet18",
                        "mobilenet_v2",
                        "timm-mobilenetv3_small_075",
                        "efficientnet-b0",
                        "mit_b0",
                        "dpn68",
                        "vgg11",
                    )
                )
                if name == "DPT":
                    encoder = "tu-vit_tiny_patch16_224"
                return (
                    f"{name} {encoder}",
                    getattr(smp, name)(encoder, encoder_weights=None, classes=3).eval(),
                    pixels(224 if name == "DPT" else 128),
                    ["x"],
                )

            yield "smp-" + name, draw


KORNIA = """filters.sobel color.rgb_to_lab color.rgb_to_hsv color.hsv_to_rgb color.rgb_to_yuv color.rgb_to_luv
color.rgb_to_xyz color.rgb_to_grayscale filters.laplacian filters.canny geometry.transform.hflip
geometry.transform.pyrdown feature.harris_response enhance.equalize enhance.normalize_min_max
geometry.transform.rot180 morphology.dilation color.rgb_to_hls color.rgb_to_ycbcr color.sepia
enhance.invert feature.gftt_response""".split()
KW = {"laplacian": dict(kernel_size=3), "dilation": dict(kernel=torch.ones(3, 3))}


class Of(nn.Module):
    def __init__(self, f, **kw):
        super().__init__()
        self.f, self.kw = f, kw
        self.m = f if isinstance(f, nn.Module) else None

    def forward(self, *x):
        y = self.f(*x, **self.kw)
        return tuple(t for t in y if isinstance(t, torch.Tensor)) if isinstance(y, (tuple, list)) else y


def kornia(rng):
    if installed("kornia"):
        for path in KORNIA:

            def draw(rng, path=path):
                module, name = path.rsplit(".", 1)
                f = getattr(importlib.import_module("kornia." + module), name)
                return name, Of(f, **KW.get(name, {})).eval(), lambda b, n: (torch.rand(b, 3, 16, 20),), ["x"]

            yield "kornia-" + path, draw


class Graph(nn.Module):
    """A layer of a graph neural network: messages along edges, reduced at their targets, as PyTorch Geometric does."""

    def __init__(self, kind, heads=2):
        super().__init__()
        self.kind, self.l, self.r, self.a = (
            kind,
            nn.Linear(8, 16),
            nn.Linear(8, 16),
            nn.Parameter(torch.randn(heads, 8)),
        )

    def reduce(self, m, to, n, how):
        to = to.view(-1, *[1] * (m.dim() - 1)).expand_as(m)
        return m.new_zeros(n, *m.shape[1:]).scatter_reduce(0, to, m, how, include_self=how == "sum")

    def forward(self, x, edges):
        n, (a, b) = x.shape[0], (edges[0], edges[1])
        h = self.l(x)
        if self.kind == "gcn":
            d = self.reduce(torch.ones_like(a, dtype=x.dtype), b, n, "sum").clamp(min=1).rsqrt()
            return self.reduce(h[a] * (d[a] * d[b])[:, None], b, n, "sum")
        if self.kind == "gat":
            h = h.view(n, 2, 8)
            e = nn.functional.leaky_relu((h[a] * self.a).sum(-1) + (h[b] * self.a).sum(-1), 0.2)
            e = (e - self.reduce(e, b, n, "amax")[b]).exp()
            return self.reduce(h[a] * (e / (self.reduce(e, b, n, "sum")[b] + 1e-9))[..., None], b, n, "sum").flatten(
                1
            )
        if self.kind == "edge":
            return self.reduce(torch.relu(self.l(x[b]) + self.r(x[a] - x[b])), b, n, "amax")
        return self.r(x) + self.reduce(h[a], b, n, self.kind)


def graphs(rng):
    for kind in ("gcn", "gat", "edge", "sum", "mean", "amax", "amin", "prod"):
        yield "graph-" + kind, lambda rng, kind=kind: (
            kind,
            Graph(kind).eval(),
            lambda b, n: (torch.randn(n, 8), torch.randint(0, 7, (2, 2 * n))),
            ["x", "edges"],
        )


seq = lambda b, n: (torch.randn(b, n, 16),)
LAYERS = {  # a layer, and its inputs
    "transformer": (
        lambda: nn.Transformer(16, 4, 1, 1, 32, batch_first=True),
        lambda b, n: (torch.randn(b, n, 16), torch.randn(b, n // 2, 16)),
    ),
    "decoder_layer": (
        lambda: nn.TransformerDecoderLayer(16, 2, 32, batch_first=True, norm_first=True),
        lambda b, n: (torch.randn(b, n, 16), torch.randn(b, 5, 16)),
    ),
    "bilinear": (lambda: nn.Bilinear(16, 16, 5), lambda b, n: (torch.randn(b, 16), torch.randn(b, 16))),
    "lstm_proj": (lambda: nn.LSTM(16, 12, proj_size=6, batch_first=True), seq),
    "gru": (lambda: nn.GRU(16, 12, 2, bidirectional=True, batch_first=True), seq),
    "rnn_tanh": (lambda: nn.RNN(16, 12, bias=False), seq),
    "fold": (
        lambda: nn.Sequential(nn.Unfold(3, 1, 1, 2), nn.Fold((7, 9), 3, 1, 1, 2)),
        lambda b, n: (torch.randn(b, 2, 7, 9),),
    ),
    "unpool": (
        lambda: Of(lambda x: nn.functional.max_unpool2d(*nn.functional.max_pool2d(x, 2, return_indices=True), 2)),
        lambda b, n: (torch.randn(b, 2, 8, 6),),
    ),
    "embedding_bag": (lambda: nn.EmbeddingBag(20, 8, mode="mean"), lambda b, n: (torch.randint(0, 20, (b, n)),)),
    "embedding_bag_max": (lambda: nn.EmbeddingBag(20, 8, mode="max"), lambda b, n: (torch.randint(0, 20, (b, n)),)),
    "cross_entropy": (
        lambda: nn.CrossEntropyLoss(label_smoothing=0.1),
        lambda b, n: (torch.randn(b, 7), torch.randint(0, 7, (b,))),
    ),
    "ctc": (
        lambda: Of(
            lambda x: nn.functional.ctc_loss(
                x.log_softmax(-1),
                torch.ones(x.shape[1], 3, dtype=torch.long),
                torch.full((2,), 9),
                torch.full((2,), 3),
            )
        ),
        lambda b, n: (torch.randn(9, 2, 6),),
    ),
    "cosine": (lambda: nn.CosineSimilarity(-1), lambda b, n: (torch.randn(b, n, 16), torch.randn(b, n, 16))),
    "pairwise": (lambda: nn.PairwiseDistance(), lambda b, n: (torch.randn(b, 16), torch.randn(b, 16))),
    "adaptive_log_softmax": (
        lambda: Of(nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 12]).log_prob),
        lambda b, n: (torch.randn(b, 16),),
    ),
    "kl": (
        lambda: nn.KLDivLoss(reduction="batchmean"),
        lambda b, n: (torch.randn(b, 16).log_softmax(-1), torch.rand(b, 16)),
    ),
    "huber": (lambda: nn.HuberLoss(), lambda b, n: (torch.randn(b, 16), torch.randn(b, 16))),
    "conv3d_circular": (
        lambda: nn.Conv3d(2, 4, (1, 3, 2), padding=(0, 1, 1), padding_mode="circular"),
        lambda b, n: (torch.randn(b, 2, 4, 6, 5),),
    ),
    "conv_same": (
        lambda: nn.Conv1d(16, 8, 4, padding="same", dilation=3, groups=4),
        lambda b, n: (torch.randn(b, 16, n),),
    ),
    "deconv": (
        lambda: nn.ConvTranspose2d(4, 6, (3, 4), (2, 3), (1, 0), (1, 2), 2),
        lambda b, n: (torch.randn(b, 4, n, 5),),
    ),
    "fractional": (lambda: nn.AdaptiveMaxPool3d((2, None, 3)), lambda b, n: (torch.randn(b, 4, 6, 4, 9),)),
    "attention_mask": (
        lambda: Of(lambda x, m: ATTENTION(x, x, x, key_padding_mask=m)),
        lambda b, n: (torch.randn(b, n, 16), torch.arange(n)[None].expand(b, n) > n - 3),
    ),
    "upsample": (
        lambda: nn.Upsample(scale_factor=(1.5, 2), mode="bicubic", align_corners=True),
        lambda b, n: (torch.randn(b, 4, n, 5),),
    ),
    "rrelu": (
        lambda: nn.Sequential(nn.RReLU(), nn.Hardtanh(-0.3, 0.7), nn.Softmax2d()),
        lambda b, n: (torch.randn(b, 4, n, 5),),
    ),
    "weight_norms": (
        lambda: nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(16, 8)),
            nn.utils.parametrizations.spectral_norm(nn.Linear(8, 5)),
        ),
        seq,
    ),
    "lstm_states": (
        lambda: Of(nn.LSTM(16, 8, 2, batch_first=True)),
        lambda b, n: (torch.randn(b, n, 16), (torch.randn(2, b, 8)))[:1],
    ),
    "zero_pad": (
        lambda: nn.Sequential(nn.ZeroPad2d((1, -1, 2, 0)), nn.ReflectionPad2d(1), nn.ReplicationPad2d((0, 2, 1, 0))),
        lambda b, n: (torch.randn(b, 4, n, 5),),
    ),
    "gaussian": (
        lambda: nn.GaussianNLLLoss(reduction="none"),
        lambda b, n: (torch.randn(b, 9), torch.randn(b, 9), torch.rand(b, 9) + 0.1),
    ),
}
ATTENTION = nn.MultiheadAttention(16, 4, batch_first=True).eval()


def layers(rng):
    for name, (f, inputs) in LAYERS.items():
        yield "layer-" + name, lambda rng, f=f, inputs=inputs, name=name: (
            name,
            f().eval(),
            inputs,
            [f"x{i}" for i in range(len(inputs(1, 8)))],
        )


def models(rng):
    for family in (vits, x_transformers, segmenters, kornia, graphs, layers):
        yield from family(rng)
