package llm

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

// config holds everything that the graphs depend on. Sizes come from tensor shapes; the configuration must agree with
// them.
type config struct {
	kind                  string // model_type
	vocab, width, hidden  int64
	layers                []layer
	heads, kvHeads        int64
	headDim, rotated      int64 // elements of a head; elements that rotary embedding rotates
	headNorms             bool  // q and k are normalised by head
	eps                   float64
	tied                  bool  // the last layer uses the embeddings
	qkvBias, oBias        bool  // of attention
	upBias                bool  // of the feed-forward block
	context, maxPositions int64 // rows of the caches; positions that the model was trained for
	sequences             int64 // sequences in the states, and limit of extend_batch
	pages                 int64 // of the states, which all sequences share; 0 if each has its own part
	rope                  rope
	gainOffset            float64 // the checkpoint stores gains of norms minus this
	gated                 bool    // q_proj computes a gate beside q, which multiplies the result of attention
	mtp                   bool    // there is a head that predicts one more token
	delta                 delta
	moe                   moe
	gemma                 bool    // more norms, after attention and feed-forward block; scaled embeddings; GELU
	scale                 float64 // multiplies attention scores; 0 means 1/sqrt(headDim)
	local                 rope    // for layers with a window, if they have their own
	softcap, logitCap     float64 // caps of attention scores and logits: x becomes cap*tanh(x/cap); 0 means no cap
	vision                *vision // nil if the model takes no images
}

// layer holds the properties in which layers differ.
type layer struct {
	linear bool  // attention by the gated delta rule
	sparse bool  // a mixture of experts in place of the feed-forward block
	window int64 // keys that a query sees, its own included; 0 means all before it
}

// kinds maps the values of model_type to the defaults of Transformers.
var kinds = map[string]struct {
	maxPositions int64
	// window: sliding_window applies to all layers, and defaults to 4096. Other kinds use it only with
	// use_sliding_window.
	window bool
	// headNorms: q and k have norms.
	headNorms bool
	// delta: layers may be linear attention, the others have gates, and gains of norms are stored minus 1.
	delta bool
	// gemma: see config.gemma.
	gemma bool
	// pattern: by default, one layer in this many has no window. 0: all layers have one.
	pattern int64
	// local: layers with a window have their own rotary base.
	local bool
	// softcap and logitCap are the defaults of the caps in config.
	softcap, logitCap float64
	// experts: default number of experts per token. 0 means that the model has no experts.
	experts int64
	// normalise: by default, the weights of a token's experts are scaled to add up to 1.
	normalise bool
	// images: the model may have an encoder of images.
	images bool
}{
	"llama":        {maxPositions: 2048},
	"mistral":      {maxPositions: 4096 * 32, window: true},
	"qwen2":        {maxPositions: 32768},
	"qwen3":        {maxPositions: 32768, headNorms: true},
	"qwen3_5":      {maxPositions: 32768, headNorms: true, delta: true},
	"qwen3_5_text": {maxPositions: 32768, headNorms: true, delta: true},

	"qwen3_vl":      {maxPositions: 128000, headNorms: true, images: true},
	"qwen3_vl_text": {maxPositions: 128000, headNorms: true, images: true},

	"gemma2":      {maxPositions: 8192, window: true, gemma: true, pattern: 2, softcap: 50, logitCap: 30},
	"gemma3":      {maxPositions: 131072, window: true, headNorms: true, gemma: true, pattern: 6, local: true},
	"gemma3_text": {maxPositions: 131072, window: true, headNorms: true, gemma: true, pattern: 6, local: true},

	"qwen3_moe":        {maxPositions: 32768, headNorms: true, experts: 8},
	"qwen3_next":       {maxPositions: 32768, headNorms: true, delta: true, experts: 10, normalise: true},
	"qwen3_5_moe":      {maxPositions: 32768, headNorms: true, delta: true, experts: 8, normalise: true},
	"qwen3_5_moe_text": {maxPositions: 32768, headNorms: true, delta: true, experts: 8, normalise: true},
}

var kindNames = strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")

// Configuration keys as in a Transformers config.json, and keyContext, which is ours.
const (
	keyType        = "model_type"
	keyHeads       = "num_attention_heads"
	keyHeadDim     = "head_dim"
	keyEps         = "rms_norm_eps"
	keyAct         = "hidden_act"
	keyTied        = "tie_word_embeddings"
	keyMaxPosition = "max_position_embeddings"
	keyContext     = "context"
	keyWindow      = "sliding_window"
	keyUseWindow   = "use_sliding_window"
	keyMaxWindow   = "max_window_layers"
	keyLayerTypes  = "layer_types"
	keyKeyHeads    = "linear_num_key_heads"
	keyGate        = "attn_output_gate"
	keyInterval    = "full_attention_interval"
	keyGELU        = "hidden_activation"
	keyScale       = "query_pre_attn_scalar"
	keyPattern     = "sliding_window_pattern"
	keyLocalTheta  = "rope_local_base_freq"
	keySoftcap     = "attn_logit_softcapping"
	keyLogitCap    = "final_logit_softcapping"
	keyMTP         = "mtp_num_hidden_layers"
	keyUsed        = "num_experts_per_tok"
	keyNormalise   = "norm_topk_prob"
	keySparseStep  = "decoder_sparse_step"
	keyDense       = "mlp_only_layers"
)

var keys = map[string]string{
	keyType:          "kind of model: " + kindNames,
	keyHeads:         "attention heads",
	keyHeadDim:       "width of an attention head (default hidden_size/num_attention_heads)",
	keyEps:           "epsilon of the norms (default 1e-6)",
	keyAct:           "activation of the feed-forward block: silu",
	keyTied:          "whether the embeddings are the last layer too (default: where lm_head.weight is missing)",
	keyMaxPosition:   "positions that the model was made for (default what Transformers has for the kind of model)",
	keyContext:       "tokens that the caches have room for (default max_position_embeddings, at most 4096)",
	keyWindow:        "keys that a query sees, its own included",
	keyUseWindow:     "of qwen2 and qwen3: whether sliding_window counts (default false)",
	keyMaxWindow:     "of qwen2 and qwen3: the first layer with a window (default 28)",
	keyLayerTypes:    "for each layer full_attention, sliding_attention or linear_attention",
	keyKeyHeads:      "key heads of linear attention (default 16)",
	keyGate:          "of qwen3_5: whether attention has a gate: true",
	keyInterval:      "of qwen3_5: one layer in this many has full attention; the tensors say which",
	keyMTP:           "of qwen3_5: layers of the head that predicts one token more: 0 or 1",
	keyGELU:          "of gemma: gelu_pytorch_tanh",
	keyScale:         "of gemma: attention's scores are divided by its square root (default 256)",
	keyPattern:       "of gemma: one layer in this many has no window (default 6, for gemma2 2), unless layer_types says which",
	"_" + keyPattern: "the same",
	keyLocalTheta:    "of gemma3: base of the rotary frequencies in layers with a window (default 10000)",
	keySoftcap:       "of gemma2: attention's scores s become c*tanh(s/c) (default 50; null: they do not)",
	keyLogitCap:      "of gemma2: the same of the logits (default 30)",
	keyUsed:          "of mixtures of experts: those that each token takes (default 8, of qwen3_next 10)",
	keyNormalise:     "of mixtures of experts: whether their weights add up to 1 (default false of qwen3_moe, otherwise true)",
	keySparseStep:    "of mixtures of experts: one layer in this many has experts; must agree with the tensors",
	keyDense:         "of mixtures of experts: layers without them; must agree with the tensors",
	"num_experts":    "must agree with the tensors", "num_local_experts": "must agree with the tensors",
	"moe_intermediate_size":           "must agree with the tensors",
	"shared_expert_intermediate_size": "must agree with the tensors",
	"linear_conv_kernel_dim":          "must agree with the tensors",
	"linear_key_head_dim":             "must agree with the tensors",
	"linear_value_head_dim":           "must agree with the tensors",
	"linear_num_value_heads":          "must agree with the tensors",
	"vocab_size":                      "must agree with the tensors", "hidden_size": "must agree with the tensors",
	"intermediate_size": "must agree with the tensors",
	"num_hidden_layers": "must agree with the tensors", "num_key_value_heads": "must agree with the tensors",
	"attention_bias": "must agree with the tensors", "mlp_bias": "must agree with the tensors",
}

// harmless lists keys, or objects of keys, that do not change what a model computes: names and versions, settings of
// training, and defaults for generation in Transformers.
var harmless = func() map[string]bool {
	m := map[string]bool{}
	for _, key := range strings.Fields(
		`_name_or_path _commit_hash _attn_implementation _attn_implementation_autoset attn_implementation architectures auto_map torch_dtype dtype
		transformers_version transformers.js_config use_cache bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id cls_token_id mask_token_id
		decoder_start_token_id initializer_range initializer_factor attention_dropout attn_dropout hidden_dropout hidden_dropout_prob resid_pdrop embd_pdrop classifier_dropout
		pretraining_tp is_llama_config id2label label2id num_labels task_specific_params problem_type finetuning_task tokenizer_class prefix torchscript return_dict
		output_attentions output_hidden_states output_scores return_dict_in_generate chunk_size_feed_forward is_decoder cache_implementation mm_tokens_per_image boi_token_index eoi_token_index image_token_index is_encoder_decoder add_cross_attention
		pruned_heads max_length min_length do_sample early_stopping num_beams num_beam_groups num_return_sequences diversity_penalty temperature top_k top_p min_p typical_p
		repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids forced_bos_token_id forced_eos_token_id remove_invalid_values
		exponential_decay_length_penalty suppress_tokens begin_suppress_tokens use_bfloat16 tf_legacy_loss unsloth_fixed unsloth_version router_aux_loss_coef output_router_logits mamba_ssm_dtype
		vision_config vision_start_token_id vision_end_token_id image_token_id video_token_id`) {
		m[key] = true
	}
	return m
}()

func known(key string) bool {
	object, _, _ := strings.Cut(key, ".")
	return keys[key] != "" || harmless[key] || harmless[object]
}

// maxSize bounds every size that is read from a tensor. It exceeds every model, and products of two sizes cannot
// overflow.
const maxSize = 1 << 24

// matrix returns the shape of a matrix.
func matrix(w *nn.Weights, name, want string) (rows, cols int64, err error) {
	t, ok := w.Type(name)
	if !ok {
		return 0, 0, diag.New(arch.ErrTensor, w.Source(name), "tensor is missing; expected %s", want)
	}
	t = nn.Unpacked(t)
	if len(t.Shape) != 2 || t.Shape[0].Const < 1 || t.Shape[1].Const < 1 || t.Shape[0].Const > maxSize ||
		t.Shape[1].Const > maxSize {
		return 0, 0, diag.New(arch.ErrTensor, w.Source(name), "tensor is %v; expected %s with dims from 1 to %d", t,
			want, maxSize)
	}
	return t.Shape[0].Const, t.Shape[1].Const, nil
}

func readConfig(w *nn.Weights, cfg arch.Config) (c config, err error) {
	r := &reader{Config: cfg}
	has := func(name string) bool { _, ok := w.Type(name); return ok }
	if c.vocab, c.width, err = matrix(w, "model.embed_tokens.weight", "[vocabulary, width]"); err != nil {
		return c, err
	}
	for has(fmt.Sprintf("model.layers.%d.input_layernorm.weight", len(c.layers))) {
		s := fmt.Sprintf("model.layers.%d.", len(c.layers))
		c.layers = append(c.layers, layer{linear: has(s + "linear_attn.A_log"), sparse: has(s + "mlp.gate.weight")})
	}
	c.kind = r.string(keyType, "")
	kind, ok := kinds[c.kind]
	switch {
	case r.err != nil:
		return c, r.err
	case !ok && !r.Has(keyType):
		return c, diag.New(arch.ErrConfig, keyType, "is not given, and the tensors do not determine it; want one of %s",
			kindNames).
			WithHint("give the checkpoint's configuration with --model-config, or --set %s=llama", keyType)
	case !ok:
		return c, diag.New(arch.ErrConfig, r.Origin(keyType), "%s is %q; want one of %s", keyType, c.kind, kindNames).
			WithHint("if the arithmetic is that of one of these, --set %s=NAME says so", keyType)
	}
	if err := c.readHeads(w, r); err != nil {
		return c, err
	}
	if err := c.readExperts(w, r); err != nil {
		return c, err
	}
	if err := c.readDelta(w, r); err != nil {
		return c, err
	}
	if c.eps = r.float(keyEps, 1e-6); !(c.eps >= 0 && c.eps <= math.MaxFloat32) {
		r.fail(
			diag.New(arch.ErrConfig, r.Origin(keyEps), "%s is %v; want a finite number, not negative", keyEps, c.eps))
	}
	key, want := keyAct, "silu"
	if c.gemma = kind.gemma; c.gemma {
		key, want, c.gainOffset = keyGELU, "gelu_pytorch_tanh", 1
		c.scale = 1 / math.Sqrt(float64(r.int(keyScale, 1, maxSize, 256)))
		c.softcap, c.logitCap = r.cap(keySoftcap, kind.softcap), r.cap(keyLogitCap, kind.logitCap)
	}
	if act := r.string(key, want); act != want {
		r.fail(diag.New(arch.ErrConfig, r.Origin(key), "%s is %q; want %s", key, act, want))
	}
	c.tied = r.bool(keyTied, !has("lm_head.weight"))
	r.bias("mlp_bias", c.upBias)
	r.agree("vocab_size", c.vocab)
	r.agree("hidden_size", c.width)
	r.agree("num_hidden_layers", int64(len(c.layers)))
	c.maxPositions = r.int(keyMaxPosition, 1, maxSize, kind.maxPositions)
	c.rope = readRope(r, c)
	if kind.local {
		object := keyParameters + ".sliding_attention."
		theta, kind := object+keyTheta, object+"rope_type"
		c.local = rope{kind: "default", attention: 1, base: r.positive(theta, r.positive(keyLocalTheta, 10000))}
		if r.err == nil && c.local.base < 1 {
			r.fail(
				diag.New(arch.ErrConfig, r.Origin(theta), "%s or %s is %v; want 1 or more", theta, keyLocalTheta,
					c.local.base))
		}
		if found := r.string(kind, "default"); found != "default" {
			r.fail(diag.New(arch.ErrConfig, r.Origin(kind), "%s is %q; want default", kind, found))
		}
	}
	c.rotated = c.rope.rotated(r, c)
	most := c.maxPositions
	if c.rope.kind == "dynamic" { // for other kinds, max_position_embeddings includes the scaling
		most = min(maxSize, int64(float64(most)*max(1, min(c.rope.factor, maxSize))))
	}
	c.readWindows(r)
	c.context = r.int(keyContext, 1, most, min(c.maxPositions, max(4096, c.window()+spareRows)))
	c.readBatch(r)
	c.readVision(w, r)
	c.readCache(r)
	caps := kind.softcap > 0
	r.fail(r.Unknown(func(key string) bool { return known(key) && (caps || key != keySoftcap && key != keyLogitCap) }))
	return c, r.err
}

// spareRows is the default number of rows of a sliding cache beyond its window. The window is copied once in so many
// tokens.
const spareRows = 1024

// window returns the largest window if all layers have one, and 0 otherwise.
func (c config) window() (w int64) {
	for _, l := range c.layers {
		if l.window == 0 {
			return 0
		}
		w = max(w, l.window)
	}
	return w
}

// kept returns the number of rows of a full cache that later tokens still see, or 0 if they see all.
func (c config) kept() int64 {
	if w := c.window(); w > 1 && w <= c.context {
		return w - 1
	}
	return 0
}

// readWindows finds the layers with a sliding window.
func (c *config) readWindows(r *reader) {
	otherwise := int64(4096)
	if r.Given(keyWindow) {
		otherwise = 0 // null means no window
	}
	window, first := r.int(keyWindow, 0, maxSize, otherwise), int64(0)
	if !kinds[c.kind].window {
		first = r.int(keyMaxWindow, 0, maxSize, 28)
		if !r.bool(keyUseWindow, false) {
			window = 0
		}
	}
	if c.kind == "llama" || kinds[c.kind].delta {
		window = 0
	}
	types, given, err := r.Strings(keyLayerTypes)
	if r.fail(err); err != nil {
		return
	}
	if given && len(types) != len(c.layers) {
		r.fail(
			diag.New(arch.ErrConfig, r.Origin(keyLayerTypes), "%s has %d values; want one for each of %d layers",
				keyLayerTypes, len(types), len(c.layers)))
		return
	}
	pattern := int64(1 << 40)
	if n := kinds[c.kind].pattern; n > 0 {
		pattern = r.int("_"+keyPattern, 1, maxSize, r.int(keyPattern, 1, maxSize, n))
	}
	for i := range c.layers {
		slides := int64(i) >= first && int64(i+1)%pattern != 0
		if given {
			slides = types[i] == "sliding_attention"
			if want := map[bool]string{true: "linear_attention",
				false: "full_attention"}[c.layers[i].linear]; types[i] != want && (c.layers[i].linear || !slides) {
				r.fail(
					diag.New(arch.ErrConfig, r.Origin(keyLayerTypes), "layer %d is %q; the tensors are those of %q", i,
						types[i], want))
			}
		}
		if slides && !c.layers[i].linear {
			c.layers[i].window = window
		}
	}
}

// readHeads reads the sizes of attention from its projections, which have one row for each element of a head.
func (c *config) readHeads(w *nn.Weights, r *reader) error {
	full := slices.IndexFunc(c.layers, func(l layer) bool { return !l.linear })
	c.gated = kinds[c.kind].delta
	if full < 0 {
		return diag.New(arch.ErrTensor, w.Source("model.layers.0.self_attn.q_proj.weight"),
			"tensor is missing; expected a layer with full attention")
	}
	attn := fmt.Sprintf("model.layers.%d.self_attn.", full)
	q, k := attn+"q_proj", attn+"k_proj"
	rows, _, err := matrix(w, q+".weight", "[heads*head_dim, width]")
	if err != nil {
		return err
	}
	if c.gated {
		if !r.bool(keyGate, true) || rows%2 != 0 {
			return diag.New(arch.ErrConfig, r.Origin(keyGate),
				"%s is false or q_proj has %d rows; want true and an even number", keyGate, rows)
		}
		rows /= 2
	}
	kvRows, _, err := matrix(w, k+".weight", "[kv heads*head_dim, width]")
	if err != nil {
		return err
	}
	c.heads, c.headDim = r.int(keyHeads, 1, maxSize, 0), r.int(keyHeadDim, 1, maxSize, 0)
	c.headNorms = kinds[c.kind].headNorms // a checkpoint without them is refused when the graphs ask for the tensors
	if norm, ok := w.Type(attn + "q_norm.weight"); ok && len(norm.Shape) == 1 && c.headNorms && c.headDim == 0 {
		c.headDim = norm.Shape[0].Const
	}
	switch {
	case r.err != nil:
		return r.err
	case c.heads == 0 && c.headDim == 0:
		return diag.New(arch.ErrConfig, keyHeads, "is not given, and the tensors do not determine it").
			WithHint("give the checkpoint's configuration with --model-config, or --set %s=N", keyHeads)
	case c.headDim == 0 && c.width%c.heads == 0:
		c.headDim = c.width / c.heads // the default of Transformers
	case c.heads == 0:
		c.heads = rows / c.headDim
	}
	if c.headDim == 0 || rows != c.heads*c.headDim || kvRows%c.headDim != 0 || c.heads%(kvRows/c.headDim) != 0 ||
		c.headDim%2 != 0 {
		return diag.New(arch.ErrConfig, r.Origin(keyHeads),
			"%d heads of %d do not fit q_proj and k_proj, which have %d and %d rows for a width of %d; "+
				"want heads of an even width, and kv heads that divide the heads", c.heads, c.headDim, rows, kvRows,
			c.width)
	}
	c.kvHeads = kvRows / c.headDim
	r.agree("num_key_value_heads", c.kvHeads)
	_, c.qkvBias = w.Type(q + ".bias")
	_, c.oBias = w.Type(attn + "o_proj.bias")
	r.bias("attention_bias", c.qkvBias)
	return nil
}

// recurrent reports whether layers have states that are not indexed by position.
func (c config) recurrent() bool { return c.delta.taps > 0 }

func (c config) facts(cfg arch.Config) []arch.Fact {
	out := []arch.Fact{
		{Name: "sizes", Value: fmt.Sprintf("vocabulary %d, width %d, hidden %d, %d layers", c.vocab, c.width, c.hidden,
			len(c.layers))},
		{Name: "attention", Value: fmt.Sprintf("%d heads of %d, %d kv heads", c.heads, c.headDim, c.kvHeads)},
		cfg.Fact("epsilon", keyEps, c.eps),
		cfg.Fact("context", keyContext, c.context),
	}
	if d := c.delta; c.recurrent() {
		n := len(slices.DeleteFunc(slices.Clone(c.layers), func(l layer) bool { return !l.linear }))
		out = append(
			out, arch.Fact{Name: "delta rule",
				Value: fmt.Sprintf("%d layers, %d key heads of %d, %d value heads of %d, convolution of %d", n,
					d.keyHeads, d.keyDim, d.valueHeads, d.valueDim, d.taps)})
	}
	if c.rope.kind != "default" {
		out = append(out, arch.Fact{Name: "rotary", Value: fmt.Sprintf("%s, factor %v", c.rope.kind, c.rope.factor)})
	}
	if i := slices.IndexFunc(c.layers, func(l layer) bool { return l.window > 0 }); i >= 0 {
		out = append(
			out, arch.Fact{Name: "window", Value: fmt.Sprintf("%d keys, from layer %d on", c.layers[i].window, i)})
	}
	if c.tied {
		out = append(out, arch.Fact{Name: "embeddings", Value: "tied: they are the last layer too"})
	}
	return out
}
