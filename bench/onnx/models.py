"""models.py DIR [NAME...]: exports small architectures with random weights to DIR/NAME.

A folder has model.onnx, input_I.pb, and output_I.pb, which ONNX Runtime computes; those of other sizes are in its
folders size1 and size2. It needs torch, torchvision, timm, transformers, onnx, onnxruntime and onnxscript. Names that
end in -dynamo use the newer exporter of torch, and those that end in -opset11 the older one with that opset. "all"
stands for every architecture with both exporters.
"""

import inspect, os, sys, warnings

warnings.filterwarnings("ignore")
import numpy as np, torch
import torchvision.models as tv

import dense_models, image_models, layers, more, text_models, timm_models
from folders import export_each
from shared import both, b, hf, ids, image, llm, pix, seq2seq, small_image, speech, text


def vision(name, size=64, **kw):
    def make():
        return getattr(tv, name)(weights=None, **kw).eval(), (torch.randn(2, 3, size, size),), {"x": {0: "batch"}}

    return make


class LSTM(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.e = torch.nn.Embedding(50, 24)
        s.l = torch.nn.LSTM(24, 32, 2, batch_first=True, bidirectional=True)
        s.o = torch.nn.Linear(64, 50)

    def forward(s, x):
        return s.o(s.l(s.e(x))[0])


class GRU(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.l = torch.nn.GRU(24, 32, 1)

    def forward(s, x):
        return s.l(x)[0]


class UNet(torch.nn.Module):
    def __init__(s):
        super().__init__()
        c = torch.nn.Conv2d
        s.a, s.b, s.d, s.o = c(3, 8, 3, padding=1), c(8, 16, 3, padding=1), c(24, 8, 3, padding=1), c(8, 2, 1)
        s.n = torch.nn.GroupNorm(4, 8)

    def forward(s, x):
        a = torch.nn.functional.silu(s.n(s.a(x)))
        b = torch.relu(s.b(torch.nn.functional.max_pool2d(a, 2)))
        u = torch.nn.functional.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        return s.o(torch.relu(s.d(torch.cat([a, u], 1))))


M = {
    "resnet18": vision("resnet18"),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "efficientnet_v2_s": vision("efficientnet_v2_s"),
    "densenet121": vision("densenet121"),
    "convnext_tiny": vision("convnext_tiny"),
    "swin_t": vision("swin_t"),
    "swin_v2_t": vision("swin_v2_t"),
    "maxvit_t": vision("maxvit_t", 224),
    "vit_b_16": vision("vit_b_16", 32, image_size=32),
    "squeezenet1_1": vision("squeezenet1_1"),
    "shufflenet_v2_x0_5": vision("shufflenet_v2_x0_5"),
    "mnasnet0_5": vision("mnasnet0_5"),
    "googlenet": vision("googlenet", 96, init_weights=False, aux_logits=False),
    "inception_v3": vision("inception_v3", 160, init_weights=False, aux_logits=False),
    "alexnet": vision("alexnet", 224),
    "vgg11_bn": vision("vgg11_bn", 224),
    "bert": hf("BertModel", "BertConfig", text_models.masked, text_models.both_masked, **text),
    "lstm": lambda: (LSTM().eval(), (torch.randint(0, 50, (2, 9)),), {"x": {0: "batch"}}),
    "gru": lambda: (GRU().eval(), (torch.randn(7, 2, 24),), {"x": {1: "batch"}}),
    "unet": lambda: (UNet().eval(), (torch.randn(1, 3, 32, 48),), {"x": {0: "batch"}}),
    "distilbert": hf(
        "DistilBertModel",
        "DistilBertConfig",
        ids,
        both,
        vocab_size=100,
        dim=48,
        n_layers=2,
        n_heads=4,
        hidden_dim=96,
    ),
    "deberta": hf(
        "DebertaV2Model",
        "DebertaV2Config",
        ids,
        {"input_ids": b},
        relative_attention=True,
        position_buckets=16,
        pos_att_type=["p2c", "c2p"],
        **text,
    ),
    "modernbert": hf(
        "ModernBertModel",
        "ModernBertConfig",
        ids,
        both,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
        reference_compile=False,
        **text,
    ),
    "t5_encoder": hf(
        "T5EncoderModel",
        "T5Config",
        ids,
        both,
        vocab_size=100,
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_heads=4,
    ),
    "gpt2": hf(
        "GPT2Model",
        "GPT2Config",
        ids,
        both,
        vocab_size=100,
        n_embd=48,
        n_layer=2,
        n_head=4,
        use_cache=False,
    ),
    "llama": hf("LlamaModel", "LlamaConfig", ids, both, **llm),
    "dinov2": hf(
        "Dinov2Model",
        "Dinov2Config",
        pix(56),
        image,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=56,
        patch_size=14,
    ),
    "deit": hf(
        "DeiTModel",
        "DeiTConfig",
        pix(32),
        image,
        **small_image,
    ),
    "segformer": hf(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        pix(64),
        image,
        pick=lambda y: y.logits,
        hidden_sizes=[16, 24, 32, 48],
        decoder_hidden_size=32,
        num_attention_heads=[1, 2, 4, 4],
    ),
    "whisper_encoder": lambda: (
        __import__("transformers")
        .WhisperModel(
            __import__("transformers").WhisperConfig(max_source_positions=50, num_mel_bins=20, **seq2seq)
        )
        .encoder.eval(),
        (torch.randn(1, 20, 100),),
        {"x": {0: "b"}},
    ),
    "wav2vec2": hf(
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        lambda: (torch.randn(1, 4000),),
        {"input_values": b},
        **speech,
    ),
    "clip_vision": hf(
        "CLIPVisionModel",
        "CLIPVisionConfig",
        pix(32),
        image,
        **small_image,
    ),
    "siglip_vision": hf(
        "SiglipVisionModel",
        "SiglipVisionConfig",
        pix(32),
        image,
        **small_image,
    ),
    "mamba": hf(
        "MambaModel",
        "MambaConfig",
        lambda: (torch.randint(0, 90, (1, 8)),),
        {"input_ids": {}},
        vocab_size=100,
        hidden_size=24,
        num_hidden_layers=2,
        state_size=8,
        use_cache=False,
    ),
}
for family in (more, text_models, image_models, dense_models, timm_models, layers):
    M.update(family.M)


def other_size(args, axes, k):
    """Returns inputs of other sizes: k is 1 or 2."""
    sizes = {}
    out = []
    for a, ax in zip(args, axes.values()):
        shape = list(a.shape)
        for i, name in ax.items():
            shape[i] = sizes.setdefault(name, shape[i] + 1 if k == 1 else max(1, (shape[i] + 1) // 2))
        if a.dtype.is_floating_point:
            out.append(torch.randn(shape, dtype=a.dtype))
        elif a.dtype == torch.bool:
            out.append(torch.arange(int(np.prod(shape))).view(shape) % 3 == 1)
        elif a.dtype == torch.long and a.min() != a.max():
            out.append(torch.randint(0, int(a.max()), shape))
        else:
            out.append(torch.full(shape, a.flatten()[0], dtype=a.dtype))
    return tuple(out)


def write_model(m, args, axes, path, how):
    with torch.no_grad():
        if how != "dynamo":
            opset = int(how.removeprefix("opset") or 18)
            kw = dict(input_names=list(axes), dynamic_axes=axes, opset_version=opset, dynamo=False)
            torch.onnx.export(m, args, path, **kw)
            return
        dims = {n: torch.export.Dim(n, min=1, max=512) for ax in axes.values() for n in ax.values()}
        shapes = tuple({i: dims[n] for i, n in ax.items()} for ax in axes.values())
        params = list(inspect.signature(m.forward).parameters.values())
        if params and params[0].kind == inspect.Parameter.VAR_POSITIONAL:
            shapes = (shapes,)
        torch.onnx.export(
            m,
            args,
            path,
            input_names=list(axes),
            dynamic_shapes=shapes,
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def export(name, path):
    torch.manual_seed(1)
    architecture, _, how = name.partition("-")
    m, args, axes = M[architecture]()
    write_model(m, args, axes, path, how)

    def feeds(session):
        names = [x.name for x in session.get_inputs()]
        sizes = [args] + [other_size(args, axes, k) for k in (1, 2) if any(axes.values())]
        return [{n: a.numpy() for n, a in zip(names, x)} for x in sizes]

    return feeds


names = sys.argv[2:] or list(M)
if names == ["all"]:
    names = list(M) + [n + "-dynamo" for n in M]
export_each(sys.argv[1], names, export)
