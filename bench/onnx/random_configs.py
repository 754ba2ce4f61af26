"""Small configurations of Transformers, made from the defaults of any class, and inputs for any model, for
random_models.py.

A width, depth or number is made smaller by what its name says. A model that this breaks gets only the smaller depths,
and then its defaults.
"""

import collections, dataclasses, importlib, itertools, re

import torch

SMALL = [  # names, and their value as a number or a function of the default
    (r"vocab_size|vocab$|num_embeddings", lambda v: min(v, 120)),
    (r".*token_(id|index)$|.*_token$", lambda v: v if v < 100 else 90 + v % 10),
    (
        r"(num_|n_)?(hidden_|encoder_|decoder_|attention_|text_)*(layers?|blocks)|depth|num_.*(layers|blocks|stages)",
        lambda v: min(v, 2),
    ),
    (r"num_(local_|routed_)?experts|n_routed_experts|num_queries|.*num_latents", lambda v: min(v, 4)),
    (r".*(experts_per_tok|top_?k)", lambda v: min(v, 2)),
    (r"image_size|input_size|pretrain_image_size", lambda v: 64 if v > 64 else v),
    (r"max_(position|source|target).*|n_positions|n_ctx|max_seq_len.*", lambda v: min(v, 128)),
    (r"use_cache|use_pretrained_backbone|use_timm_backbone", lambda v: False),
    (r".*chunk_size", lambda v: min(v, 8)),
    (r"sliding_window.*", lambda v: 6),
]
NARROW = SMALL + [
    (r".*(num_key_value_heads|num_kv_heads)", lambda v: 2),
    (r".*(num|n)_(.*_)?heads?|.*attention_heads|n_head", lambda v: min(v, 4)),
    (r".*(head_dim|d_head|dim_head|d_kv)|.*_rank", lambda v: min(v, 16)),
    (r".*(ffn|intermediate|inner|feedforward|d_ff|mlp).*(dim|size)?", lambda v: min(v, 96)),
    (
        r"(.*_)?(hidden_size|d_model|n_embd|dim|embed_dim|embedding_size|hidden_dim|width|.*projection_dim)",
        lambda v: min(v, 64),
    ),
    (r".*(state_size|d_state)", lambda v: min(v, 8)),
]


def smaller(name, value, rules, quarter):
    """Returns the smaller value, or value."""
    if isinstance(value, (list, tuple)) and value and all(type(v) is int for v in value):
        if re.fullmatch(r"depths|layers|num_blocks|num_layers", name):
            return [min(v, 1) for v in value]
        if quarter and re.fullmatch(
            r".*(hidden_sizes|embed_dims?|dims|widths|conv_dim|channels.*|num_filters|out_features)", name
        ):
            return [max(v // 4, 8) for v in value]
        return value
    if type(value) not in (int, bool):
        return value
    for pattern, f in rules:
        if re.fullmatch(pattern, name):
            return f(value)
    return value


def config(cls, level, **given):
    """Returns a small configuration of cls: level 0 is the smallest, 2 the defaults."""
    if level == 2:
        return cls(**given)
    rules, kw = (NARROW, SMALL)[level], dict(given)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    lists = any(isinstance(f.default, (list, tuple)) and "heads" in n for n, f in fields.items())
    for name, f in fields.items():
        value = f.default if f.default is not dataclasses.MISSING else None
        if value is None and f.default_factory is not dataclasses.MISSING:
            value = f.default_factory()
        if value is None or name in given or name.startswith("_"):
            continue
        if lists and level == 0 and type(value) is int and re.fullmatch(r"embed_dim|hidden_size", name):
            new = max(value // 4, 8)
        else:
            new = smaller(name, value, rules, level == 0)
        if new != value:
            kw[name] = new
    for name, sub in (getattr(cls, "sub_configs", None) or {}).items():
        if name in fields and name not in kw:
            kw[name] = part(cls, name, sub, level)
    return cls(**{k: v for k, v in kw.items() if v is not None})


def part(cls, name, sub, level):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, AutoConfig

    spec = (getattr(cls, "sub_configs_defaults", None) or {}).get(name)
    kw = dict(getattr(spec, "init_kwargs", None) or {})
    if sub is AutoConfig:
        if spec is None or not getattr(spec, "model_type", None):
            return None
        sub = CONFIG_MAPPING[spec.model_type]
    keep = {k: v for k, v in kw.items() if type(v) not in (int, bool)}
    if "out_features" in keep or "out_indices" in keep:
        keep.update({k: v for k, v in kw.items() if "layers" in k})
    for k, v in kw.items():
        keep.setdefault(k, smaller(k, v, (NARROW, SMALL, [])[level], level == 0))
    return config(sub, level, **keep)


def classes(model_type):
    """Returns the names of the model's classes."""
    from transformers.models.auto import modeling_auto as m

    found = []
    for name in sorted(vars(m)):
        if name.endswith("_MAPPING_NAMES") and "PRETRAINING" not in name:
            c = vars(m)[name].get(model_type, ())
            found += [c] if isinstance(c, str) else list(c)
    return list(dict.fromkeys(found))


def leaf(c, *names):
    """The first of these attributes of a configuration or its parts."""
    for n in names:
        if isinstance(getattr(c, n, None), (int, list, tuple)) and getattr(c, n) not in (None, True, False):
            v = getattr(c, n)
            return v if isinstance(v, int) else v[-1]
    for part in vars(c).values():
        if hasattr(part, "model_type"):
            v = leaf(part, *names)
            if v:
                return v


def ids(vocab, *seed):
    def make(b, n):
        g = torch.Generator().manual_seed(b * 100 + n)
        return torch.randint(3, vocab, (b, n), generator=g)

    return make


def padded(b, n):
    x = torch.ones(b, n, dtype=torch.long)
    x[-1, n - n // 4 :] = 0
    return x


def normal(*shape):
    """shape has numbers, "b" and "n"."""
    return lambda b, n: torch.randn([{"b": b, "n": n}.get(s, s) for s in shape])


def choices(name, c):
    """Returns functions of a batch and a length that make the input, the likeliest first."""
    side, channels = leaf(c, "image_size") or 64, leaf(c, "num_channels", "in_channels") or 3
    mels = (
        leaf(c, "num_mel_bins", "feature_size", "input_feat_per_channel", "num_mel_channels", "n_mels", "feature_dim")
        or 80
    )
    vocab = min(leaf(c, "vocab_size") or 100, 90)
    width = leaf(c, "hidden_size", "d_model") or 64
    frames = leaf(c, "num_frames", "frames_per_clip") or 4
    images = [normal("b", channels, s, s) for s in dict.fromkeys((side, 64, 224, 128))]
    length = leaf(c, "context_length") or 32
    known = {
        "input_ids": [ids(vocab)],
        "decoder_input_ids": [lambda b, n: ids(vocab)(b, n // 2 + 1)],
        "attention_mask": [padded],
        "pixel_values": images + [normal("b", frames, channels, s, s) for s in (side, 224)],
        "pixel_values_videos": [normal("b", frames, channels, side, side)],
        "input_values": [
            normal("b", 4000),
            normal("b", 1, 4000),
            normal("b", 1024, mels),
            normal("b", leaf(c, "max_length") or 64, mels),
        ],
        "input_features": [
            normal("b", mels, 100),
            normal("b", 100, mels),
            normal("b", mels, 3000),
            normal("b", 100, 160),
        ],
        "bbox": [lambda b, n: torch.randint(0, 60, (b, n, 4)).sort(-1).values],
        "past_values": [normal("b", length, leaf(c, "num_input_channels") or 1), normal("b", length)],
        "inputs": [ids(vocab), normal("b", 32, width), *images],
        "inputs_embeds": [normal("b", "n", width)],
        "hidden_states": [normal("b", "n", width)],
        "token_type_ids": [lambda b, n: torch.zeros(b, n, dtype=torch.long)],
        "audio_codes": [lambda b, n: torch.randint(0, 30, (b, 8, n))],
        "spectrogram": [normal("b", 40, mels)],
        "prompt_pixel_values": images,
        "prompt_masks": images,
    }
    return known.get(name, [])


def feeds(model, c):
    """Yields inputs to try: a dict of functions for each."""
    import inspect

    parameters = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    main = main if main in parameters else next(iter(parameters), None)
    known = [n for n in parameters if choices(n, c)]
    some = [n for n in known if n in ("input_ids", "pixel_values", "decoder_input_ids", "attention_mask")]
    tried = []
    for names in ([main], [main, "attention_mask"], [main, "decoder_input_ids"], some, known):
        names = list(dict.fromkeys(n for n in names if n in known))
        if names and names not in tried:
            tried.append(names)
    tried.sort(
        key=lambda names: "attention_mask" not in names or "input_ids" not in names
    )  # masks are the harder case
    for names in tried:
        for made in itertools.islice(itertools.product(*(choices(n, c) for n in names)), 12):
            yield dict(zip(names, made))


def tensors(y):
    """Returns the tensors of an output, without caches."""
    if isinstance(y, torch.Tensor):
        return [] if y.is_complex() else [y]
    if isinstance(y, collections.abc.Mapping):
        return [
            t
            for k, v in y.items()
            if "past" not in k and "cache" not in k and "hidden_states" != k
            for t in tensors(v)
        ]
    if isinstance(y, (list, tuple)):
        return [t for v in y for t in tensors(v)]
    return []


class Named(torch.nn.Module):
    """A model whose inputs have these names, and whose outputs are a tuple."""

    def __init__(self, m, names):
        super().__init__()
        self.m, self.names = m, names

    def forward(self, *x):
        return tuple(tensors(self.m(**dict(zip(self.names, x)))))


def model(model_type, rng):
    """Returns a small model of the type, its inputs as a function of two sizes, and their names."""
    import transformers

    names, why = classes(model_type), None
    rng.shuffle(names)
    for name in names[:3]:
        cls = getattr(transformers, name, None)
        if cls is None:
            continue
        for level in (0, 1, 2):
            try:
                c = config(cls.config_class, level)
                with torch.device("meta"):
                    if sum(p.numel() for p in cls(c).parameters()) > 30e6:
                        raise ValueError("too large")
                m = cls(c).eval()
            except Exception as e:
                why = why or f"{name} level {level}: {type(e).__name__}: {str(e)[:200]}"
                continue
            try:
                m.set_attn_implementation(rng.choice(("eager", "sdpa")))
            except Exception:
                pass
            for made in feeds(m, c):
                wrapped = Named(m, list(made)).eval()
                inputs = lambda b, n, made=made: tuple(f(b, n) for f in made.values())
                try:
                    with torch.no_grad():
                        if wrapped(*inputs(2, 12)):
                            return name, wrapped, inputs, list(made)
                except Exception as e:
                    why = f"{name} level {level}: {list(made)}: {type(e).__name__}: {str(e)[:200]}"
    raise ValueError(why or "no class")
