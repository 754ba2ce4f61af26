package gguf_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/task/text/tokenizer"
	"github.com/rlx-go/rlx/internal/gguftest"
	"github.com/rlx-go/rlx/models/gguf"
)

// FuzzOpen looks for a file on which Open panics or fails without a code, or whose tensors cannot be read.
func FuzzOpen(f *testing.F) {
	text := gguftest.Meta{"tokenizer.ggml.model", "gpt2", "tokenizer.ggml.pre", "qwen2", "tokenizer.ggml.tokens", []string{"a", "b", "ab"}, "tokenizer.ggml.merges", []string{"a b"},
		"tokenizer.ggml.token_type", []int32{1, 1, 3}, "tokenizer.ggml.eos_token_id", uint32(2)}
	spm := gguftest.Meta{"tokenizer.ggml.model", "llama", "tokenizer.ggml.tokens", []string{"<unk>", "<s>", "▁", "a", "▁a"}, "tokenizer.ggml.scores", []float32{0, 0, -1, -2, -3},
		"tokenizer.ggml.token_type", []int32{2, 3, 1, 1, 1}, "tokenizer.ggml.bos_token_id", uint32(1), "tokenizer.ggml.unknown_token_id", uint32(0)}
	f.Add(gguftest.File(3, append(llama(), text...), gguftest.T("blk.0.attn_q.weight", 0, make([]byte, 256), 8, 8), gguftest.T("token_embd.weight", 2, make([]byte, 18), 1, 32)))
	f.Add(gguftest.File(2, append(llama(), spm...), gguftest.T("rope_freqs.weight", 0, make([]byte, 8), 2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		c, err := gguf.Open(path)
		if err != nil {
			if !errors.Is(err, diag.Class(3)) {
				t.Fatal(err)
			}
			return
		}
		defer c.Close()
		for _, name := range c.Names() {
			info, _ := c.Info(name)
			if _, err := c.Bytes(name, info.DType); err != nil {
				t.Fatal(name, err)
			}
		}
		if doc, ok := c.Own("tokenizer.json"); ok {
			if tok, err := tokenizer.Parse(doc); err == nil {
				tok.Encode("a b", true)
			}
		}
	})
}
