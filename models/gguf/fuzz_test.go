package gguf_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/internal/gguftest"
	"github.com/rlx-go/rlx/internal/tokenizer"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/gguf"
	"github.com/rlx-go/rlx/models/weights"
)

// FuzzOpen looks for a file on which Open panics or fails without a code, or whose tensors cannot be read.
func FuzzOpen(t *testing.F) {
	f := campaign.New(t)
	text := gguftest.Meta{"tokenizer.ggml.model", "gpt2", "tokenizer.ggml.pre", "qwen2", "tokenizer.ggml.tokens",
		[]string{"a", "b", "ab"}, "tokenizer.ggml.merges", []string{"a b"},
		"tokenizer.ggml.token_type", []int32{1, 1, 3}, "tokenizer.ggml.eos_token_id", uint32(2)}
	spm := gguftest.Meta{"tokenizer.ggml.model", "llama", "tokenizer.ggml.tokens",
		[]string{"<unk>", "<s>", "▁", "a", "▁a"}, "tokenizer.ggml.scores", []float32{0, 0, -1, -2, -3},
		"tokenizer.ggml.token_type", []int32{2, 3, 1, 1, 1}, "tokenizer.ggml.bos_token_id", uint32(1),
		"tokenizer.ggml.unknown_token_id", uint32(0)}
	f.Add(gguftest.File(3, append(llama(), text...), gguftest.T("blk.0.attn_q.weight", 0, make([]byte, 256), 8, 8),
		gguftest.T("token_embd.weight", 2, make([]byte, 18), 1, 32)))
	f.Add(gguftest.File(2, append(llama(), spm...), gguftest.T("rope_freqs.weight", 0, make([]byte, 8), 2)))
	if whole, err := os.ReadFile(demo); err != nil {
		f.Fatal(err)
	} else if len(whole) < 1<<20 {
		f.Add(whole)
	}
	for _, name := range []string{"gemma2", "gemma3", "qwen3moe"} {
		f.Add(gguftest.File(3, other(name), gguftest.T("blk.0.attn_norm.weight", 0, make([]byte, 32), 8)))
	}
	f.Fuzz(func(t testing.TB, b []byte) {
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
		var cfg arch.Config
		text, _ := c.Own("config.json")
		if err := cfg.Decode(text, path); err != nil {
			t.Fatal("the configuration that was derived:", err)
		}
		cfg.Files = func(name string, _ int64) ([]byte, error) {
			if data, ok := c.Own(name); ok {
				return data, nil
			}
			return nil, fs.ErrNotExist
		}
		s := weights.Stored{Checkpoint: c}
		if family, err := arch.Find("auto", s, path, ""); err == nil {
			if _, err := family.Build(s, cfg); err != nil && !errors.Is(err, diag.Class(3)) {
				t.Fatal("build:", err)
			}
		}
		if doc, ok := c.Own("tokenizer.json"); ok {
			if tok, err := tokenizer.Parse(doc); err == nil {
				tok.Encode("a b", true)
			}
		}
	})
}
