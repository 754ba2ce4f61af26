package rlxbeam_test

import (
	"slices"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/rlx-go/rlx"
	rlxbeam "github.com/rlx-go/rlx/beam"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

var texts = []rlxbeam.Text{{Name: "a", Text: "ROMEO:"}, {Name: "b", Text: "The king is"}, {Name: "c", Text: "What"},
	{Name: "d", Text: "JULIET:\nO Romeo"}, {Name: "e", Text: "bad \xff bytes"}}

// TestGenerate compares with package text, one text after another, for a model that takes one sequence and for one that
// takes three.
func TestGenerate(t *testing.T) {
	batched := rlxtest.Scratch("llama3.rlx")
	rlxtest.Compile(batched, "demo/llama", "--batch", "3")
	session := rlxtest.Session(t, rlxtest.Open(t, rlxtest.Llama()), rlx.Options{Backend: cpu()})
	g, err := text.NewGenerator(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"one sequence": rlxtest.Llama(), "three sequences": batched} {
		t.Run(name, func(t *testing.T) {
			counts := run(t, func(s beam.Scope) {
				out, failed := rlxbeam.Generate(s, rlxbeam.Model{Path: path},
					rlxbeam.GenerateOptions{Tokens: 12, Sampling: &text.Sampling{}}, beam.CreateList(s, texts))
				keep(t, s, "out", out)
				keep(t, s, "failed", failed)
			})
			out := elementsOf(t, "out", func(c rlxbeam.Continuation) string { return c.Name })
			if len(out) != 4 {
				t.Fatalf("%d texts; want 4", len(out))
			}
			for i, c := range out {
				if err := g.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
				ids, err := g.Encode(texts[i].Text)
				if err != nil {
					t.Fatal(err)
				}
				want, err := g.Generate(t.Context(), ids, text.Options{Tokens: 12, Sampling: &text.Sampling{}})
				if err != nil {
					t.Fatal(err)
				}
				if c.Name != texts[i].Name || c.Text != want.Text || c.Tokens != 12 || c.Stop != "length" {
					t.Errorf("%+v; want %q", c, want.Text)
				}
			}
			failed := elementsOf(t, "failed", failureName)
			if len(failed) != 1 || failed[0].Name != "e" || failed[0].Kind != "text" || counts["failures"] != 1 {
				t.Errorf("failures %+v, metrics %v", failed, counts)
			}
		})
	}
}

// TestEmbed compares with package text.
func TestEmbed(t *testing.T) {
	session := rlxtest.Session(t, rlxtest.Open(t, rlxtest.Llama()), rlx.Options{Backend: cpu()})
	g, err := text.NewGenerator(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	run(t, func(s beam.Scope) {
		out, failed := rlxbeam.Embed(s, rlxbeam.Model{Path: rlxtest.Llama()}, rlxbeam.EmbedOptions{},
			beam.CreateList(s, texts))
		keep(t, s, "out", out)
		keep(t, s, "failed", failed)
	})
	out := elementsOf(t, "out", func(v rlxbeam.Vector) string { return v.Name })
	if len(out) != 4 || len(elementsOf(t, "failed", failureName)) != 1 {
		t.Fatalf("%d vectors; want 4", len(out))
	}
	for i, v := range out {
		if err := g.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		ids, err := g.Encode(texts[i].Text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := g.Embed(t.Context(), ids, text.EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if v.Rows != 1 || !slices.Equal(v.Values, want) {
			t.Errorf("the vector of %q differs", texts[i].Text)
		}
	}
}
