"""What the files of architectures share: exports of timm and Transformers, their inputs and small sizes.

An architecture is a function that returns a module, its inputs, and the names of the open axes of each input.
"""

import torch
from torch import nn


def timm_model(name, size=64, **kw):
    def make():
        import timm

        return timm.create_model(name, **kw).eval(), (torch.randn(2, 3, size, size),), {"x": {0: "batch"}}

    return make


class Wrapped(nn.Module):
    """A module of one output: what pick takes from the output of m."""

    def __init__(self, m, names, pick, **kw):
        super().__init__()
        self.m, self.names, self.pick, self.kw = m, names, pick, kw

    def forward(self, *a):
        return self.pick(self.m(**dict(zip(self.names, a)), **self.kw))


def hf(model, config, inputs, axes, pick=lambda y: y.last_hidden_state, attn="eager", call=None, **kw):
    def make():
        import transformers as t

        m = getattr(t, model)(getattr(t, config)(**kw)).eval()
        try:
            m.set_attn_implementation(attn)
        except Exception:
            pass
        x = inputs()
        return Wrapped(m, list(axes), pick, **(call or {})).eval(), x, axes

    return make


ids = lambda: (torch.randint(3, 90, (2, 12)),)
ids2 = lambda: (torch.randint(3, 90, (2, 12)), torch.randint(3, 90, (2, 5)))
pix = lambda s: (lambda: (torch.randn(2, 3, s, s),))
both = {"input_ids": {0: "batch", 1: "seq"}}
pair = {"input_ids": {0: "batch", 1: "seq"}, "decoder_input_ids": {0: "batch", 1: "target"}}
image = {"pixel_values": {0: "batch"}}
text = dict(vocab_size=100, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
special = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
llm = dict(text, num_key_value_heads=2, head_dim=12, use_cache=False, **special)
seq2seq = dict(
    vocab_size=100,
    d_model=48,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=96,
    decoder_ffn_dim=96,
    decoder_start_token_id=1,
    **special,
)
small_image = dict(
    hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8
)
speech = dict(
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=96,
    conv_dim=[16] * 7,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
)
one = lambda module, axes, *a: (lambda: (module().eval(), tuple(f() for f in a), axes))
r = lambda *s: (lambda: torch.randn(*s))
b = {0: "batch"}
