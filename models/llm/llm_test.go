package llm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

const goldens = "../../testdata/goldens/"

// loaded is a method of a golden model, loaded on the cpu backend.
type loaded struct {
	p     *program.Program
	x     device.Executable
	state device.State
}

func load(t testing.TB, c modeltest.Compiled, method string) *loaded {
	t.Helper()
	l := &loaded{p: c.Find(t, method, "cpu")}
	var err error
	if l.x, err = (backend.Backend{}).Load(
		context.Background(), device.Load{Program: l.p, Weights: c.Weights, Threads: 2}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.x.Close() })
	l.reset(t)
	return l
}

// reset starts a new sequence.
func (l *loaded) reset(t testing.TB) {
	t.Helper()
	if l.p.StateSize == 0 {
		return
	}
	var err error
	if l.state, err = (backend.Backend{}).NewState(context.Background(), "", l.p.StateSize); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.state.Close() })
}

// run returns the wanted outputs; without names, all of them.
func (l *loaded) run(t testing.TB, syms map[string]int64, in map[string]*tensor.Array,
	want ...string) map[string]*tensor.Array {
	t.Helper()
	b, err := l.p.Bind(syms)
	if err != nil {
		t.Fatal(err)
	}
	io := tensor.AlignedBytes(int(l.p.IOSize))
	for i, n := range l.p.Graph.Inputs() {
		if in[n.Name] == nil {
			t.Fatalf("no input %s", n.Name)
		}
		copy(io[b.Inputs[i].Offset:], in[n.Name].Tensor().Data)
	}
	r := device.Run{Syms: syms, IO: io, State: l.state}
	if want != nil {
		for _, o := range l.p.Graph.Outputs {
			r.Outputs = append(r.Outputs, slices.Contains(want, o.Name))
		}
	}
	if _, err := l.x.Run(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	out := map[string]*tensor.Array{}
	for i, o := range l.p.Graph.Outputs {
		if v := b.Outputs[i]; want == nil || slices.Contains(want, o.Name) {
			out[o.Name] = tensor.Tensor{DType: v.DType, Shape: v.Shape, Data: io[v.Offset : v.Offset+v.Bytes]}.Array()
		}
	}
	return out
}

func ints(d dtype.DType, shape []int, v ...int64) *tensor.Array {
	return &tensor.Array{DType: d, Shape: shape, Ints: v}
}

func float(v float64) *tensor.Array { return &tensor.Array{DType: dtype.F32, Floats: []float64{v}} }

// extendInputs returns inputs of extend that sample from all tokens.
func extendInputs(ids []int64, position int) map[string]*tensor.Array {
	return map[string]*tensor.Array{
		"input_ids": ints(dtype.I64, []int{1, len(ids)}, ids...), "position": ints(dtype.I32, nil, int64(position)),
		"temperature": float(1), "top_k": ints(dtype.I32, nil, 0), "top_p": float(1), "min_p": float(0),
		"repeat_penalty": float(1), "recent": ints(dtype.I64, []int{1}, 0),
		"dropped": ints(dtype.I32, nil, 0), "seed": ints(dtype.U32, []int{2}, 1, 2),
		"step": ints(dtype.U32, []int{2}, 0, 0),
	}
}

func (l *loaded) extend(t testing.TB, ids []int64, position int, want ...string) map[string]*tensor.Array {
	t.Helper()
	return l.run(t, map[string]int64{"T": int64(len(ids)), "R": 1}, extendInputs(ids, position), want...)
}

// golden is a case of testdata/goldens.
type golden struct {
	name, prefix string
	dtype        dtype.DType
}

func (g golden) value(t testing.TB, name string) *tensor.Array {
	t.Helper()
	if name == "input_ids" && g.dtype == dtype.BF16 {
		g.prefix = "" // with the same prompt
	}
	return tensortest.Golden(t, goldens+g.name+"/golden.safetensors:"+g.prefix+name)
}

var cases = []golden{
	{"llama_tiny", "", dtype.F32}, {"llama_rope3", "", dtype.F32}, {"mistral_tiny", "", dtype.F32},
	{"qwen2_tiny", "", dtype.F32},
	{"qwen3_tiny", "", dtype.F32}, {"qwen3_tiny", "bf16.", dtype.BF16},
	{"qwen35_tiny", "", dtype.F32}, {"qwen35_tiny", "short.", dtype.F32},
	{"qwen3_moe_tiny", "", dtype.F32}, {"qwen3_next_tiny", "", dtype.F32}, {"qwen35_moe_tiny", "", dtype.F32},
	{"gemma2_tiny", "", dtype.F32}, {"gemma3_tiny", "", dtype.F32},
}

// row returns row i of logits [1,T,V].
func row(a *tensor.Array, i int) *tensor.Array {
	n := a.Shape[len(a.Shape)-1]
	return &tensor.Array{DType: a.DType, Shape: []int{n}, Floats: a.Floats[i*n : (i+1)*n]}
}

func (g golden) compile(t testing.TB) modeltest.Compiled {
	t.Helper()
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+g.name), g.dtype)
	return modeltest.Compile(t, modeltest.Build(t, s, goldens+g.name+"/config.json"), s)
}

// TestGolden compares a compiled model on the cpu backend with Transformers: the logits of a prompt, and the tokens and
// logits of greedy decoding with a cache. It divides the prompt into chunks of several sizes.
func TestGolden(t *testing.T) {
	for _, g := range cases {
		t.Run(g.name+g.prefix, func(t *testing.T) {
			c := g.compile(t)
			ids, logits, greedy := g.value(t, "input_ids"), g.value(t, "logits"), g.value(t, "greedy")
			n := ids.Len()
			whole := load(t, c, "forward").run(t, map[string]int64{"B": 1, "T": int64(n)},
				map[string]*tensor.Array{"input_ids": ints(dtype.I64, []int{1, n}, ids.Ints...)})["logits"]
			tensortest.Near(t, "logits", whole, logits, 1e-4)
			step := load(t, c, "extend")
			for _, chunk := range []int{n, 1, 3, 7} {
				step.reset(t)
				var out map[string]*tensor.Array
				for at := 0; at < n; at += chunk {
					end := min(at+chunk, n)
					out = step.extend(t, ids.Ints[at:end], at)
					near(t, fmt.Sprintf("chunks of %d, logits of token %d", chunk, end-1), row(out["logits"], 0),
						row(whole, end-1))
					if got := out["choices"].Ints; len(got) != end-at || got[len(got)-1] != out["greedy"].Ints[0] {
						t.Errorf("choices are %v; want %d ending in %d", got, end-at, out["greedy"].Ints[0])
					}
				}
				text := slices.Clone(ids.Ints)
				for s := 0; ; s++ {
					text = append(text, out["greedy"].Ints[0])
					if len(text) == greedy.Len() {
						break
					}
					out = step.extend(t, text[len(text)-1:], len(text)-1, "logits", "greedy")
				}
				if !slices.Equal(text, greedy.Ints) {
					t.Errorf("chunks of %d: tokens %v; want %v", chunk, text, greedy.Ints)
				}
			}
		})
	}
}

// near checks that logits are equal within 1e-5 of their maximum.
func near(t testing.TB, what string, got, want *tensor.Array) {
	t.Helper()
	largest := 0.0
	for _, v := range want.Floats {
		largest = max(largest, math.Abs(v))
	}
	if err := interp.Compare(got, want, ir.Tolerance{Abs: 1e-5 * largest}); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestRefused checks that a configuration which contradicts the tensors, or has unknown values, gives an error that
// names the key.
func TestRefused(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+"llama_tiny"), dtype.F32)
	config := goldens + "llama_tiny/config.json"
	for _, c := range []struct{ set, want string }{
		{"num_attention_heads=5", "5 heads of 16 do not fit q_proj and k_proj, which have 64 and 32 rows"},
		{"num_key_value_heads=4", "num_key_value_heads is 4; the tensors say 2"},
		{"hidden_act=gelu", `hidden_act is "gelu"; want silu`},
		{"attention_bias=true", "attention_bias is true; the tensors say false"},
		{"tie_word_embeddings=3", "tie_word_embeddings is 3; want true or false"},
		{"batch=65", "batch is 65; want an integer from 1 to 64"},
		{"context=257", "context is 257; want an integer from 1 to 256"},
		{"rope_parameters.rope_type=longrope", `rope_parameters.rope_type is "longrope"; want`},
		{"rope_parameters.partial_rotary_factor=0.5", "rope_parameters.partial_rotary_factor is 0.5; llama rotates whole heads"},
		{"rope_parameters.partial_rotary_factor=0.5", "--set rope_dimension_count=8"},
		{"partial_rotary_factor=0.25", "partial_rotary_factor is 0.25; llama rotates whole heads, so want 1"},
		{"rope_dimension_count=7", "rotates 7 of 16 elements"},
		{"model_type=gpt2", `model_type is "gpt2"; want`},
		{"model_type=null", "model_type: is not given"},
		{"model_type=null", "--model-config"},
		{"rms_norm_eps=-1", "rms_norm_eps is -1; want a finite number, not negative"},
		{"rope_scaling.rope_type=linear", "rope_scaling and rope_parameters are both given; want one of them"},
	} {
		if _, err := modeltest.TryBuild(s, config, c.set); !errors.Is(err, arch.ErrConfig) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("--set %s: %v; want %q", c.set, err, c.want)
		}
	}
	if _, err := modeltest.TryBuild(s, config, "model_type=qwen3"); !errors.Is(err, arch.ErrTensor) ||
		!strings.Contains(err.Error(), "layers.0.self_attn.q_norm.weight") {
		t.Errorf("qwen3 without the norms of heads: %v", err)
	}
	other := filepath.Join(t.TempDir(), "config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(
		other, append([]byte(`{"attn_logit_softcapping": 30.0, "some_new_switch": false, "mlp_only_layers": [],`),
			text[1:]...), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = modeltest.TryBuild(s, other)
	if !errors.Is(err, arch.ErrConfig) ||
		!strings.Contains(err.Error(), "attn_logit_softcapping is 30.0; this key is not known") {
		t.Errorf("an unknown key: %v", err)
	}
	if _, err := modeltest.TryBuild(s, other, "attn_logit_softcapping=null"); err != nil {
		t.Errorf("an unknown key that is set to null: %v", err)
	}
}

// TestRopeScaling compares scalings of rotary frequencies with Transformers, for forward and for prompts that extend
// takes in one run.
func TestRopeScaling(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+"llama_tiny"), dtype.F32)
	g := golden{name: "llama_scaled"}
	ids := g.value(t, "input_ids")
	n := ids.Len()
	var plain *tensor.Array
	for _, name := range []string{"linear", "dynamic", "yarn", "yarn_mscale"} {
		m := modeltest.Build(t, s, goldens+"llama_scaled/config."+name+".json", "context=40")
		c, want := modeltest.Compile(t, m, s), g.value(t, name)
		got := load(t, c, "forward").run(t, map[string]int64{"B": 1, "T": int64(n)},
			map[string]*tensor.Array{"input_ids": ints(dtype.I64, []int{1, n}, ids.Ints...)})["logits"]
		last := &tensor.Array{DType: dtype.F32, Shape: want.Shape, Floats: got.Floats[got.Len()-want.Len():]}
		tensortest.Near(t, name, last, want, 1e-4)
		near(t, name+", extend", row(load(t, c, "extend").extend(t, ids.Ints, 0)["logits"], 0), row(got, n-1))
		if plain != nil && interp.Compare(want, plain, ir.Tolerance{Abs: 0.1}) == nil {
			t.Errorf("%s has the logits of the scaling before it", name)
		}
		plain = want
	}
}

// TestSteps counts the steps of a layer: two norms, five products with fused epilogues, and attention in place. Nothing
// is transposed, copied or widened except the embeddings of bf16.
func TestSteps(t *testing.T) {
	c := golden{"qwen3_tiny", "", dtype.BF16}.compile(t)
	for _, target := range []string{"cpu", "wgpu"} {
		for method, appends := range map[string]int{"forward": 0, "extend": 2} {
			p := c.Find(t, method, target)
			got := map[string]int{}
			for _, s := range p.Steps {
				if n := p.Graph.Nodes[s.Node]; strings.HasPrefix(n.Name, "model.layers.1") {
					got[n.Op.Name]++
				} else if n.Is(op.CastDef) && n.In[0].Type.DType.IsFloat() {
					got["cast"]++
				}
			}
			want := map[string]int{"rms_norm": 4, "matmul": 4, "fused_matmul": 3, "rope": 2, "attention": 1, "mul": 1,
				"cast": 1}
			if appends > 0 {
				want["kv_append"] = appends
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s for %s: steps %v; want %v", method, target, got, want)
			}
		}
	}
}

// packed is a checkpoint whose matrices have a packed type.
type packed struct {
	arch.Checkpoint
	dtype dtype.DType
}

func (p packed) Type(name string) (ir.Type, bool) {
	t, ok := p.Checkpoint.Type(name)
	last := len(t.Shape) - 1
	if n := int64(p.dtype.Values()); ok && (last == 1 || strings.Contains(name, ".experts.")) &&
		t.Shape[last].Const%n == 0 {
		t.DType, t.Shape = p.dtype, append(slices.Clone(t.Shape[:last]), ir.Static(t.Shape[last].Const/n))
	}
	return t, ok
}

// TestPacked checks that matrices of a packed type are gathered and multiplied as they are, also beside matrices of
// other types.
func TestPacked(t *testing.T) {
	for name, products := range map[string]int{
		"llama_tiny": 3*6 + 1, // down_proj has 176 columns, not a multiple of the block
		// of linear and full attention, routers and shared experts; out_proj has 48 columns, and the last product of
		// shared experts 24
		"qwen35_moe_tiny": 2*4 + 4 + 3*(1+2+1) + 1,
	} {
		s := modeltest.Open(t, modeltest.Manifest(t, goldens+name), dtype.F32)
		var cfg arch.Config
		if err := cfg.Load(goldens + name + "/config.json"); err != nil {
			t.Fatal(err)
		}
		m, err := build(packed{s, dtype.Q8_0}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := compile.Compile(context.Background(), m.Methods,
			compile.Options{Targets: modeltest.Targets()[:1], Layout: func(ws []compile.Weight) (int64, error) {
				return 0, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Programs {
			got := map[string]int{}
			for _, s := range p.Steps {
				got[p.Graph.Nodes[s.Node].Op.Name]++
			}
			// products with matrices that are not packed, and experts, of the layer that is applied twice
			want, last := products, 0
			if p.Method == "extend" {
				// the last layer once more for the last token: q_proj, o_proj, and up and gate, or the router and the
				// shared expert's
				want, last = products+1+4, 1
			}
			if got["dequant_rows"] != 1 || got["dequant_matmul"] != want || got["gather"]+got["grouped_matmul"] != 0 {
				t.Errorf("%s, %s: steps %v; want %d dequant_matmul and dequant_rows", name, p.Method, got, want)
			}
			if name == "llama_tiny" && got["matmul"]+got["fused_matmul"] != 3+last || name != "llama_tiny" &&
				got["dequant_grouped_matmul"] != (3+last)*2 {
				t.Errorf("%s, %s: steps %v", name, p.Method, got)
			}
		}
	}
}

// TestGemmaConfig checks that the spelling of published configurations, also nested as in models with vision, means the
// same.
func TestGemmaConfig(t *testing.T) {
	g := golden{name: "gemma3_tiny"}
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+g.name), dtype.F32)
	config := filepath.Join(t.TempDir(), "config.json")
	old := `{"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "mm_tokens_per_image": 256, "vision_config": {"model_type": "siglip_vision_model"}, "text_config": {
		"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 3, "query_pre_attn_scalar": 24, "rope_local_base_freq": 1000.0,
		"rope_scaling": {"factor": 4.0, "rope_type": "linear"}, "rope_theta": 100000.0, "sliding_window": 6, "sliding_window_pattern": 2, "final_logit_softcapping": null}}`
	if err := os.WriteFile(config, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	ids := g.value(t, "input_ids")
	c := modeltest.Compile(t, modeltest.Build(t, s, config), s)
	got := load(t, c, "forward").run(t, map[string]int64{"B": 1, "T": int64(ids.Len())},
		map[string]*tensor.Array{"input_ids": ints(dtype.I64, []int{1, ids.Len()}, ids.Ints...)})["logits"]
	tensortest.Near(t, "logits", got, g.value(t, "logits"), 1e-4)
	for set, want := range map[string]string{
		"hidden_activation=silu":   "want gelu_pytorch_tanh",
		"rope_local_base_freq=0":   "rope_local_base_freq is 0; want a positive number",
		"sliding_window_pattern=0": "want an integer from 1",
	} {
		if _, err := modeltest.TryBuild(s, config, set); !errors.Is(err, arch.ErrConfig) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v; want %q", set, err, want)
		}
	}
	softcap := strings.Replace(old, `"final_logit_softcapping": null`, `"final_logit_softcapping": 30.0`, 1)
	if err := os.WriteFile(config, []byte(softcap), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := modeltest.TryBuild(s, config); err == nil ||
		!strings.Contains(err.Error(), "final_logit_softcapping is 30.0; this key is not known") {
		t.Errorf("a soft cap: %v", err)
	}
}

// TestSoftcaps checks that null switches a cap off, and that invalid caps are refused.
func TestSoftcaps(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+"gemma2_tiny"), dtype.F32)
	config := goldens + "gemma2_tiny/config.json"
	modeltest.Build(t, s, config, "attn_logit_softcapping=null", "final_logit_softcapping=null")
	for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
		if _, err := modeltest.TryBuild(s, config, key+"=-1"); !errors.Is(err, arch.ErrConfig) ||
			!strings.Contains(err.Error(), "want a positive number, or null") {
			t.Errorf("%s=-1: %v", key, err)
		}
	}
}

// TestRefusedBatch checks models that take only one sequence at a time.
func TestRefusedBatch(t *testing.T) {
	for name, config := range map[string]string{"qwen35_tiny": "qwen35_tiny/config.json",
		"llama_tiny": "llama_scaled/config.dynamic.json"} {
		s := modeltest.Open(t, modeltest.Manifest(t, goldens+name), dtype.F32)
		if _, err := modeltest.TryBuild(s, goldens+config, "batch=2"); !errors.Is(err, arch.ErrConfig) ||
			!strings.Contains(err.Error(), "one sequence at a time") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefusedCache checks caches that cannot be in pages.
func TestRefusedCache(t *testing.T) {
	for _, c := range []struct {
		model, want string
		set         []string
	}{
		{"llama_tiny", "cache is 300 with one sequence", []string{"cache=300"}},
		{"llama_tiny", "allowed are 256, one whole context, to 768", []string{"batch=3", "cache=255"}},
		{"llama_tiny", "allowed are 256, one whole context, to 768", []string{"batch=3", "cache=769"}},
		{"mistral_tiny", "sliding window, are not in pages", []string{"batch=3", "cache=300"}},
	} {
		s := modeltest.Open(t, modeltest.Manifest(t, goldens+c.model), dtype.F32)
		if _, err := modeltest.TryBuild(s, goldens+c.model+"/config.json", c.set...); !errors.Is(err, arch.ErrConfig) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %v: %v; want %q", c.model, c.set, err, c.want)
		}
	}
}

// TestRefusedExperts checks configurations of experts that contradict the tensors.
func TestRefusedExperts(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+"qwen3_next_tiny"), dtype.F32)
	config := goldens + "qwen3_next_tiny/config.json"
	for _, c := range []struct{ set, want string }{
		{"num_experts=8", "num_experts is 8; the tensors say 7"},
		{"num_local_experts=8", "num_local_experts is 8; the tensors say 7"},
		{"num_experts_per_tok=9", "num_experts_per_tok is 9; want an integer from 1 to 7"},
		{"moe_intermediate_size=16", "moe_intermediate_size is 16; the tensors say 32"},
		{"shared_expert_intermediate_size=16", "the tensors say 24"},
		{"decoder_sparse_step=0", "decoder_sparse_step is 0; want an integer from 1"},
		{"linear_num_key_heads=0", "linear_num_key_heads is 0; want an integer from 1"},
		{"decoder_sparse_step=2", "layer 0 has experts: true"},
		{"mlp_only_layers=[1]", "layer 1 has experts: true; mlp_only_layers is [1]"},
		{"model_type=qwen3_5_text", `model_type is "qwen3_5_text"; the tensors have experts`},
	} {
		if _, err := modeltest.TryBuild(s, config, c.set); !errors.Is(err, arch.ErrConfig) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("--set %s: %v; want %q", c.set, err, c.want)
		}
	}
	dense := modeltest.Open(t, modeltest.Manifest(t, goldens+"qwen3_tiny"), dtype.F32)
	if _, err := modeltest.TryBuild(dense, goldens+"qwen3_tiny/config.json", "model_type=qwen3_moe"); err == nil ||
		!strings.Contains(err.Error(), "no experts") {
		t.Errorf("a model without experts: %v", err)
	}
}

// TestSampling checks the effect of the inputs of extend on the token, computed here from the logits.
func TestSampling(t *testing.T) {
	l := load(t, golden{"llama_tiny", "", dtype.F32}.compile(t), "extend")
	run := func(set map[string]*tensor.Array) map[string]*tensor.Array {
		l.reset(t)
		in := extendInputs([]int64{5, 7, 9}, 0)
		maps.Copy(in, set)
		return l.run(t, map[string]int64{"T": 3, "R": int64(in["recent"].Len())}, in)
	}
	plain := run(nil)
	logits, greedy := plain["logits"].Floats, plain["greedy"].Ints[0]
	total := 0.0
	for _, v := range logits {
		total += math.Exp(v)
	}
	if want := logits[plain["token"].Ints[0]] - math.Log(total); math.Abs(plain["logprob"].Floats[0]-want) > 1e-5 {
		t.Errorf("logprob %v; want %v", plain["logprob"].Floats[0], want)
	}
	if got := run(map[string]*tensor.Array{"temperature": float(0)}); got["token"].Ints[0] != greedy ||
		got["logprob"].Floats[0] != got["greedy_logprob"].Floats[0] {
		t.Errorf("temperature 0 gives %d with %v; want %d with %v", got["token"].Ints[0], got["logprob"].Floats[0],
			greedy,
			got["greedy_logprob"].Floats[0])
	}
	if want := logits[greedy] - math.Log(total); math.Abs(plain["greedy_logprob"].Floats[0]-want) > 1e-5 {
		t.Errorf("greedy_logprob %v; want %v", plain["greedy_logprob"].Floats[0], want)
	}
	if got := run(
		map[string]*tensor.Array{"min_p": float(1), "temperature": float(2)})["token"].Ints[0]; got != greedy {
		t.Errorf("min_p 1 gives %d; want %d", got, greedy)
	}
	// The penalty applies once to a token that occurs several times.
	recent := []int64{greedy, 3, greedy, 4, greedy}
	best, most := int64(-1), math.Inf(-1)
	for i, v := range logits {
		if slices.Contains(recent, int64(i)) {
			if v > 0 {
				v /= 1.5
			} else {
				v *= 1.5
			}
		}
		if v > most {
			best, most = int64(i), v
		}
	}
	if got := run(
		map[string]*tensor.Array{"temperature": float(0), "repeat_penalty": float(1.5),
			"recent": ints(dtype.I64, []int{5}, recent...)}); got["token"].Ints[0] != best || best == greedy {
		t.Errorf("a penalty of 1.5 gives %d; want %d, and not %d", got["token"].Ints[0], best, greedy)
	} else if !slices.Equal(got["logits"].Floats, logits) {
		t.Error("a penalty changes the logits")
	}
	drawn := map[int64]bool{}
	for step := range int64(40) {
		drawn[run(
			map[string]*tensor.Array{"step": ints(dtype.U32, []int{2}, step, 0), "top_k": ints(dtype.I32, nil, 5),
				"temperature": float(5)})["token"].Ints[0]] = true
	}
	if len(drawn) < 2 || len(drawn) > 5 {
		t.Errorf("40 steps with top_k 5 drew %v", drawn)
	}
}
