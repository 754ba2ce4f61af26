//go:build cgo && (darwin || amd64)

package backend

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// scattered returns the program of a scatter of n rows of typ over those of x.
func scattered(t testing.TB, x, updates string, n int64, reduce string, native bool) *program.Program {
	t.Helper()
	g := ir.NewGraph("m")
	err := g.Build(func() {
		at := op.Input(g, "i", ir.TypeOf(dtype.I32, n))
		g.Return("y", op.Scatter(op.Input(g, "x", ir.MustType(x)), at, op.Input(g, "u", ir.MustType(updates)), reduce))
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := shared.Info(t.Context())
	if err != nil {
		t.Skip(err)
	}
	to := *info.Target
	if !native {
		to.Rules = slices.DeleteFunc(slices.Clone(to.Rules), func(r target.Rule) bool { return r.Op == "scatter" })
	}
	low, _, err := pass.Run(g, &to, pass.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(low, sched.Options{Method: "m", Target: "wgpu",
		Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestScatterLarge scatters so many rows that their indices are sorted in several parts. Most rows of the result have
// several.
func TestScatterLarge(t *testing.T) {
	const n = 9001
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ x, updates, reduce string }{
		{"f32[300,3]", "f32[9001,3]", "none"}, {"f16[301,3]", "f16[9001,3]", "max"}, {"i32[300]", "i32[9001]", "add"},
	} {
		p := scattered(t, c.x, c.updates, n, c.reduce, true)
		in := map[string]*tensor.Array{}
		for _, x := range p.Graph.Inputs() {
			r := ir.Range{Lo: -9, Hi: 9}
			if x.Name == "i" {
				r = ir.Range{Lo: 0, Hi: 299}
			}
			in[x.Name] = interp.Random(rng, x.Type, nil, r)
		}
		e := load(t, shared, p, nil)
		got, err := outputsOf(e, p, nil, in)
		if err != nil {
			t.Fatal(err)
		}
		values, err := interp.RunProgram(p, nil, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, len(got))
		if values["y"].Store(want); !bytes.Equal(got, want) {
			t.Errorf("%s of %s in %s: other values than the reference", c.reduce, c.updates, c.x)
		}
		in["i"].Ints[n-7] = 301
		if _, err := outputsOf(e, p, nil, in); err == nil {
			t.Errorf("%s of %s in %s: an index out of range is not an error", c.reduce, c.updates, c.x)
		}
	}
}

// BenchmarkScatter compares the kernel with the expansion of the op.
func BenchmarkScatter(b *testing.B) {
	for _, native := range []bool{false, true} {
		b.Run(map[bool]string{true: "kernel", false: "expanded"}[native], func(b *testing.B) {
			p := scattered(b, "f32[2048,64]", "f32[2048,64]", 2048, "none", native)
			e, err := shared.Load(b.Context(), device.Load{Program: p})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
			for b.Loop() {
				if _, err := e.Run(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
