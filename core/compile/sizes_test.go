package compile_test

import (
	"context"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/models/arch"
)

// shapes is a checkpoint that has shapes but no values.
type shapes struct {
	names []string
	types map[string]ir.Type
}

func (s shapes) Names() []string { return s.names }
func (s shapes) Type(name string) (ir.Type, bool) {
	t, ok := s.types[name]
	return t, ok
}

// Param returns zeros.
func (s shapes) Param(name string) (*tensor.Array, error) {
	t := s.types[name]
	return tensor.NewArray(t.DType, t.Shape.Eval(nil)...), nil
}

// encoder returns ViT-B's manifest with another encoder.
func encoder(t *testing.T, e synth.Encoder) shapes {
	t.Helper()
	base, err := synth.ReadManifest("../../testdata/goldens/sam_vit_b/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	s := shapes{types: map[string]ir.Type{}}
	for _, entry := range e.Manifest(base) {
		shape := make([]int64, len(entry.Shape))
		for i, d := range entry.Shape {
			shape[i] = int64(d)
		}
		s.names = append(s.names, entry.Name)
		s.types[entry.Name] = ir.TypeOf(dtype.F32, shape...)
	}
	slices.Sort(s.names)
	return s
}

// TestPublishedSizes compiles the three published SAMs, without values. It checks that attention is fused and that the
// arena stays small.
func TestPublishedSizes(t *testing.T) {
	// largest allowed size in bytes
	arenas := map[string]int64{"sam_vit_b": 130e6, "sam_vit_l": 130e6, "sam_vit_h": 160e6}
	for _, c := range synth.Encoders() {
		t.Run(c.Name, func(t *testing.T) {
			s := encoder(t, c)
			a, err := arch.Find("auto", s, c.Name, "")
			if err != nil {
				t.Fatal(err)
			}
			m, err := a.Build(s, arch.Config{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := compile.Compile(context.Background(), m.Methods,
				compile.Options{Targets: compile.Defaults(), Params: s,
					Layout: func(ws []compile.Weight) (at int64, err error) {
						for i := range ws {
							ws[i].Offset = at
							at += program.AlignUp(ws[i].Size())
						}
						return at, nil
					}})
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range r.Programs {
				attention := 0
				for _, st := range p.Steps {
					switch p.Graph.Nodes[st.Node].Op.Name {
					case "grid_attention":
						attention++
					case "softmax":
						t.Errorf("%s for %s: a softmax over scores is left", p.Method, p.Target)
					}
				}
				if p.Method == "encode" && attention != c.Depth {
					t.Errorf("encode for %s: %d grid_attention, want %d", p.Target, attention, c.Depth)
				}
				if p.ArenaSize > arenas[c.Name] {
					t.Errorf("%s for %s: arena of %d bytes, at most %d", p.Method, p.Target, p.ArenaSize,
						arenas[c.Name])
				}
				if p.ArenaSize != program.AlignUp(r.Reports[i].Segments[0].Plan.Arena) {
					t.Errorf("%s for %s: arena %d, the report says %d", p.Method, p.Target, p.ArenaSize,
						r.Reports[i].Segments[0].Plan.Arena)
				}
			}
		})
	}
}
