// Package llm builds decoder-only language models from checkpoints in the names of the Transformers library. Method forward turns whole
// sequences into logits; method extend appends tokens to a sequence whose keys and values are kept in states, and chooses the next token.
//
// It imports models/nn and below; it reads no bytes and knows no device.
package llm

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

var _ = arch.Register(arch.Architecture{
	Name: "llm", Title: "language models (" + kindNames + ")", Types: slices.Sorted(maps.Keys(kinds)),
	Recognise: recognise, Keys: keys, Build: build,
})

// landmarks are tensors that every model of the family has.
var landmarks = []string{
	"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.down_proj.weight", "model.norm.weight",
}

func recognise(c arch.Checkpoint) (e arch.Evidence) {
	for _, l := range landmarks {
		if _, ok := c.Type(l); ok {
			e.Found = append(e.Found, l)
		} else {
			e.Missing = append(e.Missing, l)
		}
	}
	return e
}

// names are those that one of our tensors may have in a checkpoint.
func names(name string) []string { return []string{name} }

func build(ckpt arch.Checkpoint, cfg arch.Config) (*arch.Model, error) {
	w := nn.NewWeights(ckpt, names)
	c, err := readConfig(w, cfg)
	if err != nil {
		return nil, err
	}
	m := &arch.Model{Arch: c.kind, Facts: c.facts(cfg)}
	for _, method := range []struct {
		name  string
		syms  ir.Syms
		build func(config, nn.Scope)
	}{
		{"forward", c.forwardSyms(), forward},
		{"extend", c.extendSyms(), extend},
	} {
		g, err := w.Graph(method.name, method.syms, func(root nn.Scope) { method.build(c, root) })
		if err != nil {
			return nil, err
		}
		m.Methods = append(m.Methods, g)
	}
	for i := range c.layers {
		w.Skip(fmt.Sprintf("model.layers.%d.self_attn.rotary_emb.inv_freq", i)) // old checkpoints store what the configuration says
	}
	w.Skip("lm_head.weight") // a copy of the embeddings in some checkpoints where they are tied
	if m.Skipped, err = w.Finish(); err != nil {
		return nil, err
	}
	m.Params = w.Params()
	return m, c.describe(cfg, m)
}
