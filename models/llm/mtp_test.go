package llm

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
)

var mtpGolden = golden{name: "qwen35_mtp", dtype: dtype.F32}

func (l *loaded) mtp(t *testing.T, hidden *tensor.Array, ids, last []int64) map[string]*tensor.Array {
	t.Helper()
	b, s := hidden.Shape[0], hidden.Shape[1]
	return l.run(t, map[string]int64{"B": int64(b), "S": int64(s)}, map[string]*tensor.Array{
		"hidden": hidden, "input_ids": ints(dtype.I64, []int{b, s}, ids...), "position": tensor.NewArray(dtype.I64, b),
		"last": ints(dtype.I64, []int{b}, last...),
	})
}

// TestMTP compares the head that predicts one more token with Transformers, with and without biases of its norms.
func TestMTP(t *testing.T) {
	for manifest, result := range map[string]string{"manifest.json": "logits", "manifest_bias.json": "bias.logits"} {
		es, err := synth.ReadManifest(filepath.Join(goldens, "qwen35_mtp", manifest))
		if err != nil {
			t.Fatal(err)
		}
		s := modeltest.Open(t, es, dtype.F32)
		head := load(t, modeltest.Compile(t, modeltest.Build(t, s, goldens+"qwen35_mtp/config.json"), s), "mtp")
		for _, c := range []struct {
			prefix     string
			batch, seq int
		}{{"a.", 1, 5}, {"b.", 2, 4}} {
			g := mtpGolden
			g.prefix = c.prefix
			shape := []int{c.batch, c.seq, 48}
			hidden := tensortest.F32(shape, synth.Tensor("qwen35_mtp."+c.prefix+"hidden", shape, 1.7, 0))
			out := head.mtp(t, hidden, g.value(t, "input_ids").Ints, g.value(t, "last_token_idx").Ints)
			tensortest.Near(t, c.prefix+result, out["logits"], g.value(t, result), 1e-4)
			if result == "logits" {
				tensortest.Near(t, c.prefix+"hidden", out["hidden"], g.value(t, "head_norm"), 1e-4)
			}
		}
	}
}

// TestDrafts drafts three tokens after a prompt, the first from the hidden state of the trunk, the others from that of
// the head.
func TestDrafts(t *testing.T) {
	g := mtpGolden
	g.prefix = "e2e."
	c := g.compile(t)
	prompt, greedy, want := g.value(t, "input_ids").Ints, g.value(t, "greedy").Ints, g.value(t, "draft_logits")
	trunk := load(t, c, "extend")
	out := trunk.extend(t, prompt, 0)
	tensortest.Near(t, "hidden", out["hidden"], g.value(t, "hidden"), 1e-4)
	small := load(t, c, "draft")
	next, at := map[string]*tensor.Array{"hidden": out["hidden"],
		"input_ids": ints(dtype.I64, []int{1, len(prompt)},
			append(slices.Clone(prompt[1:]), out["greedy"].Ints[0])...)}, 0
	head, states, ids := load(t, c, "mtp"), out["hidden"], append(slices.Clone(prompt[1:]), out["greedy"].Ints[0])
	for i, token := range g.value(t, "draft_tokens").Ints {
		draft := head.mtp(t, states, ids, []int64{int64(len(ids) - 1)})
		tensortest.Near(t, "mtp", row(draft["logits"], 0), row(want, i), 1e-4)
		next["position"] = ints(dtype.I32, nil, int64(at))
		n := next["input_ids"].Len()
		kept := small.run(t, map[string]int64{"T": int64(n)}, next)
		tensortest.Near(t, "draft", row(kept["logits"], 0), row(want, i), 1e-4)
		if kept["greedy"].Ints[0] != token {
			t.Errorf("draft %d is %d; want %d", i, kept["greedy"].Ints[0], token)
		}
		at += n
		next["hidden"], next["input_ids"] = kept["hidden"], ints(dtype.I64, []int{1, 1}, token)
		states.Floats = append(states.Floats, draft["hidden"].Floats...)
		states.Shape = []int{1, len(ids) + 1, 48}
		ids = append(ids, token)
	}
	text := slices.Clone(prompt)
	for text = append(text, out["greedy"].Ints...); len(text) < len(greedy); text = append(
		text, out["greedy"].Ints...) {
		out = trunk.extend(t, text[len(text)-1:], len(text)-1, "greedy")
	}
	if !slices.Equal(text, greedy) {
		t.Errorf("greedy text %v; want %v", text, greedy)
	}
}
