package splat

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/grad"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestLoss compares the loss and its gradient with PyTorch's (testdata/loss.py).
func TestLoss(t *testing.T) {
	text, err := os.ReadFile("testdata/loss.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Height, Width         int
		Share, Loss, MSE      float64
		Got, Target, Gradient []float64
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		h, w := int64(c.Height), int64(c.Width)
		g := ir.NewGraph("loss")
		err := g.Build(func() {
			got := op.Input(g, "got", ir.TypeOf(dtype.F32, h, w, 3))
			p := pictures{got: got, target: op.Input(g, "target", ir.TypeOf(dtype.F32, h, w, 3)),
				weight: op.Const(g, 1, ir.TypeOf(dtype.F32, h, w, 1))}
			loss := p.loss(c.Share)
			g.Return("mse", p.squares())
			g.Return("loss", loss)
			d, err := grad.Of(loss, got)
			if err != nil {
				t.Fatal(err)
			}
			g.Return("gradient", d[0])
		})
		if err != nil {
			t.Fatal(err)
		}
		array := func(x []float64) *tensor.Array {
			return &tensor.Array{DType: dtype.F32, Shape: []int{c.Height, c.Width, 3}, Floats: x}
		}
		out, err := interp.Run(g, nil, map[string]*tensor.Array{"got": array(c.Got), "target": array(c.Target)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, got, want float64) {
			if !(math.Abs(got-want) <= 1e-5*max(math.Abs(want), 1e-2)) {
				t.Errorf("%d x %d, share %v: %s is %v; want %v", c.Height, c.Width, c.Share, what, got, want)
			}
		}
		near("the loss", out["loss"].Floats[0], c.Loss)
		near("the squared error", out["mse"].Floats[0], c.MSE)
		for i, want := range c.Gradient {
			near("a gradient", out["gradient"].Floats[i], want)
		}
	}
}

// TestScreen checks that black pixels have a finite gradient.
func TestScreen(t *testing.T) {
	g := ir.NewGraph("screen")
	err := g.Build(func() {
		x := op.Input(g, "x", ir.TypeOf(dtype.F32, 4))
		y := screen(x)
		d, err := grad.Of(mean(y), x)
		if err != nil {
			t.Fatal(err)
		}
		g.Return("y", y)
		g.Return("d", d[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	in := []float64{0, 1e-20, 0.25, 1}
	out, err := interp.Run(g, nil, map[string]*tensor.Array{"x": {DType: dtype.F32, Shape: []int{4}, Floats: in}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range in {
		y, d := out["y"].Floats[i], out["d"].Floats[i]
		want, slope := math.Pow(max(x, darkest), 1/2.2), 0.0
		if x > darkest {
			slope = want / (4 * 2.2 * x)
		}
		if math.Abs(y-want) > 1e-6 || !(math.Abs(d-slope) <= 1e-6) {
			t.Errorf("%v becomes %v with slope %v; want %v and %v", x, y, d, want, slope)
		}
	}
}

func TestParseFit(t *testing.T) {
	for mode, want := range map[string]Fit{"splats": {Degree: -1, DSSIM: 0.2},
		"splats=5": {Splats: 5, Degree: -1, DSSIM: 0.2}, "splats=7,degree=2,dssim=0": {Splats: 7, Degree: 2},
		"splats,dssim=1": {Degree: -1, DSSIM: 1}, "splats=7,begin=7": {Splats: 7, Begin: 7, Degree: -1, DSSIM: 0.2},
		"splats=9,begin=1,degree=0": {Splats: 9, Begin: 1, DSSIM: 0.2}} {
		if f, err := ParseFit(mode); err != nil || f != want {
			t.Errorf("%s: %+v, %v; want %+v", mode, f, err, want)
		}
	}
	for mode, want := range map[string]string{"": "takes splats=N", "splats=0": "is not a number of splats",
		"splats=x": "is not a number", "degree=1": "takes splats=N", "splats,degree=4": "allowed are 0 to 3",
		"splats,dssim=NaN": "allowed are 0 to 1", "splats,splats": "once", "splats,points=3": `"points=3" is unknown`,
		"splats,begin=1": "begin is", "splats=5,begin=6": "allowed are 1 to N", "splats=5,begin=0": "allowed are 1 to N",
		"splats=99999999": "is not a number of splats", "decoder": "takes splats=N"} {
		if _, err := ParseFit(mode); err == nil || !errors.Is(err, diag.Usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v; want %q", mode, err, want)
		}
	}
}
