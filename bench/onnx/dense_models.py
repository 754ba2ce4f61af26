"""Architectures for models.py: detection, segmentation, depth, and images with text, of Transformers."""

import torch

from image_models import first, img, lazy, swin, vit
from shared import *

logits = lambda y: y.logits
detr = dict(
    d_model=32,
    encoder_layers=1,
    decoder_layers=1,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    num_queries=9,
)
backbone = dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None)


def resnet(**kw):
    import transformers as t

    return t.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
        layer_type="basic",
        **kw
    )


def swin_backbone():
    import transformers as t

    return t.SwinConfig(
        image_size=64,
        embed_dim=12,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=4,
        patch_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )


M = {
    "depth_anything": lazy(
        lambda: img(
            "DepthAnythingForDepthEstimation",
            28,
            backbone_config=__import__("transformers").Dinov2Config(
                hidden_size=24,
                num_hidden_layers=4,
                num_attention_heads=2,
                image_size=28,
                patch_size=14,
                out_features=["stage1", "stage2", "stage3", "stage4"],
                reshape_hidden_states=False,
            ),
            reassemble_hidden_size=24,
            neck_hidden_sizes=[8, 12, 16, 20],
            fusion_hidden_size=8,
            head_hidden_size=8,
            patch_size=14,
        )
    ),
    "maskformer": lazy(
        lambda: hf(
            "MaskFormerForInstanceSegmentation",
            "MaskFormerConfig",
            pix(64),
            image,
            pick=lambda y: (y.class_queries_logits, y.masks_queries_logits),
            backbone_config=swin_backbone(),
            fpn_feature_size=32,
            mask_feature_size=32,
            decoder_config=__import__("transformers").DetrConfig(**detr, **backbone),
        )
    ),
    "mask2former": lazy(
        lambda: hf(
            "Mask2FormerForUniversalSegmentation",
            "Mask2FormerConfig",
            pix(64),
            image,
            pick=lambda y: (y.class_queries_logits, y.masks_queries_logits),
            backbone_config=swin_backbone(),
            feature_size=32,
            mask_feature_size=32,
            hidden_dim=32,
            encoder_feedforward_dim=64,
            encoder_layers=1,
            decoder_layers=2,
            num_attention_heads=4,
            dim_feedforward=64,
            num_queries=7,
        )
    ),
    "oneformer": lazy(
        lambda: hf(
            "OneFormerForUniversalSegmentation",
            "OneFormerConfig",
            lambda: (torch.randn(2, 3, 64, 64), torch.randint(3, 90, (2, 20))),
            dict(pixel_values=b, task_inputs=b),
            pick=lambda y: (y.class_queries_logits, y.masks_queries_logits),
            backbone_config=swin_backbone(),
            hidden_dim=32,
            conv_dim=32,
            mask_dim=32,
            encoder_feedforward_dim=64,
            encoder_layers=1,
            decoder_layers=2,
            num_attention_heads=4,
            dim_feedforward=64,
            num_queries=7,
            text_encoder_width=32,
            text_encoder_vocab_size=100,
            text_encoder_num_layers=1,
            task_seq_len=20,
            query_dec_layers=1,
        )
    ),
    "conditional_detr": lazy(
        lambda: hf(
            "ConditionalDetrModel",
            "ConditionalDetrConfig",
            pix(64),
            image,
            pick=first,
            backbone_config=resnet(),
            **detr
        )
    ),
    "dab_detr": lazy(
        lambda: hf(
            "DabDetrModel",
            "DabDetrConfig",
            pix(64),
            image,
            pick=first,
            backbone_config=resnet(),
            **dict({k: v for k, v in detr.items() if k != "d_model"}, hidden_size=32)
        )
    ),
    "deformable_detr": lazy(
        lambda: hf(
            "DeformableDetrModel", "DeformableDetrConfig", pix(64), image, pick=first, backbone_config=resnet(), **detr
        )
    ),
    "rt_detr": lazy(
        lambda: hf(
            "RTDetrModel",
            "RTDetrConfig",
            pix(64),
            image,
            pick=first,
            backbone_config=__import__("transformers").RTDetrResNetConfig(
                embedding_size=8,
                hidden_sizes=[8, 16, 24, 32],
                depths=[1, 1, 1, 1],
                out_features=["stage2", "stage3", "stage4"],
                layer_type="basic",
            ),
            encoder_in_channels=[16, 24, 32],
            encoder_hidden_dim=32,
            encoder_ffn_dim=64,
            d_model=32,
            num_queries=9,
            decoder_ffn_dim=64,
            decoder_layers=2,
            decoder_attention_heads=4,
            decoder_in_channels=[32, 32, 32],
            encoder_attention_heads=4,
            num_denoising=0,
            anchor_image_size=None,
            hidden_expansion=0.5,
        )
    ),
    "table_transformer": lazy(
        lambda: hf(
            "TableTransformerModel",
            "TableTransformerConfig",
            pix(64),
            image,
            pick=first,
            backbone_config=resnet(),
            **detr
        )
    ),
    "owlvit": lazy(
        lambda: hf(
            "OwlViTForObjectDetection",
            "OwlViTConfig",
            lambda: (torch.randint(3, 90, (2, 8)), torch.randn(2, 3, 32, 32), torch.ones(2, 8, dtype=torch.long)),
            dict(input_ids=b, pixel_values=b, attention_mask=b),
            pick=lambda y: (y.logits, y.pred_boxes),
            text_config=dict(text, max_position_embeddings=16),
            vision_config=vit,
            projection_dim=48,
        )
    ),
    "clip": lazy(
        lambda: hf(
            "CLIPModel",
            "CLIPConfig",
            lambda: (torch.randint(3, 90, (2, 8)), torch.randn(2, 3, 32, 32)),
            dict(input_ids=b, pixel_values=b),
            pick=lambda y: y.logits_per_image,
            text_config=dict(text, pad_token_id=0, bos_token_id=1, eos_token_id=2),
            vision_config=vit,
            projection_dim=24,
        )
    ),
    "clipseg": lazy(
        lambda: hf(
            "CLIPSegForImageSegmentation",
            "CLIPSegConfig",
            lambda: (torch.randint(3, 90, (2, 8)), torch.randn(2, 3, 32, 32)),
            dict(input_ids=b, pixel_values=b),
            pick=logits,
            text_config=dict(text, pad_token_id=0, bos_token_id=1, eos_token_id=2),
            vision_config=dict(vit, num_hidden_layers=4),
            projection_dim=24,
            extract_layers=[1, 2, 3],
            reduce_dim=16,
            decoder_num_attention_heads=4,
            decoder_intermediate_size=32,
        )
    ),
    "groupvit": lazy(
        lambda: hf(
            "GroupViTVisionModel",
            "GroupViTVisionConfig",
            pix(32),
            image,
            pick=first,
            hidden_size=48,
            intermediate_size=96,
            depths=[1, 1, 1],
            num_attention_heads=4,
            image_size=32,
            patch_size=8,
            num_group_tokens=[8, 4, 0],
            num_output_groups=[8, 4, 0],
        )
    ),
    "blip_vision": hf("BlipVisionModel", "BlipVisionConfig", pix(32), image, pick=first, **vit),
    "blip_text": hf(
        "BlipTextModel", "BlipTextConfig", ids, both, pick=first, bos_token_id=1, **dict(text, is_decoder=False)
    ),
    "flava_image": hf("FlavaImageModel", "FlavaImageConfig", pix(32), image, pick=first, **vit),
    "git": lazy(
        lambda: hf(
            "GitModel",
            "GitConfig",
            lambda: (torch.randint(3, 90, (2, 8)), torch.randn(2, 3, 32, 32)),
            dict(input_ids=b, pixel_values=b),
            pick=first,
            vision_config=vit,
            use_cache=False,
            **text
        )
    ),
    "pix2struct": lazy(
        lambda: hf(
            "Pix2StructVisionModel",
            "Pix2StructVisionConfig",
            lambda: (torch.cat([torch.randint(1, 9, (2, 6, 2)).float(), torch.randn(2, 6, 192)], -1),),
            {"flattened_patches": b},
            pick=first,
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            d_ff=96,
            d_kv=12,
            patch_embed_hidden_size=192,
            seq_len=16,
        )
    ),
    "layoutlmv3": lazy(
        lambda: hf(
            "LayoutLMv3Model",
            "LayoutLMv3Config",
            lambda: (
                torch.randint(3, 90, (2, 8)),
                torch.randint(0, 60, (2, 8, 4)).sort(-1).values,
                torch.randn(2, 3, 32, 32),
            ),
            dict(input_ids=b, bbox=b, pixel_values=b),
            pick=first,
            **dict(text, input_size=32, patch_size=8, coordinate_size=8, shape_size=8, max_2d_position_embeddings=64)
        )
    ),
}
