"""Architectures for models.py: text models of Transformers."""

import torch

from shared import *

first = lambda y: y[0]
masked = lambda: (torch.randint(3, 90, (2, 12)), torch.ones(2, 12, dtype=torch.long))
both_masked = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "seq"}}
bert = dict(text, max_position_embeddings=64, type_vocab_size=2)
gpt = dict(vocab_size=100, n_embd=48, n_layer=2, n_head=4, n_positions=64, use_cache=False, **special)


def encoder(name, axes=both, inputs=ids, **kw):
    return hf(name + "Model", name + "Config", inputs, axes, pick=first, **kw)


M = {
    "bert_masked": encoder("Bert", both_masked, masked, **bert),
    "bigbird": encoder("BigBird", both, ids, attention_type="original_full", **bert),
    "blenderbot": encoder("Blenderbot", pair, ids2, **seq2seq),
    "blenderbot_small": encoder("BlenderbotSmall", pair, ids2, **seq2seq),
    "canine": encoder(
        "Canine",
        dict(input_ids=b),
        lambda: (torch.randint(3, 90, (2, 64)),),
        local_transformer_stride=16,
        **{k: v for k, v in bert.items() if k != "vocab_size"}
    ),
    "data2vec_text": encoder("Data2VecText", **bert),
    "deberta_v1": encoder("Deberta", dict(input_ids=b), relative_attention=True, pos_att_type=["p2c", "c2p"], **bert),
    "ernie": encoder("Ernie", **bert),
    "esm": encoder(
        "Esm", both_masked, masked, pad_token_id=1, mask_token_id=4, position_embedding_type="rotary", **text
    ),
    "falcon": encoder(
        "Falcon",
        vocab_size=100,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        use_cache=False,
        alibi=False,
        **special
    ),
    "fnet": encoder(
        "FNet",
        dict(input_ids=b),
        use_tpu_fourier_optimizations=False,
        tpu_short_seq_length=16,
        **{k: v for k, v in bert.items() if k != "num_attention_heads"}
    ),
    "fsmt": encoder(
        "FSMT",
        pair,
        ids2,
        langs=["en", "de"],
        src_vocab_size=100,
        tgt_vocab_size=100,
        use_cache=False,
        **{k: v for k, v in seq2seq.items() if k != "vocab_size"}
    ),
    "funnel": encoder(
        "Funnel",
        dict(input_ids=b),
        vocab_size=100,
        block_sizes=[1, 1],
        num_decoder_layers=1,
        d_model=48,
        n_head=4,
        d_head=12,
        d_inner=96,
    ),
    "gptj": encoder("GPTJ", rotary_dim=8, **gpt),
    "gpt_neo": encoder(
        "GPTNeo",
        vocab_size=100,
        hidden_size=48,
        num_layers=2,
        num_heads=4,
        window_size=5,
        attention_types=[[["global", "local"], 1]],
        max_position_embeddings=64,
        use_cache=False,
        **special
    ),
    "gpt_bigcode": encoder("GPTBigCode", **gpt),
    "codegen": encoder("CodeGen", rotary_dim=8, **gpt),
    "ctrl": encoder("CTRL", **dict(gpt, dff=96)),
    "openai_gpt": encoder("OpenAIGPT", **{k: v for k, v in gpt.items() if k != "use_cache"}),
    "imagegpt": encoder("ImageGPT", **gpt),
    "ibert": encoder("IBert", quant_mode=False, **bert),
    "luke": encoder("Luke", entity_vocab_size=10, entity_emb_size=12, **bert),
    "mbart": encoder("MBart", pair, ids2, **seq2seq),
    "m2m100": encoder("M2M100", pair, ids2, **seq2seq),
    "pegasus": encoder("Pegasus", pair, ids2, **seq2seq),
    "pegasus_x": encoder(
        "PegasusX",
        dict(input_ids=b, decoder_input_ids=b),
        lambda: (torch.randint(3, 90, (2, 16)), torch.randint(3, 90, (2, 5))),
        block_size=8,
        num_global_tokens=4,
        **seq2seq
    ),
    "bigbird_pegasus": encoder("BigBirdPegasus", pair, ids2, attention_type="original_full", **seq2seq),
    "plbart": encoder("PLBart", pair, ids2, **seq2seq),
    "megatron_bert": encoder("MegatronBert", **bert),
    "prophetnet": encoder(
        "ProphetNet",
        pair,
        ids2,
        vocab_size=100,
        hidden_size=48,
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        ngram=2,
        num_buckets=8,
        relative_max_distance=16,
        use_cache=False,
        **special
    ),
    "rembert": encoder("RemBert", input_embedding_size=24, output_embedding_size=24, **bert),
    "roberta_prelayernorm": encoder("RobertaPreLayerNorm", **bert),
    "rwkv": encoder(
        "Rwkv",
        dict(input_ids={}),
        lambda: (torch.randint(3, 90, (1, 6)),),
        vocab_size=100,
        hidden_size=48,
        num_hidden_layers=2,
        attention_hidden_size=48,
        use_cache=False,
    ),
    "splinter": encoder("Splinter", **bert),
    "squeezebert": encoder("SqueezeBert", embedding_size=48, q_groups=4, k_groups=4, v_groups=4, **bert),
    "tapas": hf(
        "TapasModel",
        "TapasConfig",
        lambda: (torch.randint(3, 90, (2, 12)), torch.randint(0, 2, (2, 12, 7))),
        {"input_ids": {0: "batch"}, "token_type_ids": {0: "batch"}},
        pick=first,
        **text
    ),
    "xlm": encoder("XLM", vocab_size=100, n_words=100, emb_dim=48, n_layers=2, n_heads=4, pad_index=0),
    "flaubert": encoder("Flaubert", vocab_size=100, n_words=100, emb_dim=48, n_layers=2, n_heads=4, pad_index=0),
    "xlm_roberta_xl": encoder("XLMRobertaXL", **bert),
    "xlnet": encoder("XLNet", vocab_size=100, d_model=48, n_layer=2, n_head=4, d_inner=96),
    "xmod": encoder("Xmod", default_language="en", languages=["en"], **bert),
    "yoso": encoder("Yoso", use_expectation=True, **bert),
    "layoutlm": hf(
        "LayoutLMModel",
        "LayoutLMConfig",
        lambda: (torch.randint(3, 90, (2, 12)), torch.randint(0, 60, (2, 12, 4)).sort(-1).values),
        {"input_ids": {0: "batch", 1: "seq"}, "bbox": {0: "batch", 1: "seq"}},
        pick=first,
        max_2d_position_embeddings=128,
        **bert
    ),
    "lilt": hf(
        "LiltModel",
        "LiltConfig",
        lambda: (torch.randint(3, 90, (2, 12)), torch.randint(0, 60, (2, 12, 4)).sort(-1).values),
        {"input_ids": {0: "batch", 1: "seq"}, "bbox": {0: "batch", 1: "seq"}},
        pick=first,
        max_2d_position_embeddings=128,
        **bert
    ),
    "markuplm": encoder(
        "MarkupLM",
        max_xpath_tag_unit_embeddings=20,
        max_xpath_subs_unit_embeddings=20,
        tag_pad_id=3,
        subs_pad_id=3,
        xpath_unit_hidden_size=8,
        max_depth=5,
        **bert
    ),
    "mt5_encoder": hf(
        "MT5EncoderModel",
        "MT5Config",
        ids,
        both,
        vocab_size=100,
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_heads=4,
    ),
    "umt5": encoder("UMT5", pair, ids2, vocab_size=100, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4),
    "longt5": encoder(
        "LongT5",
        dict(input_ids=b, decoder_input_ids=b),
        lambda: (torch.randint(3, 90, (2, 16)), torch.randint(3, 90, (2, 5))),
        vocab_size=100,
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_heads=4,
        local_radius=4,
        encoder_attention_type="local",
        decoder_start_token_id=0,
    ),
    "perceiver": hf(
        "PerceiverForMaskedLM",
        "PerceiverConfig",
        lambda: (torch.randint(3, 90, (2, 16)),),
        dict(inputs=b),
        pick=first,
        vocab_size=100,
        num_latents=6,
        d_latents=32,
        d_model=24,
        num_blocks=1,
        num_self_attends_per_block=2,
        num_self_attention_heads=4,
        num_cross_attention_heads=4,
        max_position_embeddings=32,
    ),
    "bert_generation": hf("BertGenerationEncoder", "BertGenerationConfig", ids, both, pick=first, **bert),
    "biogpt": encoder("BioGpt", **dict(text, use_cache=False, **special)),
    "xglm": encoder(
        "XGLM", vocab_size=100, d_model=48, num_layers=2, attention_heads=4, ffn_dim=96, use_cache=False, **special
    ),
    "mgp_str": hf(
        "MgpstrModel",
        "MgpstrConfig",
        lambda: (torch.randn(2, 3, 32, 32),),
        dict(pixel_values=b),
        pick=first,
        image_size=[32, 32],
        patch_size=8,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_token_length=5,
    ),
    "nomic_bert": encoder("NomicBert", **bert),
    "eurobert": encoder("EuroBert", **dict(llm)),
    "jina_v3": encoder("JinaEmbeddingsV3", **bert),
    "modernbert_decoder": encoder(
        "ModernBertDecoder", **dict(text, use_cache=False, cls_token_id=1, sep_token_id=2, **special)
    ),
    "cohere": encoder("Cohere", **llm),
    "cohere2": encoder("Cohere2", **llm),
    "olmo": encoder("Olmo", **llm),
    "olmo2": encoder("Olmo2", **llm),
    "gemma2": encoder("Gemma2", **llm),
    "gemma3": hf(
        "Gemma3TextModel", "Gemma3TextConfig", ids, both, pick=first, sliding_window=5, sliding_window_pattern=2, **llm
    ),
    "glm": encoder("Glm", **llm),
    "glm4": encoder("Glm4", **llm),
    "granite": encoder("Granite", **llm),
    "helium": encoder("Helium", **llm),
    "mpt": encoder(
        "Mpt", d_model=48, n_heads=4, n_layers=2, max_seq_len=64, vocab_size=100, use_cache=False, expansion_ratio=2
    ),
    "jetmoe": encoder(
        "JetMoe",
        kv_channels=12,
        num_local_experts=4,
        num_experts_per_tok=2,
        **{k: v for k, v in llm.items() if k != "head_dim"}
    ),
    "nllb_moe": encoder(
        "NllbMoe", pair, ids2, num_experts=4, encoder_sparse_step=1, decoder_sparse_step=1, expert_capacity=8, **seq2seq
    ),
    "nemotron": encoder("Nemotron", **llm),
    "persimmon": encoder("Persimmon", **{k: v for k, v in llm.items() if k not in ("num_key_value_heads", "head_dim")}),
    "phi3": encoder("Phi3", **{k: v for k, v in llm.items() if k != "head_dim"}),
    "smollm3": encoder("SmolLM3", **llm),
    "starcoder2": encoder("Starcoder2", **llm),
    "exaone4": encoder("Exaone4", **llm),
    "ernie4_5": encoder("Ernie4_5", **llm),
    "lfm2": encoder("Lfm2", **{k: v for k, v in llm.items()}, layer_types=["conv", "full_attention"]),
    "recurrent_gemma": encoder(
        "RecurrentGemma",
        dict(input_ids={}),
        lambda: (torch.randint(3, 90, (1, 6)),),
        lru_width=48,
        attention_window_size=8,
        conv1d_width=4,
        block_types=["recurrent", "attention"],
        **llm
    ),
    "bamba": encoder(
        "Bamba",
        dict(input_ids={}),
        lambda: (torch.randint(3, 90, (1, 6)),),
        attn_layer_indices=[1],
        mamba_n_heads=4,
        mamba_d_head=24,
        mamba_d_state=8,
        mamba_n_groups=1,
        mamba_chunk_size=8,
        **{k: v for k, v in llm.items() if k != "head_dim"}
    ),
    "diffllama": encoder("DiffLlama", **llm),
    "xlstm": encoder(
        "xLSTM",
        dict(input_ids={}),
        lambda: (torch.randint(3, 90, (1, 8)),),
        vocab_size=100,
        hidden_size=48,
        num_hidden_layers=2,
        num_heads=4,
        chunk_size=8,
        use_cache=False,
    ),
    "patchtst": hf(
        "PatchTSTModel",
        "PatchTSTConfig",
        lambda: (torch.randn(2, 32, 3),),
        dict(past_values=b),
        pick=first,
        num_input_channels=3,
        context_length=32,
        patch_length=4,
        patch_stride=4,
        num_hidden_layers=2,
        d_model=16,
        num_attention_heads=4,
        ffn_dim=32,
    ),
    "patchtsmixer": hf(
        "PatchTSMixerModel",
        "PatchTSMixerConfig",
        lambda: (torch.randn(2, 32, 3),),
        dict(past_values=b),
        pick=first,
        num_input_channels=3,
        context_length=32,
        patch_length=4,
        patch_stride=4,
        num_layers=2,
        d_model=16,
    ),
}
