"""Architectures for models.py: models of images and videos of Transformers and torchvision."""

import torch

from shared import *

first = lambda y: y[0]
vit = dict(small_image)
swin = dict(image_size=32, patch_size=2, embed_dim=12, depths=[2, 2], num_heads=[2, 4], window_size=4)


def img(name, size=32, pick=first, axes=image, n=3, **kw):
    return hf(
        name,
        name.replace("Model", "Config").split("For")[0].removesuffix("Config") + "Config",
        lambda: (torch.randn(2, n, size, size),),
        axes,
        pick=pick,
        **kw
    )


def lazy(f):
    """For architectures whose configurations need Transformers: f returns one."""
    return lambda: f()()


def torchvision(path, inputs, axes, pick=lambda y: y, **kw):
    def make():
        import importlib, torchvision

        module, name = path.rsplit(".", 1)
        m = getattr(importlib.import_module("torchvision.models" + ("." + module if module != "-" else "")), name)(
            weights=None, **kw
        ).eval()
        return Positional(m, pick).eval(), inputs(), axes

    return make


class Positional(torch.nn.Module):
    def __init__(self, m, pick):
        super().__init__()
        self.m, self.pick = m, pick

    def forward(self, *x):
        return self.pick(self.m(*x))


v = lambda: (torch.randn(1, 3, 8, 64, 64),)
x = {"x": {0: "batch"}}
M = {
    "video_r3d": torchvision("video.r3d_18", v, x),
    "video_r2plus1d": torchvision("video.r2plus1d_18", v, x),
    "video_swin3d": torchvision("video.swin3d_t", v, x),
    "raft_small": torchvision(
        "optical_flow.raft_small",
        lambda: (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)),
        {"a": {}, "b": {}},
        lambda y: y[-1],
    ),
    "data2vec_vision": img("Data2VecVisionModel", **vit),
    "bit": img("BitModel", 64, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_groups=2),
    "focalnet": img(
        "FocalNetModel",
        image_size=32,
        patch_size=4,
        embed_dim=12,
        depths=[1, 1],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
    ),
    "glpn": img("GLPNModel", 64, hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 2, 4], depths=[1, 1, 1, 1]),
    "hiera": img(
        "HieraModel",
        image_size=[32, 32],
        patch_size=[4, 4],
        patch_stride=[4, 4],
        patch_padding=[0, 0],
        embed_dim=12,
        num_heads=[1, 2],
        depths=[1, 1],
        query_stride=[2, 2],
        masked_unit_size=[2, 2],
        num_query_pool=1,
        initializer_range=0.2,
    ),
    "levit": img(
        "LevitModel",
        64,
        image_size=64,
        hidden_sizes=[16, 24, 32],
        num_attention_heads=[2, 2, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    "mobilenet_v1": img("MobileNetV1Model", depth_multiplier=0.25),
    "mobilenet_v2": img("MobileNetV2Model", depth_multiplier=0.35),
    "mobilevit_hf": img(
        "MobileViTModel",
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32],
        num_attention_heads=2,
        image_size=32,
    ),
    "pvt": img(
        "PvtModel",
        32,
        image_size=32,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
    ),
    "pvt_v2": img(
        "PvtV2Model",
        64,
        image_size=64,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
    ),
    "swin_hf": img("SwinModel", **swin),
    "swinv2_hf": img("Swinv2Model", **swin),
    "donut_swin": img("DonutSwinModel", **swin),
    "swin2sr": img(
        "Swin2SRForImageSuperResolution", image_size=32, embed_dim=12, depths=[2, 2], num_heads=[2, 2], window_size=4
    ),
    "textnet": img("TextNetModel", 64),
    "vitdet": img(
        "VitDetModel", 32, **dict(vit, window_size=2, window_block_indices=[0], use_relative_position_embeddings=True)
    ),
    "dinov3_vit": hf("DINOv3ViTModel", "DINOv3ViTConfig", pix(32), image, pick=first, **vit),
    "dinov3_convnext": hf(
        "DINOv3ConvNextModel",
        "DINOv3ConvNextConfig",
        pix(32),
        image,
        pick=first,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
    ),
    "ijepa": img("IJepaModel", **vit),
    "pixio": img("PixioModel", **vit),
    "regnet_hf": img(
        "RegNetModel", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], groups_width=8
    ),
    "hgnet_v2": hf("HGNetV2Backbone", "HGNetV2Config", pix(64), image, pick=lambda y: y.feature_maps[-1]),
    "align_vision": hf(
        "AlignVisionModel",
        "AlignVisionConfig",
        pix(64),
        image,
        pick=first,
        width_coefficient=0.25,
        depth_coefficient=0.5,
        hidden_dim=64,
    ),
    "videomae": hf(
        "VideoMAEModel",
        "VideoMAEConfig",
        lambda: (torch.randn(2, 4, 3, 32, 32),),
        image,
        pick=first,
        num_frames=4,
        tubelet_size=2,
        **vit
    ),
    "vivit": hf(
        "VivitModel",
        "VivitConfig",
        lambda: (torch.randn(2, 4, 3, 32, 32),),
        image,
        pick=first,
        num_frames=4,
        tubelet_size=[2, 8, 8],
        **{k: v for k, v in vit.items() if k != "patch_size"}
    ),
    "timesformer": hf(
        "TimesformerModel",
        "TimesformerConfig",
        lambda: (torch.randn(2, 4, 3, 32, 32),),
        image,
        pick=first,
        num_frames=4,
        **vit
    ),
    "seggpt": lazy(
        lambda: hf(
            "SegGptModel",
            "SegGptConfig",
            lambda: (torch.randn(2, 3, 32, 32), torch.randn(2, 3, 32, 32), torch.randn(2, 3, 32, 32)),
            dict(pixel_values=b, prompt_pixel_values=b, prompt_masks=b),
            pick=first,
            image_size=[64, 32],
            patch_size=8,
            hidden_size=48,
            num_hidden_layers=4,
            num_attention_heads=4,
            merge_index=1,
            intermediate_hidden_state_indices=[1, 3],
            pretrain_image_size=32,
        )
    ),
    "convnext_v1_hf": img("ConvNextModel", hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1]),
    "aimv2": hf("Aimv2VisionModel", "Aimv2VisionConfig", pix(32), image, pick=first, **vit),
    "sam_vision": lazy(
        lambda: hf(
            "SamVisionModel",
            "SamVisionConfig",
            pix(64),
            image,
            pick=first,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=64,
            patch_size=8,
            window_size=3,
            global_attn_indexes=[1],
            mlp_dim=48,
            output_channels=16,
        )
    ),
}
