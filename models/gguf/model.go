package gguf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/models/weights"
)

// A model is a checkpoint in the form of Transformers.
type model struct {
	parts []weights.Part
	files map[string][]byte // keyed by the file names of Transformers
}

// layerNames maps the names of the tensors of a layer.
var layerNames = map[string]string{
	"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
	"attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
	"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
	"ffn_gate_inp": "mlp.gate", "ffn_gate_exps": "mlp.experts.gate_proj", "ffn_up_exps": "mlp.experts.up_proj",
	"ffn_down_exps": "mlp.experts.down_proj",
	"ffn_norm":      "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
	"ffn_down": "mlp.down_proj",
}

// gemmaNames lists the names that only Gemma's layers have, or that have another meaning there.
var gemmaNames = map[string]string{
	"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
	"post_ffw_norm": "post_feedforward_layernorm",
}

var topNames = map[string]string{"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}

// rename returns the name that a tensor has in Transformers. Unknown names are not changed; the model family then
// reports them.
func (c *config) rename(name string) string {
	stem, ending, _ := cutLast(name)
	if to, ok := topNames[stem]; ok {
		return to + "." + ending
	}
	if rest, ok := strings.CutPrefix(stem, "blk."); ok {
		layer, part, _ := strings.Cut(rest, ".")
		to := layerNames[part]
		if c.gemma() && gemmaNames[part] != "" {
			to = gemmaNames[part]
		}
		if to != "" {
			return "model.layers." + layer + "." + to + "." + ending
		}
	}
	return name
}

func cutLast(name string) (stem, ending string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}

// kinds maps the supported architectures to model_type in Transformers.
var kinds = map[string]string{"gemma2": "gemma2", "gemma3": "gemma3_text", "llama": "llama", "qwen2": "qwen2",
	"qwen3": "qwen3", "qwen3moe": "qwen3_moe"}

const ropeFactors = "rope_freqs.weight"

// describe derives the configuration of the checkpoint from its metadata, and renames its tensors.
func describe(meta metadata, parts []weights.Part) (*model, error) {
	c := &config{meta: meta, used: map[string]bool{}, out: map[string]any{}}
	var err error
	if c.arch, err = get(meta, "general.architecture", ""); err != nil {
		return nil, err
	}
	if kinds[c.arch] == "" {
		return nil,
			unsupported("holds a model of architecture %.40q; supported are %s", c.arch,
				strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	m := &model{files: map[string][]byte{}}
	var factors []float64
	for _, p := range parts {
		if p.Name == ropeFactors {
			if factors, err = floats(p); err != nil {
				return nil, err
			}
			continue
		}
		m.parts = append(m.parts, p)
	}
	if err := c.read(factors); err != nil {
		return nil, err
	}
	dense := []int{} // layers of a mixture that are without experts
	for i := range m.parts {
		p := &m.parts[i]
		if layer, ok := strings.CutSuffix(p.Name, ".ffn_gate.weight"); ok && c.arch == "qwen3moe" {
			n, err := strconv.Atoi(strings.TrimPrefix(layer, "blk."))
			if err != nil {
				return nil, fmt.Errorf("has a tensor %.40q; want a number of its layer", p.Name)
			}
			dense = append(dense, n)
		}
		p.Name = c.rename(p.Name)
		switch {
		case c.arch == "llama":
			err = c.reorder(p)
		case c.gemma() && strings.HasSuffix(p.Name, "norm.weight"):
			err = lessOne(p)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(dense) > 0 {
		c.out["mlp_only_layers"] = dense
	}
	if m.files["config.json"], err = json.Marshal(c.out); err != nil {
		return nil, err
	}
	return m, m.addText(meta)
}

// floats reads a short vector of f32.
func floats(p weights.Part) ([]float64, error) {
	if p.DType != dtype.F32 || len(p.Shape) != 1 || p.Size > 1<<16 {
		return nil, fmt.Errorf("tensor %s is %s%v; want a vector of F32", p.Name, p.Stored, p.Shape)
	}
	b := make([]byte, p.Size)
	if _, err := p.Source.ReadAt(b, p.Offset); err != nil && err != io.EOF {
		return nil, fmt.Errorf("tensor %s: %w", p.Name, err)
	}
	out := make([]float64, len(b)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return out, nil
}

// lessOne subtracts 1 from gains. Transformers adds 1 to the gains of Gemma, and files store the sum.
func lessOne(p *weights.Part) error {
	gains, err := floats(*p)
	if err != nil {
		return err
	}
	b := make([]byte, 0, p.Size)
	for _, g := range gains {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(g-1)))
	}
	p.Source, p.Offset = bytes.NewReader(b), 0
	return nil
}

// config converts metadata to the keys of a config.json.
type config struct {
	meta metadata
	arch string
	used map[string]bool
	out  map[string]any

	heads, kvHeads, headDim int
}

func (c *config) gemma() bool { return c.arch == "gemma2" || c.arch == "gemma3" }

func (c *config) key(name string) string {
	key := c.arch + "." + name
	c.used[key] = true
	return key
}

const maxSize = 1 << 24

// integer copies a whole number of at least least, if it is present, and returns it. Otherwise it returns 0. Where the
// value 0 is allowed, it means the same as an absent key.
func (c *config) integer(name, to string, least int) (int, error) {
	n, err := c.meta.integer(c.key(name), 0, least, maxSize)
	if n > 0 && to != "" {
		c.out[to] = n
	}
	return n, err
}

func (c *config) float(name, to string) error {
	v, ok := c.meta[c.key(name)]
	if !ok {
		return nil
	}
	f, ok := v.(float64)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%s.%s is %.40s; want a finite number", c.arch, name, fmt.Sprint(v))
	}
	c.out[to] = json.Number(number(f))
	return nil
}

func (c *config) read(factors []float64) error {
	c.out["model_type"] = kinds[c.arch]
	sizes := map[string]int{}
	for _, k := range []struct {
		from, to string
		least    int
	}{
		{"context_length", "max_position_embeddings", 1}, {"embedding_length", "hidden_size", 1},
		{"block_count", "num_hidden_layers", 1},
		{"feed_forward_length", "intermediate_size", 1}, {"attention.head_count", "num_attention_heads", 1},
		{"attention.head_count_kv", "num_key_value_heads", 1}, {"vocab_size", "", 1},
		{"attention.key_length", "head_dim", 1},
		{"attention.value_length", "", 1}, {"rope.dimension_count", "", 1},
		{"attention.sliding_window", "sliding_window", 0}, // 0: there is no window
		{"expert_count", "num_experts", 0},                // 0: the model has no experts
	} {
		n, err := c.integer(k.from, k.to, k.least)
		if err != nil {
			return err
		}
		sizes[k.from] = n
	}
	for _, k := range []struct{ from, to string }{{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
		{"rope.freq_base", "rope_theta"}} {
		if err := c.float(k.from, k.to); err != nil {
			return err
		}
	}
	for _, read := range []func(sizes map[string]int) error{c.readHeads, c.readExperts, c.readRotation, c.readWindows} {
		if err := read(sizes); err != nil {
			return err
		}
	}
	if causal, err := get(c.meta, c.key("attention.causal"), true); err != nil {
		return err
	} else if !causal {
		return unsupported("has attention that is not causal, which is not supported")
	}
	if err := c.scaling(factors); err != nil {
		return err
	}
	return c.unknown()
}

func (c *config) readHeads(sizes map[string]int) error {
	width := sizes["embedding_length"]
	c.heads, c.kvHeads, c.headDim = sizes["attention.head_count"], sizes["attention.head_count_kv"],
		sizes["attention.key_length"]
	if c.heads == 0 || width == 0 || sizes["context_length"] == 0 || sizes["block_count"] == 0 {
		return fmt.Errorf(
			"lacks %[1]s.attention.head_count, %[1]s.embedding_length, %[1]s.context_length or %[1]s.block_count",
			c.arch)
	}
	if c.kvHeads == 0 {
		c.kvHeads = c.heads
	}
	if c.headDim == 0 {
		c.headDim = width / c.heads
	}
	return nil
}

func (c *config) readExperts(sizes map[string]int) error {
	if c.arch != "qwen3moe" {
		if n := sizes["expert_count"]; n != 0 {
			return unsupported("holds a mixture of %d experts, which is not supported", n)
		}
		return nil
	}
	for from, to := range map[string]string{"expert_used_count": "num_experts_per_tok",
		"expert_feed_forward_length": "moe_intermediate_size"} {
		if n, err := c.integer(from, to, 1); err != nil || n == 0 {
			return cmp.Or(err, fmt.Errorf("lacks %s.%s", c.arch, from))
		}
	}
	c.out["norm_topk_prob"] = true // in all published models; llama.cpp knows no others
	return nil
}

// readRotation reads how many elements of a head are rotated.
func (c *config) readRotation(sizes map[string]int) error {
	if v := sizes["attention.value_length"]; v != 0 && v != c.headDim {
		return unsupported("has heads of %d for keys and %d for values, which is not supported", c.headDim, v)
	}
	rotated := cmp.Or(sizes["rope.dimension_count"], c.headDim)
	switch {
	case rotated == c.headDim:
		return nil
	case rotated > c.headDim || c.arch == "llama": // llama's rows of q and k have another order
		return unsupported("rotates %d of the %d elements of a head, which is not supported", rotated, c.headDim)
	}
	c.out["rope_dimension_count"] = json.Number(strconv.Itoa(rotated))
	return nil
}

// readWindows reads which layers see a window of the text only.
func (c *config) readWindows(sizes map[string]int) error {
	window := sizes["attention.sliding_window"]
	switch {
	case c.gemma():
		return c.readGemma(sizes["block_count"], sizes["embedding_length"])
	case window != 0 && c.arch == "llama":
		c.out["model_type"] = "mistral" // the family whose layers all have a window, and equal to llama otherwise
	case window != 0:
		c.out["use_sliding_window"], c.out["max_window_layers"] = true, 0
	}
	return nil
}

// readGemma reads settings of Gemma. Files do not state the divisor of attention scores. As in llama.cpp, it is the
// square root of the head width, except for the largest models, which are recognised by their number of layers.
func (c *config) readGemma(layers, width int) error {
	divisor := c.headDim
	if c.arch == "gemma2" && layers == 46 || c.arch == "gemma3" && layers == 62 {
		divisor = width / c.heads
	}
	c.out["query_pre_attn_scalar"] = divisor
	if c.arch == "gemma2" {
		return cmp.Or(c.float("attn_logit_softcapping", "attn_logit_softcapping"),
			c.float("final_logit_softcapping", "final_logit_softcapping"))
	}
	_, err := c.integer("attention.sliding_window_pattern", "sliding_window_pattern", 1)
	return cmp.Or(err, c.float("rope.freq_base_swa", "rope_local_base_freq"))
}

// scaling reads the scaling of rotary frequencies. factors are those of rope_freqs, if any.
func (c *config) scaling(factors []float64) error {
	kind, err := get(c.meta, c.key("rope.scaling.type"), "none")
	if err != nil {
		return err
	}
	values := map[string]any{}
	for _, k := range []struct{ from, to string }{
		{"factor", "factor"}, {"attn_factor", "attention_factor"}, {"yarn_beta_fast", "beta_fast"},
		{"yarn_beta_slow", "beta_slow"},
	} {
		sub := &config{meta: c.meta, arch: c.arch, used: c.used, out: values}
		if err := sub.float("rope.scaling."+k.from, k.to); err != nil {
			return err
		}
	}
	original, err := c.meta.integer(c.key("rope.scaling.original_context_length"), 0, 1, maxSize)
	if err != nil {
		return err
	}
	if original > 0 {
		values["original_max_position_embeddings"] = original
	}
	// only tells how the model was trained
	if _, err := get(c.meta, c.key("rope.scaling.finetuned"), false); err != nil {
		return err
	}
	switch {
	case factors != nil && kind == "none":
		if values, err = c.llama3(factors); err != nil {
			return err
		}
	case factors != nil:
		return unsupported("has rotary factors beside the scaling %.40q, which is not supported", kind)
	case kind == "none":
		return nil
	case kind != "linear" && kind != "yarn":
		return unsupported("has the rotary scaling %.40q; supported are linear and yarn", kind)
	default:
		values["rope_type"] = kind
	}
	c.out["rope_scaling"] = values
	return nil
}

// llama3 returns the scaling of Llama 3.1 that gives these factors. Converters store the divisor of each frequency. The
// bands are those of all published models.
func (c *config) llama3(factors []float64) (map[string]any, error) {
	const low, high, original = 1, 4, 8192
	base := 10000.0
	if v, ok := c.meta[c.arch+".rope.freq_base"].(float64); ok {
		base = v
	}
	factor := slices.Max(factors)
	ok := len(factors) == c.headDim/2 && factor >= 1
	for i := 0; ok && i < len(factors); i++ {
		rotations := original / (2 * math.Pi * math.Pow(base, 2*float64(i)/float64(c.headDim)))
		want := 1.0
		switch {
		case rotations < low:
			want = factor
		case rotations <= high:
			smooth := (rotations - low) / (high - low)
			want = 1 / ((1-smooth)/factor + smooth)
		}
		ok = math.Abs(factors[i]-want) <= 1e-4*want
	}
	if !ok {
		return nil,
			unsupported("%s has factors that do not match the scaling of Llama 3.1, which is the only one supported",
				ropeFactors)
	}
	return map[string]any{"rope_type": "llama3", "factor": json.Number(number(factor)), "low_freq_factor": low,
		"high_freq_factor": high, "original_max_position_embeddings": original}, nil
}

// unknown fails on a key of the architecture that was not read. It accepts values that switch something off.
func (c *config) unknown() error {
	for _, key := range slices.Sorted(maps.Keys(c.meta)) {
		v := c.meta[key]
		if !strings.HasPrefix(key, c.arch+".") || c.used[key] || v == false || v == uint64(0) || v == int64(0) {
			continue
		}
		return unsupported("has the key %.80q, which is not known and may change what the model computes", key)
	}
	return nil
}

// reorder puts the rows of q and k into Transformers' order. Row j of a head of d rows is row 2j of the file in the
// first half, and row 2(j-d/2)+1 in the second.
func (c *config) reorder(p *weights.Part) error {
	stem, _, _ := cutLast(p.Name)
	heads := 0
	switch {
	case strings.HasSuffix(stem, ".self_attn.q_proj"):
		heads = c.heads
	case strings.HasSuffix(stem, ".self_attn.k_proj"):
		heads = c.kvHeads
	default:
		return nil
	}
	if len(p.Shape) == 0 || p.Shape[0] != int64(heads*c.headDim) || c.headDim%2 != 0 {
		return fmt.Errorf("tensor for %s has shape %v; want %d heads of an even number of rows, %d", p.Name, p.Shape,
			heads, c.headDim)
	}
	p.Source = &headRows{p.Source, p.Offset, p.Size / p.Shape[0], int64(c.headDim)}
	p.Offset = 0
	return nil
}

// headRows reads the rows of a tensor in Transformers' order.
type headRows struct {
	r          io.ReaderAt
	start, row int64 // offset of the tensor, bytes per row
	head       int64 // rows per head
}

// ReadAt reads from offset off of the tensor.
func (h *headRows) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		row, within := (off+int64(n))/h.row, (off+int64(n))%h.row
		first, j := row/h.head*h.head, row%h.head
		from := first + 2*j
		if j >= h.head/2 {
			from = first + 2*(j-h.head/2) + 1
		}
		part := b[n:min(len(b), n+int(h.row-within))]
		got, err := h.r.ReadAt(part, h.start+from*h.row+within)
		n += got
		if got < len(part) {
			return n, err
		}
	}
	return n, nil
}
