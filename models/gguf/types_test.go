package gguf_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/gguftest"
	"github.com/rlx-go/rlx/models/gguf"
)

// TestWrongTypes gives every key of the metadata that is read values of wrong types and out of range. The error must
// name the key.
func TestWrongTypes(t *testing.T) {
	nan := float32(math.NaN())
	size := []any{"x", true, float32(1), float32(0.5), int32(-1), uint32(0), uint32(1<<24 + 1), uint64(1) << 63,
		[]int32{1}, []string{"x"}}
	count := []any{"x", true, float32(1), int32(-1), uint32(1<<24 + 1), uint64(1) << 63, []int32{1}}
	number := []any{"x", true, uint32(1), int32(-1), nan, float32(math.Inf(1)), []float32{1}}
	flag := []any{"x", uint32(1), float32(1), []int32{1}}
	word := []any{true, uint32(1), float32(1), []string{"x"}}
	vocabulary := gguftest.Meta{"tokenizer.ggml.model", "gpt2", "tokenizer.ggml.tokens", []string{"a", "b"},
		"tokenizer.ggml.merges", []string{}}
	id := []any{"x", true, float32(1), int32(-1), uint32(2), []int32{1}}
	for _, c := range []struct {
		keys  string
		with  gguftest.Meta // beside llama's keys, or in their place if it has an architecture
		wrong []any
	}{
		{"llama.context_length llama.embedding_length llama.block_count llama.feed_forward_length llama.attention.head_count llama.attention.head_count_kv " +
			"llama.vocab_size llama.attention.key_length llama.attention.value_length llama.rope.dimension_count llama.rope.scaling.original_context_length",
			nil, size},
		{"llama.attention.sliding_window llama.expert_count", nil, count},
		{"llama.attention.layer_norm_rms_epsilon llama.rope.freq_base llama.rope.scaling.factor llama.rope.scaling.attn_factor llama.rope.scaling.yarn_beta_fast " +
			"llama.rope.scaling.yarn_beta_slow", nil, number},
		{"llama.rope.scaling.type general.architecture tokenizer.ggml.model", nil, word},
		{"llama.rope.scaling.finetuned llama.attention.causal", nil, flag},
		{"tokenizer.ggml.pre tokenizer.chat_template", vocabulary, word},
		{"tokenizer.ggml.bos_token_id tokenizer.ggml.eos_token_id tokenizer.ggml.unknown_token_id tokenizer.ggml.eot_token_id tokenizer.ggml.eom_token_id",
			vocabulary, id},
		{"tokenizer.ggml.add_bos_token tokenizer.ggml.add_eos_token tokenizer.ggml.add_space_prefix", vocabulary, flag},
		{"tokenizer.ggml.token_type", vocabulary, []any{"x", true, uint32(1), []string{"x"}, []float32{1, 1}}},
		{"tokenizer.ggml.scores", vocabulary, []any{"x", true, uint32(1), []string{"x"}, []int32{1, 1}}},
		{"tokenizer.ggml.tokens tokenizer.ggml.merges", vocabulary, []any{"x", true, uint32(1), []int32{1, 1}}},
		{"general.alignment", nil, []any{"x", true, float32(32), uint32(0), uint32(3), int32(-32)}},
		{"split.count", nil, []any{"x", true, float32(2), int32(-1), uint32(1001)}},
		{"gemma3.attention.sliding_window_pattern", other("gemma3"), size},
		{"gemma3.rope.freq_base_swa", other("gemma3"), number},
		{"gemma2.attn_logit_softcapping gemma2.final_logit_softcapping", other("gemma2"), number},
		{"qwen3moe.expert_used_count qwen3moe.expert_feed_forward_length", other("qwen3moe"), size},
	} {
		for _, key := range strings.Fields(c.keys) {
			for _, value := range c.wrong {
				list := append(llama(), c.with...)
				if len(c.with) > 0 && c.with[0] == "general.architecture" {
					list = c.with
				}
				meta := gguftest.Meta{key, value}
				for i := 0; i < len(list); i += 2 {
					if list[i] != key {
						meta = append(meta, list[i], list[i+1])
					}
				}
				ckpt, err := gguf.Open(write(t, "m.gguf", meta))
				if err == nil {
					ckpt.Close()
				}
				if !errors.Is(err, diag.Class(3)) ||
					!strings.Contains(err.Error(), key[strings.LastIndexByte(key, '.')+1:]) &&
						!strings.Contains(err.Error(), "want equal numbers") {
					t.Errorf("%s is %v: %v; want an error that names the key", key, value, err)
				}
			}
		}
	}
	if _, err := gguf.Open(write(t, "m.gguf", append(llama(), "llama.attention.causal", false))); err == nil ||
		!strings.Contains(err.Error(), "not causal") {
		t.Errorf("attention that is not causal: %v", err)
	}
}

// other returns the keys of another architecture than llama.
func other(arch string) gguftest.Meta {
	meta := gguftest.Meta{"general.architecture", arch}
	for i, list := 2, llama(); i < len(list); i += 2 {
		meta = append(meta, strings.Replace(list[i].(string), "llama", arch, 1), list[i+1])
	}
	if arch == "qwen3moe" {
		meta = append(meta, arch+".expert_count", uint32(4), arch+".expert_used_count", uint32(2),
			arch+".expert_feed_forward_length", uint32(8))
	}
	return meta
}
