// Package llm builds decoder-only language models from checkpoints with the names of the Transformers library. Method
// forward computes the logits of whole sequences. Method extend appends tokens to a sequence, whose keys and values are
// in states, and chooses the next token. Models that take images have methods that encode and append them.
//
// It imports models/nn and below; it reads no bytes and knows no device.
package llm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/qwen3vl"
)

var _ = arch.Register(arch.Architecture{
	Name: "llm", Title: "language models (" + kindNames + ")", Types: slices.Sorted(maps.Keys(kinds)),
	Recognise: recognise, Keys: keys, Build: build,
})

// landmarks lists groups of alternative names. Every model of the family has a tensor with one name of each group.
var landmarks = [][]string{
	{"model.embed_tokens.weight"}, {"model.layers.0.input_layernorm.weight"}, {"model.norm.weight"},
	{"model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.experts.gate_up_proj",
		"model.layers.0.mlp.experts.gate_proj.weight"},
	{"model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.experts.down_proj",
		"model.layers.0.mlp.experts.down_proj.weight"},
}

func recognise(c arch.Checkpoint) (e arch.Evidence) {
	for _, l := range landmarks {
		var all []string
		for _, name := range l {
			all = append(all, names(name)...)
		}
		i := slices.IndexFunc(all, func(n string) bool { _, ok := c.Type(n); return ok })
		if i >= 0 {
			e.Found = append(e.Found, all[i])
		} else {
			e.Missing = append(e.Missing, l[0])
		}
	}
	return e
}

// names returns the names that one of our tensors may have in a checkpoint. Ours are those of text-only models.
func names(name string) []string {
	if strings.HasPrefix(name, "visual.") {
		return qwen3vl.TowerNames(name)
	}
	if rest, ok := strings.CutPrefix(name, "model."); ok {
		return []string{name, "model.language_model." + rest, "language_model.model." + rest}
	}
	return []string{name}
}

func build(ckpt arch.Checkpoint, cfg arch.Config) (*arch.Model, error) {
	tied, given, err := cfg.Bool(keyTied)
	if err == nil {
		err = cfg.Lift("text_config") // in configurations of models with vision
	}
	if err != nil {
		return nil, err
	}
	w := nn.NewWeights(ckpt, names)
	c, err := readConfig(w, cfg)
	if err != nil {
		return nil, err
	}
	if given && kinds[c.kind].images { // of the whole model; text_config may have the default of a part
		c.tied = tied
	}
	m := &arch.Model{Arch: c.kind, Facts: c.facts(cfg)}
	type method struct {
		name  string
		syms  ir.Syms
		build func(config, nn.Scope)
	}
	methods := []method{{"forward", c.forwardSyms(), forward}, {"extend", c.extendSyms(), extend}}
	if c.sequences > 1 {
		methods = append(methods, method{"extend_batch", c.batchSyms(), extendBatch}, method{"move", nil, move})
	}
	if c.kept() > 0 {
		methods = append(methods, method{"slide", nil, slide})
	}
	if c.mtp {
		methods = append(methods, method{"mtp", c.mtpSyms(), mtp}, method{"draft", c.draftSyms(), draft})
		if c.recurrent() {
			methods = append(methods, method{"rewind", nil, rewind})
		}
	}
	if c.vision != nil {
		tower := c.vision.tower
		m.Facts = append(m.Facts, tower.Fact())
		methods = append(methods,
			method{tower.Images.Method, tower.Syms(), func(_ config, root nn.Scope) { tower.Build(root) }},
			method{tower.Images.Append, c.draftSyms(), appendImage})
	}
	for _, method := range methods {
		g, err := w.Graph(method.name, method.syms, func(root nn.Scope) { method.build(c, root) })
		if err != nil {
			return nil, err
		}
		m.Methods = append(m.Methods, g)
	}
	for _, prefix := range []string{"model.visual.", "visual.", "model.vision_tower.", "vision_tower.",
		"model.multi_modal_projector.", "multi_modal_projector."} {
		w.SkipAll("images are not built", prefix)
	}
	for i := range c.layers {
		// in old checkpoints
		w.Skip("rotary frequencies, which follow from the configuration",
			fmt.Sprintf("model.layers.%d.self_attn.rotary_emb.inv_freq", i))
	}
	w.Skip("a copy of the embeddings", "lm_head.weight") // in some checkpoints with tied embeddings
	if m.Skipped, err = w.Finish(); err != nil {
		return nil, err
	}
	m.Params = w.Params()
	m.Loss = func() (*ir.Graph, error) {
		return w.Graph("loss", c.lossSyms(), func(root nn.Scope) { loss(c, root) })
	}
	return m, c.describe(cfg, m)
}
