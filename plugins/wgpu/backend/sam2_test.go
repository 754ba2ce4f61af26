//go:build cgo && (darwin || amd64)

package backend

import (
	"maps"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/tensortest"
	_ "github.com/rlx-go/rlx/models/sam2"
)

// TestSAM2 compares a SAM 2 with the results of Transformers.
func TestSAM2(t *testing.T) {
	const dir = "../../../testdata/goldens/sam2_tiny"
	g := modeltest.OpenSAM2(t, dir)
	stored := modeltest.Open(t, modeltest.Manifest(t, dir), dtype.F32)
	c := modeltest.Compile(t, modeltest.Build(t, stored, g.Config), stored, compile.Defaults()...)
	p, want := c.Find(t, "encode", "wgpu"), g.Features(t)
	out := onDevice(t, load(t, shared, p, c.Weights), p, nil, map[string]*tensor.Array{"image": g.Image})
	for name, x := range want {
		tensortest.Near(t, name, out[name], x, 1e-5)
	}
	p = c.Find(t, "decode", "wgpu")
	x := load(t, shared, p, c.Weights)
	for _, q := range g.Prompts {
		if q.Delta != 0 {
			continue
		}
		in := maps.Clone(want)
		maps.Copy(in, q.Inputs)
		q.Check(t, onDevice(t, x, p, map[string]int64{"N": int64(q.Points)}, in), 2e-5)
	}
}
