// Package tensortest compares tensors with goldens. It is for tests and for bench/tcmp.
package tensortest

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/npy"
	"github.com/rlx-go/rlx/models/weights"
)

// Diff is the difference between a tensor and its golden.
type Diff struct {
	Max   float64 // largest absolute difference divided by the golden's largest absolute value
	L2    float64 // relative L2 error
	Worst int     // index of the element with the largest difference
}

func (d Diff) String() string { return fmt.Sprintf("max %.3g l2 %.3g", d.Max, d.L2) }

// Within reports whether the difference is at most tol. It never is if either tensor has a NaN.
func (d Diff) Within(tol float64) bool { return d.Max <= tol }

// Compare compares got with want. Leading dims of 1 are ignored; otherwise shapes must be equal. A NaN on either side
// makes Max infinite, and so does an infinity unless both sides have the same one.
func Compare(got, want *tensor.Array) (Diff, error) {
	if !slices.Equal(squeeze(got.Shape), squeeze(want.Shape)) {
		return Diff{}, fmt.Errorf("shape %v, golden %v", got.Shape, want.Shape)
	}
	if got.Len() != want.Len() {
		return Diff{}, fmt.Errorf("%d elements, golden %d", got.Len(), want.Len())
	}
	var diff Diff
	var worst, peak, num, den float64
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		d := math.Abs(g - w)
		if g == w {
			d = 0 // equal infinities
		} else if math.IsNaN(d) {
			d = math.Inf(1)
		}
		if d > worst {
			worst, diff.Worst = d, i
		}
		if !math.IsInf(w, 0) {
			peak, den = max(peak, math.Abs(w)), den+w*w
		}
		num += d * d
	}
	diff.Max, diff.L2 = worst/max(peak, 1e-30), math.Sqrt(num/max(den, 1e-300))
	if math.IsNaN(diff.Max) {
		diff.Max = math.Inf(1)
	}
	return diff, nil
}

func squeeze(shape []int) []int {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return shape
}

// Load reads x.npy or x.safetensors:NAME. NAME may be omitted if the file has one tensor.
func Load(arg string) (*tensor.Array, error) {
	path, name, named := strings.Cut(arg, ":")
	if strings.HasSuffix(path, ".npy") && !named {
		t, err := npy.ReadFile(context.Background(), path, nil)
		if err != nil {
			return nil, err
		}
		return t.Array(), nil
	}
	c, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if names := c.Names(); !named && len(names) == 1 {
		name = names[0]
	}
	r, err := c.Open(name)
	if err != nil {
		return nil, err
	}
	info, _ := c.Info(name)
	t := tensor.Tensor{DType: info.DType, Data: make([]byte, info.Size)}
	if info.DType.Size() == 0 {
		return nil, fmt.Errorf("%s: tensor %q: element type %s cannot be compared", path, name, info.Stored)
	}
	for _, d := range info.Shape {
		t.Shape = append(t.Shape, int(d))
	}
	if _, err := io.ReadFull(r, t.Data); err != nil {
		return nil, err
	}
	return t.Array(), nil
}

// Golden is Load for tests: it fails the test on an error.
func Golden(tb testing.TB, arg string) *tensor.Array {
	tb.Helper()
	a, err := Load(arg)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// F32 returns float32 values as an array.
func F32(shape []int, data []float32) *tensor.Array {
	a := &tensor.Array{DType: dtype.F32, Shape: shape, Floats: make([]float64, len(data))}
	for i, v := range data {
		a.Floats[i] = float64(v)
	}
	return a
}

// Near fails the test unless got is within tol of want. Otherwise it logs the difference.
func Near(tb testing.TB, what string, got, want *tensor.Array, tol float64) {
	tb.Helper()
	d, err := Compare(got, want)
	switch {
	case err != nil:
		tb.Errorf("%s: %v", what, err)
	case !d.Within(tol):
		tb.Errorf("%s: %v, worst at element %d (%v, golden %v); allowed is max %g", what, d, d.Worst, got.At(d.Worst),
			want.At(d.Worst), tol)
	default:
		tb.Logf("%s: %v", what, d)
	}
}
