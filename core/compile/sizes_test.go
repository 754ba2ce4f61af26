package compile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/models/arch"
)

// shapes is a checkpoint without values.
type shapes struct {
	names []string
	types map[string]ir.Type
}

func (s shapes) Names() []string { return s.names }
func (s shapes) Type(name string) (ir.Type, bool) {
	t, ok := s.types[name]
	return t, ok
}

// Param is all zeros.
func (s shapes) Param(name string) (*tensor.Array, error) {
	t := s.types[name]
	return tensor.NewArray(t.DType, t.Shape.Eval(nil)...), nil
}

// encoder gives ViT-B's manifest another encoder: the published sizes of SAM.
func encoder(t *testing.T, width, depth, heads int, global []int) shapes {
	t.Helper()
	es, err := synth.ReadManifest("../../testdata/goldens/sam_vit_b/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	s := shapes{types: map[string]ir.Type{}}
	add := func(name string, dims []int) {
		shape := make([]int64, len(dims))
		for i, d := range dims {
			shape[i] = int64(d)
		}
		s.names = append(s.names, name)
		s.types[name] = ir.TypeOf(dtype.F32, shape...)
	}
	scale := map[int]int{768: width, 2304: 3 * width, 3072: 4 * width}
	for _, e := range es {
		dims := slices.Clone(e.Shape)
		if strings.HasPrefix(e.Name, "image_encoder.") {
			for i, d := range dims {
				if to, ok := scale[d]; ok {
					dims[i] = to
				}
			}
		}
		rest, block := strings.CutPrefix(e.Name, "image_encoder.blocks.0.")
		if !block {
			if !strings.HasPrefix(e.Name, "image_encoder.blocks.") {
				add(e.Name, dims)
			}
			continue
		}
		for i := range depth {
			d := slices.Clone(dims)
			if strings.Contains(rest, "rel_pos") {
				d = []int{27, width / heads}
				if slices.Contains(global, i) {
					d[0] = 127
				}
			}
			add(fmt.Sprintf("image_encoder.blocks.%d.%s", i, rest), d)
		}
	}
	slices.Sort(s.names)
	return s
}

// TestPublishedSizes compiles the three published SAMs, without values: everything fuses, and the arena stays small.
func TestPublishedSizes(t *testing.T) {
	for _, c := range []struct {
		name                string
		width, depth, heads int
		global              []int
		arena               int64 // bytes, at most
	}{
		{"ViT-B", 768, 12, 12, []int{2, 5, 8, 11}, 130e6},
		{"ViT-L", 1024, 24, 16, []int{5, 11, 17, 23}, 130e6},
		{"ViT-H", 1280, 32, 16, []int{7, 15, 23, 31}, 160e6},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := encoder(t, c.width, c.depth, c.heads, c.global)
			a, err := arch.Find("auto", s, c.name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := a.Build(s, arch.Config{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := compile.Compile(context.Background(), m.Methods, compile.Options{Targets: pass.Targets(), Params: s,
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
				if p.Method == "encode" && attention != c.depth {
					t.Errorf("encode for %s: %d grid_attention, want %d", p.Target, attention, c.depth)
				}
				if p.ArenaSize > c.arena {
					t.Errorf("%s for %s: arena of %d bytes, at most %d", p.Method, p.Target, p.ArenaSize, c.arena)
				}
				if p.ArenaSize != program.AlignUp(r.Reports[i].Plan.Arena) {
					t.Errorf("%s for %s: arena %d, the report says %d", p.Method, p.Target, p.ArenaSize, r.Reports[i].Plan.Arena)
				}
			}
		})
	}
}
