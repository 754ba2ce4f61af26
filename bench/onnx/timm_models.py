"""Architectures for models.py: more families of timm, each with its smallest model."""

from shared import timm_model

M = {
    **{
        n: timm_model(n, 224)
        for n in (
            "coat_tiny",
            "convit_tiny",
            "efficientformer_l1",
            "efficientformerv2_s0",
            "efficientvit_m0",
            "efficientvim_m1",
            "focalnet_tiny_srf",
            "gcvit_xxtiny",
            "hiera_tiny_224",
            "iformer_t",
            "gmlp_ti16_224",
            "mixer_s32_224",
            "resmlp_12_224",
            "mvitv2_tiny",
            "nest_tiny",
            "cait_xxs24_224",
            "pit_ti_224",
            "pvt_v2_b0",
            "sequencer2d_s",
            "tnt_s_patch16_224",
            "twins_pcpvt_small",
            "vitamin_small_224",
            "swinv2_cr_tiny_ns_224",
            "poolformerv2_s12",
            "davit_tiny",
        )
    },
    "crossvit_tiny_240": timm_model("crossvit_tiny_240", 240),
    "test_coatnet": timm_model("test_coatnet", 160),
    **{
        n: timm_model(n, 64)
        for n in (
            "fasternet_t0",
            "hgnetv2_b0",
            "inception_next_atto",
            "lcnet_035",
            "lcnetv2_small",
            "lowformer_b0",
            "test_mambaout",
            "cs3darknet_focus_s",
            "cspnext_tiny",
            "repvit_m0_9",
            "resnest14d",
            "selecsls42",
            "skresnet18",
            "tresnet_m",
            "swiftformer_xs",
            "shvit_s1",
            "regnetz_005",
            "legacy_seresnet18",
            "nextvit_small",
            "gernet_s",
            "eca_nfnet_l0",
            "convmixer_768_32",
            "test_byobnet",
            "lambda_resnet26t",
            "rdnet_tiny",
        )
    },
}
