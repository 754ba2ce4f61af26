package driver

import (
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/tensortest"
	_ "github.com/rlx-go/rlx/models/sam"
)

// TestSAM runs a small SAM through the driver and compares its results with those of the authors' implementation. Its
// weights are mapped. The commands of the second run were recorded during the first.
func TestSAM(t *testing.T) {
	const dir = "../../../testdata/goldens/sam_tiny/"
	f, b := start(t, t.TempDir())
	g := modeltest.OpenSAM(t, dir)
	stored := modeltest.Open(t, modeltest.Manifest(t, dir), dtype.F32)
	c := modeltest.Compile(t, modeltest.Build(t, stored, g.Config, g.Set...), stored, compile.Defaults()...)
	weights, unmap := mapped(t, c.Weights, 0)
	load := func(method string) (*program.Program, device.Executable) {
		p := c.Find(t, method, "wgpu")
		x, err := b.Load(t.Context(), device.Load{Program: p, Weights: weights, Mapped: true})
		if err != nil {
			t.Fatal(err)
		}
		return p, x
	}
	embeddings := g.Embeddings(t)
	p, x := load("encode")
	for range 2 {
		out := devicetest.Once(t, x, p, nil, map[string]*tensor.Array{"image": g.Image})
		tensortest.Near(t, "embeddings", out["embeddings"], embeddings, 1e-5)
	}
	x.Close()
	p, x = load("decode")
	for _, q := range g.Prompts {
		q.Check(t, devicetest.Once(t, x, p, map[string]int64{"N": int64(q.Points)}, q.With(embeddings)), 2e-5)
	}
	x.Close()
	unmap()
	if f.sent[noCopy] < 2 {
		t.Error("the weights were not used in place")
	}
	f.checkReleased(t)
}
