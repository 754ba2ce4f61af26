package gguf_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/gguftest"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/internal/tokenizer"
	"github.com/rlx-go/rlx/models/gguf"
	_ "github.com/rlx-go/rlx/models/llm"
	"github.com/rlx-go/rlx/models/weights"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

const demo = "testdata/demo-llama-Q4_0.gguf"

func open(t testing.TB, path string) *weights.Checkpoint {
	t.Helper()
	c, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestLogits compares a file that llama.cpp wrote with Transformers in float64 and the same weights: packed, as floats,
// and with portable kernels only.
func TestLogits(t *testing.T) {
	c := open(t, demo)
	text, ok := c.Own("config.json")
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, text, 0o666); err != nil || !ok {
		t.Fatal(err, ok)
	}
	for _, k := range []struct {
		name, target string
		dtype        dtype.DType
	}{{"packed", "cpu", dtype.Invalid}, {"floats", "cpu", dtype.F32}, {"floats, portable", "portable", dtype.F32}} {
		s := weights.Stored{Checkpoint: c, DType: k.dtype}
		targets := slices.DeleteFunc(modeltest.Targets(), func(x compile.Target) bool { return x.Name != k.target })
		compiled := modeltest.Compile(t, modeltest.Build(t, s, config), s, targets...)
		checkLogits(t, k.name, compiled.Find(t, "forward", k.target), compiled.Weights, "testdata/golden.safetensors:")
	}
}

// TestGemma writes goldens as llama.cpp does, which adds 1 to the gains of norms. The golden of Gemma 3 divides scores
// by a number that files cannot state.
func TestGemma(t *testing.T) {
	names := strings.NewReplacer("model.layers.", "blk.", "model.embed_tokens", "token_embd", "model.norm",
		"output_norm", "input_layernorm", "attn_norm",
		"post_attention_layernorm", "post_attention_norm", "pre_feedforward_layernorm", "ffn_norm",
		"post_feedforward_layernorm", "post_ffw_norm",
		"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj",
		"attn_output", "self_attn.q_norm", "attn_q_norm",
		"self_attn.k_norm", "attn_k_norm", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj",
		"ffn_down")
	for arch, own := range map[string]gguftest.Meta{
		"gemma2": {"attn_logit_softcapping", float32(2), "final_logit_softcapping", float32(3), "rope.freq_base",
			float32(1000)},
		"gemma3": {"rope.freq_base", float32(100000), "rope.freq_base_swa", float32(1000), "rope.scaling.type",
			"linear", "rope.scaling.factor", float32(4),
			"attention.sliding_window_pattern", uint32(2)},
	} {
		golden := "../../testdata/goldens/" + arch + "_tiny/"
		whole := modeltest.Open(t, modeltest.Manifest(t, golden), dtype.F32)
		var tensors []gguftest.Tensor
		for _, name := range whole.Names() {
			b, err := whole.Bytes(name, dtype.F32)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "norm.weight") {
				for i, gain := range tensor.View[float32](b) {
					tensor.View[float32](b)[i] = gain + 1
				}
			}
			info, _ := whole.Info(name)
			tensors = append(tensors, gguftest.T(names.Replace(name), 0, b, info.Shape...))
		}
		meta := gguftest.Meta{"general.architecture", arch}
		all := append(
			gguftest.Meta{"context_length", uint32(128), "embedding_length", uint32(64), "block_count", uint32(3),
				"feed_forward_length", uint32(80),
				"attention.head_count", uint32(4), "attention.head_count_kv", uint32(2), "attention.key_length",
				uint32(16),
				"attention.value_length", uint32(16),
				"attention.layer_norm_rms_epsilon", float32(1e-6), "attention.sliding_window", uint32(6)}, own...)
		for i := 0; i < len(all); i += 2 {
			meta = append(meta, arch+"."+all[i].(string), all[i+1])
		}
		c := open(t, write(t, arch+".gguf", meta, tensors...))
		text, _ := c.Own("config.json")
		if !strings.Contains(string(text), `"query_pre_attn_scalar":16`) {
			t.Errorf("%s: config.json is %s", arch, text)
		}
		config := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(config, text, 0o666); err != nil {
			t.Fatal(err)
		}
		s := weights.Stored{Checkpoint: c}
		compiled := modeltest.Compile(t, modeltest.Build(t, s, config, "query_pre_attn_scalar=24"), s)
		checkLogits(t, arch, compiled.Find(t, "forward", "cpu"), compiled.Weights, golden+"golden.safetensors:")
	}
}

// TestMixture writes a golden mixture of experts as llama.cpp does, with all experts of a layer in one tensor.
func TestMixture(t *testing.T) {
	const golden = "../../testdata/goldens/qwen3_moe_tiny/"
	names := strings.NewReplacer("model.layers.", "blk.", "model.embed_tokens", "token_embd", "model.norm",
		"output_norm", "lm_head", "output", "input_layernorm", "attn_norm",
		"post_attention_layernorm", "ffn_norm", "self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k",
		"self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
		"self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm", "mlp.gate_proj", "ffn_gate",
		"mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
		"mlp.experts.gate_proj", "ffn_gate_exps", "mlp.experts.up_proj", "ffn_up_exps", "mlp.experts.down_proj",
		"ffn_down_exps", "mlp.gate", "ffn_gate_inp")
	whole := modeltest.Open(t, modeltest.Manifest(t, golden), dtype.F32)
	var tensors []gguftest.Tensor
	for _, name := range whole.Names() {
		b, err := whole.Bytes(name, dtype.F32)
		if err != nil {
			t.Fatal(err)
		}
		info, _ := whole.Info(name)
		tensors = append(tensors, gguftest.T(names.Replace(name), 0, b, info.Shape...))
	}
	meta := gguftest.Meta{"general.architecture", "qwen3moe"}
	for _, k := range []struct {
		key   string
		value any
	}{
		{"context_length", uint32(128)}, {"embedding_length", uint32(64)}, {"block_count", uint32(3)},
		{"feed_forward_length", uint32(80)}, {"attention.head_count", uint32(6)},
		{"attention.head_count_kv", uint32(2)}, {"attention.key_length", uint32(8)},
		{"attention.value_length", uint32(8)}, {"attention.layer_norm_rms_epsilon", float32(1e-6)},
		{"rope.freq_base", float32(10000)}, {"expert_count", uint32(7)}, {"expert_used_count", uint32(3)},
		{"expert_feed_forward_length", uint32(32)},
	} {
		meta = append(meta, "qwen3moe."+k.key, k.value)
	}
	c := open(t, write(t, "moe.gguf", meta, tensors...))
	text, _ := c.Own("config.json")
	for _, want := range []string{`"model_type":"qwen3_moe"`, `"norm_topk_prob":true`, `"mlp_only_layers":[1]`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("config.json is %s; want %s", text, want)
		}
	}
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, text, 0o666); err != nil {
		t.Fatal(err)
	}
	s := weights.Stored{Checkpoint: c}
	// the golden's weights do not add up to 1
	compiled := modeltest.Compile(t, modeltest.Build(t, s, config, "norm_topk_prob=false"), s)
	checkLogits(t, "mixture", compiled.Find(t, "forward", "cpu"), compiled.Weights, golden+"golden.safetensors:")
}

// TestPartialRotary checks heads of which only a part rotates.
func TestPartialRotary(t *testing.T) {
	for turned, want := range map[uint32]string{8: `"rope_dimension_count":8`, 64: ""} {
		meta := gguftest.Meta{"general.architecture", "qwen2", "qwen2.context_length", uint32(64),
			"qwen2.embedding_length", uint32(128), "qwen2.block_count", uint32(2),
			"qwen2.attention.head_count", uint32(2), "qwen2.rope.dimension_count", turned}
		text, _ := open(t, write(t, "partial.gguf", meta)).Own("config.json")
		if want == "" && strings.Contains(string(text), "rope_dimension") || !strings.Contains(string(text), want) {
			t.Errorf("%d of 64: %s; want %s", turned, text, want)
		}
	}
}

// checkLogits compares the logits of a prompt with a golden. The tolerance is relative to the largest logit.
func checkLogits(t *testing.T, name string, p *program.Program, values []byte, golden string) {
	t.Helper()
	x, err := (backend.Backend{}).Load(t.Context(), device.Load{Program: p, Weights: values, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	ids := tensortest.Golden(t, golden+"input_ids")
	syms := map[string]int64{"B": 1, "T": int64(len(ids.Ints))}
	b, err := p.Bind(syms)
	if err != nil {
		t.Fatal(err)
	}
	mem := tensor.AlignedBytes(int(p.IOSize))
	copy(mem[b.Inputs[0].Offset:], ids.Tensor().Data)
	if _, err := x.Run(context.Background(), device.Run{Syms: syms, IO: mem}); err != nil {
		t.Fatal(err)
	}
	o := b.Outputs[0]
	got := tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: mem[o.Offset : o.Offset+o.Bytes]}.Array()
	want := tensortest.Golden(t, golden+"logits")
	worst, most := 0.0, 0.0
	for i := range want.Floats {
		worst, most = max(worst, math.Abs(got.Floats[i]-want.Floats[i])), max(most, math.Abs(want.Floats[i]))
	}
	if !(worst <= 1e-5*most) {
		t.Errorf("%s: logits differ by %g of %g", name, worst, most)
	}
}

type tokenizerCases struct {
	Cases []struct {
		Text  string
		IDs   []int
		Plain []int  `json:"ids_plain"`
		Want  string `json:"decoded"`
	}
}

func checkTokenizer(t *testing.T, c *weights.Checkpoint, path string) {
	t.Helper()
	doc, ok := c.Own("tokenizer.json")
	if !ok {
		t.Fatal("no tokenizer")
	}
	tok, err := tokenizer.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f tokenizerCases
	if err := json.Unmarshal(b, &f); err != nil || len(f.Cases) < 60 {
		t.Fatal(err, len(f.Cases))
	}
	for _, k := range f.Cases {
		for special, want := range map[bool][]int{true: k.IDs, false: k.Plain} {
			if got, err := tok.Encode(k.Text, special); err != nil || !slices.Equal(got, want) {
				t.Errorf("Encode(%q, %v) = %v, %v; want %v", k.Text, special, got, err, want)
			}
		}
		if got := string(tok.Decode(k.IDs, false)); got != k.Want {
			t.Errorf("Decode(%v) = %q; want %q", k.IDs, got, k.Want)
		}
	}
}

// TestByteLevelTokenizer compares ids with those of the Hugging Face library and the tokenizer from which the file was
// made.
func TestByteLevelTokenizer(t *testing.T) {
	checkTokenizer(t, open(t, demo), "../../internal/tokenizer/testdata/llama3/cases.json")
}

// TestSentencePiece writes a vocabulary in the style of Llama 2 as SentencePiece does, with scores in place of merges.
func TestSentencePiece(t *testing.T) {
	const folder = "../../internal/tokenizer/testdata/llama2-prepend/"
	b, err := os.ReadFile(folder + "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Model struct{ Vocab map[string]int }
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	n := len(doc.Model.Vocab)
	tokens, kinds, scores := make([]string, n), make([]int32, n), make([]float32, n)
	for token, id := range doc.Model.Vocab {
		tokens[id], kinds[id] = token, 1
		switch {
		case id == 0:
			kinds[id] = 2
		case id < 3:
			kinds[id] = 3
		case id < 259:
			kinds[id] = 6
		default:
			scores[id] = float32(259 - id)
		}
	}
	meta := append(llama(), "tokenizer.ggml.model", "llama", "tokenizer.ggml.tokens", tokens,
		"tokenizer.ggml.token_type", kinds, "tokenizer.ggml.scores", scores,
		"tokenizer.ggml.bos_token_id", uint32(1), "tokenizer.ggml.eos_token_id", uint32(2),
		"tokenizer.ggml.unknown_token_id", uint32(0),
		"tokenizer.chat_template", "{{ bos_token }}")
	c := open(t, write(t, "spm.gguf", meta))
	checkTokenizer(t, c, folder+"cases.json")
	for name, want := range map[string]string{
		"tokenizer_config.json":  `{"bos_token":"\u003cs\u003e","chat_template":"{{ bos_token }}","eos_token":"\u003c/s\u003e"}`,
		"generation_config.json": `{"eos_token_id":[2]}`,
	} {
		if got, _ := c.Own(name); string(got) != want {
			t.Errorf("%s is %s; want %s", name, got, want)
		}
	}
}

// llama returns the metadata of a model with two layers and heads of width 4.
func llama() gguftest.Meta {
	return gguftest.Meta{"general.architecture", "llama", "llama.context_length", uint32(64), "llama.embedding_length",
		uint32(8), "llama.block_count", uint32(2),
		"llama.feed_forward_length", uint32(16), "llama.attention.head_count", uint32(2),
		"llama.attention.layer_norm_rms_epsilon", float32(1e-5)}
}

func write(t testing.TB, name string, meta gguftest.Meta, tensors ...gguftest.Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, gguftest.File(3, meta, tensors...), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func floats(v ...float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func config(t *testing.T, meta gguftest.Meta, tensors ...gguftest.Tensor) map[string]any {
	t.Helper()
	text, _ := open(t, write(t, "m.gguf", meta, tensors...)).Own("config.json")
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConfig(t *testing.T) {
	got := config(
		t, append(llama(), "llama.attention.head_count_kv", uint32(1), "llama.rope.freq_base", float32(500000),
			"llama.attention.key_length", uint32(4)))
	for key, want := range map[string]any{
		"model_type": "llama", "max_position_embeddings": 64.0, "hidden_size": 8.0, "num_hidden_layers": 2.0,
		"intermediate_size": 16.0, "num_attention_heads": 2.0,
		"num_key_value_heads": 1.0, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "head_dim": 4.0,
	} {
		if got[key] != want {
			t.Errorf("%s is %v; want %v", key, got[key], want)
		}
	}
	got = config(t, append(llama(), "llama.attention.sliding_window", uint32(16)))
	if got["model_type"] != "mistral" || got["sliding_window"] != 16.0 {
		t.Errorf("%v; want a mistral with a window of 16", got)
	}
	got = config(
		t, append(llama(), "llama.rope.scaling.type", "yarn", "llama.rope.scaling.factor", float32(4),
			"llama.rope.scaling.original_context_length", uint32(32)))
	if s, _ := got["rope_scaling"].(map[string]any); s["rope_type"] != "yarn" || s["factor"] != 4.0 ||
		s["original_max_position_embeddings"] != 32.0 {
		t.Errorf("%v; want yarn", got)
	}
	// Llama 3.2 with heads of 64: factor 32, bands 1 and 4, 8192 positions. The published file has these values in
	// rope_freqs.
	var factors []float32
	for i := range 32 {
		wavelength := 2 * math.Pi * math.Pow(500000, float64(i)/32)
		switch {
		case wavelength < 8192/4:
			factors = append(factors, 1)
		case wavelength > 8192:
			factors = append(factors, 32)
		default:
			smooth := (8192/wavelength - 1) / (4 - 1)
			factors = append(factors, float32(1/((1-smooth)/32+smooth)))
		}
	}
	meta := append(llama(), "llama.rope.freq_base", float32(500000), "llama.attention.key_length", uint32(64),
		"llama.attention.value_length", uint32(64))
	got = config(t, meta, gguftest.T("rope_freqs.weight", 0, floats(factors...), 32))
	if s, _ := got["rope_scaling"].(map[string]any); s["rope_type"] != "llama3" || s["factor"] != 32.0 ||
		s["original_max_position_embeddings"] != 8192.0 {
		t.Errorf("%v; want llama3", got)
	}
}

// TestRows checks that the rows of q and k come in the order of Transformers at every offset, and that other tensors
// are not changed.
func TestRows(t *testing.T) {
	rows := func(order ...float32) (b []byte) {
		for _, r := range order {
			for i := range 8 {
				b = append(b, floats(10*r+float32(i))...)
			}
		}
		return b
	}
	file, want := rows(0, 1, 2, 3, 4, 5, 6, 7), rows(0, 2, 1, 3, 4, 6, 5, 7)
	c := open(
		t, write(t, "m.gguf", llama(), gguftest.T("blk.1.attn_q.weight", 0, file, 8, 8),
			gguftest.T("blk.1.attn_k.weight", 0, file, 8, 8), gguftest.T("blk.1.attn_v.weight", 0, file, 8, 8)))
	for name, want := range map[string][]byte{
		"model.layers.1.self_attn.q_proj.weight": want, "model.layers.1.self_attn.k_proj.weight": want,
		"model.layers.1.self_attn.v_proj.weight": file,
	} {
		r, err := c.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{0, 1, 31, 32, 33, 250} {
			got, err := io.ReadAll(io.NewSectionReader(r, at, 1<<20))
			if err != nil || string(got) != string(want[at:]) {
				t.Errorf("%s from byte %d: %v, or other rows", name, at, err)
			}
		}
	}
}

func TestSplit(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, meta gguftest.Meta, tensors ...gguftest.Tensor) {
		if err := os.WriteFile(filepath.Join(dir, name), gguftest.File(3, meta, tensors...), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	split := func(no int) gguftest.Meta {
		return gguftest.Meta{"split.no", uint16(no), "split.count", uint16(2), "split.tensors.count", int32(2)}
	}
	put("m-00001-of-00002.gguf", append(llama(), split(0)...), gguftest.T("output_norm.weight", 0, floats(1, 2), 2))
	put("m-00002-of-00002.gguf", split(1), gguftest.T("blk.0.attn_norm.weight", 0, floats(3, 4), 2))
	c := open(t, filepath.Join(dir, "m-00001-of-00002.gguf"))
	if want := []string{"model.layers.0.input_layernorm.weight", "model.norm.weight"}; !slices.Equal(c.Names(), want) ||
		len(c.Files()) != 2 {
		t.Errorf("%v in %v; want %v", c.Names(), c.Files(), want)
	}
	if b, err := c.Bytes("model.layers.0.input_layernorm.weight", dtype.F32); err != nil ||
		string(b) != string(floats(3, 4)) {
		t.Error(b, err)
	}
	fails := func(name, want string) {
		t.Helper()
		if _, err := gguf.Open(filepath.Join(dir, name)); !errors.Is(err, diag.Class(3)) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	fails("m-00002-of-00002.gguf", "name the first: m-00001-of-00002.gguf")
	put("other.gguf", append(llama(), split(0)...))
	fails("other.gguf", "must be called NAME-00001-of-00002.gguf")
	put("n-00001-of-00002.gguf", append(llama(), split(0)...), gguftest.T("output_norm.weight", 0, floats(1, 2), 2))
	fails("n-00001-of-00002.gguf", "cannot be opened")
	put("n-00002-of-00002.gguf", split(0))
	fails("n-00001-of-00002.gguf", "says that it is file 0 of 2; want 1 of 2")
	put("n-00002-of-00002.gguf", split(1))
	fails("n-00001-of-00002.gguf", "have 1 tensors; 2 are expected")
	put("n-00002-of-00002.gguf", split(1), gguftest.T("output_norm.weight", 0, floats(1, 2), 2))
	fails("n-00001-of-00002.gguf", "appears twice")
}

func TestErrors(t *testing.T) {
	with := func(kv ...any) gguftest.Meta { return append(llama(), kv...) }
	vocabulary := func(kv ...any) gguftest.Meta {
		return append(
			with("tokenizer.ggml.model", "gpt2", "tokenizer.ggml.tokens", []string{"a", "b", "ab"},
				"tokenizer.ggml.merges", []string{"a b"}), kv...)
	}
	for _, c := range []struct {
		meta gguftest.Meta
		code diag.Code
		want string
	}{
		{gguftest.Meta{"general.architecture", "mamba"}, code.GGUFFeature,
			`architecture "mamba"; supported are gemma2, gemma3, llama, qwen2, qwen3, qwen3moe`},
		{gguftest.Meta{"general.architecture", uint32(1)}, code.GGUF, "general.architecture does not have the type"},
		{gguftest.Meta{"general.architecture", "llama"}, code.GGUF, "lacks llama.attention.head_count"},
		{with("llama.expert_count", uint32(8)), code.GGUFFeature, "mixture of 8 experts"},
		{with("llama.novel", uint32(8)), code.GGUFFeature, `the key "llama.novel"`},
		{with("llama.rope.dimension_count", uint32(2)), code.GGUFFeature, "rotates 2 of the 4 elements"},
		{with("llama.rope.scaling.type", "longrope"), code.GGUFFeature, `rotary scaling "longrope"`},
		{with("llama.vocab_size", "x"), code.GGUF, "llama.vocab_size is x; allowed are whole numbers"},
		{with("llama.rope.freq_base", float32(math.Inf(1))), code.GGUF, "want a finite number"},
		{with("tokenizer.ggml.model", "t5"), code.GGUF, "has 0 tokens"},
		{with("tokenizer.ggml.model", "t5", "tokenizer.ggml.tokens", []string{"a"}), code.GGUFFeature,
			`tokenizer of model "t5"`},
		{vocabulary("tokenizer.ggml.pre", "novel"), code.GGUFFeature, `pre-tokenizer "novel"`},
		{vocabulary("tokenizer.ggml.token_type", []int32{1}), code.GGUF, "has 3 tokens, 1 token types"},
		{vocabulary("tokenizer.ggml.bos_token_id", uint32(3)), code.GGUF,
			"tokenizer.ggml.bos_token_id is 3; allowed are whole numbers from 0 to 2"},
		{vocabulary("tokenizer.ggml.add_eos_token", true), code.GGUF, "does not say which"},
		{with("tokenizer.ggml.model", "gpt2", "tokenizer.ggml.tokens", []string{"a", "a"}), code.GGUF,
			`tokens 0 and 1 are both "a"`},
	} {
		if _, err := gguf.Open(write(t, "m.gguf", c.meta)); !errors.Is(err, c.code) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v; want %s with %s", c.meta, err, c.code, c.want)
		}
	}
	if _, err := gguf.Open(write(t, "m.gguf", llama(), gguftest.T("x", 16, make([]byte, 66), 256))); !errors.Is(
		err, code.GGUFFeature) {
		t.Error(err)
	}
	if _, err := gguf.Open(
		write(t, "m.gguf", llama(), gguftest.T("blk.0.attn_q.weight", 0, floats(1, 2), 2, 1))); !errors.Is(err,
		code.GGUF) || !strings.Contains(err.Error(), "want 2 heads") {
		t.Error(err)
	}
	if _, err := gguf.Open("testdata/none.gguf"); !errors.Is(err, code.CheckpointRead) {
		t.Error(err)
	}
	b, err := os.ReadFile(demo)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.gguf")
	for _, n := range []int{0, 3, 100, 20000, len(b) - 40} {
		if err := os.WriteFile(cut, b[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := gguf.Open(cut); !errors.Is(err, code.GGUF) {
			t.Errorf("%d bytes of %d: %v", n, len(b), err)
		}
	}
}
