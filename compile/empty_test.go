package compile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

// TestEmptyConstants compiles every op with operands that are constants without elements, for every built-in target,
// and writes artifacts, which verifies them. The results of most are constants without elements, too.
func TestEmptyConstants(t *testing.T) {
	const most = 64 // graphs of a text
	tried := 0
	for _, to := range target.Builtin() {
		if target.AsWGPU(to) {
			continue // as wgpu
		}
		var texts, alone []string // alone: several graphs of a text may not have the same bodies
		for _, def := range ir.Defs() {
			if def.Effects || def.Updates {
				continue
			}
			for _, c := range def.Cases() {
				for _, all := range []bool{false, true} { // whether the other operands are constants, too
					g := ir.NewGraph(fmt.Sprint(def.Name, len(texts)+len(alone)))
					if emptyOperands(g, def, c, all) == 0 {
						continue
					}
					if err := g.Err(); err != nil {
						t.Fatalf("%s: %v", def.Name, err)
					}
					if len(g.Bodies()) > 0 {
						alone = append(alone, g.String())
					} else {
						texts = append(texts, g.String())
					}
				}
			}
		}
		tried += len(texts) + len(alone)
		for chunk := range slices.Chunk(texts, most) {
			alone = append(alone, strings.Join(chunk, "\n"))
		}
		for _, text := range alone {
			path := filepath.Join(t.TempDir(), "graphs.txt")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			o := compile.Options{Output: path + ".rlx", Targets: []string{to.Name}, Fallbacks: []string{"cpu"}}
			if _, err := compile.Checkpoint(t.Context(), path, o); err != nil {
				t.Errorf("for %s: %v", to.Name, err)
			}
		}
	}
	if tried < 500 {
		t.Errorf("%d graphs; want 500 at least", tried)
	}
	t.Logf("%d graphs", tried)
}

// emptyOperands adds a case of an op whose operands without elements are constants, and returns the number of these.
func emptyOperands(g *ir.Graph, def *ir.OpDef, c ir.Case[any], all bool) (empty int) {
	in := make([]*ir.Node, len(c.In))
	for k, x := range c.In {
		n, _ := x.Shape.Numel()
		switch {
		case !x.Present():
		case x.DType.IsPacked(): // const has none of these
			in[k] = op.Param(g, fmt.Sprint(g.Name, ".x", k), x)
		case n.Is(0) || all:
			in[k] = op.Const(g, 0, x)
		default:
			in[k] = op.Input(g, fmt.Sprint("x", k), x)
		}
		if x.Present() && n.Is(0) {
			empty++
		}
	}
	if !def.Tuple {
		g.Return("y", g.AddDeclared(def, c.Attrs, c.Out, in...))
		return empty
	}
	results, err := def.InferResults(c.Attrs, c.In, c.Out, nil)
	if err != nil {
		g.Fail(err)
	}
	for k, n := range g.AddResults(len(results), def, c.Attrs, in...) {
		g.Return(fmt.Sprint("y", k), n)
	}
	return empty
}
