package devicetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// sized are ops on operands that have the symbol S as a size. sums marks those that add or multiply floats.
var sized = []struct {
	name, line string
	sums       bool
}{
	{"neg", "neg x : f32[6,S]", false},
	{"exp", "exp t : f32[S,6]", false},
	{"add", "add t, r : f32[S,6]", false},
	{"transpose", "transpose x {perm=[1,0]} : f32[S,6]", false},
	{"concat", "concat x, x {axis=1} : f32[6,2*S]", false},
	{"gather", "gather t, i {axis=0} : f32[S,6]", false},
	{"reduce_max", "reduce_max x {axes=[1]} : f32[6]", false},
	{"reduce_min", "reduce_min t {axes=[0]} : f32[6]", false},
	{"argmax", "argmax x {axis=1} : i32[6]", false},
	{"cummax", "cummax x {axis=1} : f32[6,S]", false},
	{"sort", "sort x {axis=1} : f32[6,S], i32[6,S]", false},
	{"reduce_sum_i32", "reduce_sum i {axes=[0]} : i32[]", false},
	{"cumsum_i32", "cumsum i {axis=0} : i32[S]", false},
	{"softmax", "softmax x {axis=1} : f32[6,S]", true},
	{"softmax_outer", "softmax t {axis=0} : f32[S,6]", true},
	{"log_softmax", "log_softmax x {axis=1} : f32[6,S]", true},
	{"logsumexp", "logsumexp x {axes=[1]} : f32[6]", true},
	{"cumsum", "cumsum x {axis=1} : f32[6,S]", true},
	{"cumprod", "cumprod t {axis=0} : f32[S,6]", true},
	{"reduce_sum", "reduce_sum x {axes=[1]} : f32[6]", true},
	{"reduce_mean", "reduce_mean x {axes=[1]} : f32[6]", true},
	{"reduce_mean_outer", "reduce_mean t {axes=[0]} : f32[6]", true},
	{"l2_norm", "l2_norm x {axes=[1], eps=1e-12} : f32[6,S]", true},
	{"matmul_k", "matmul x, t : f32[6,6]", true},
	{"matmul_rows", "matmul t, w : f32[S,96]", true},
	{"layer_norm", "layer_norm t, r, r {eps=1e-05} : f32[S,6]", true},
	{"attention", "attention q, q, q {heads=2, kv_heads=2, layout=\"bhsd\", mask=\"none\", scale=0.5} : f32[1,2,S,8]", true},
}

// sizedGraph returns a graph of ops of sized, with S from 1 to bound.
func sizedGraph(bound int64, names map[string]bool) (*ir.Graph, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "graph sized\nsym S = 1..%d\nx = input : f32[6,S]\nt = input : f32[S,6]\ni = input : i32[S]\n"+
		"q = input : f32[1,2,S,8]\nr = input : f32[6]\nw = input : f32[6,96]\n", bound)
	var out []string
	for _, c := range sized {
		if names[c.name] {
			label := "%" + c.name
			out = append(out, c.name+"="+label)
			if strings.Contains(c.line, "], i32") {
				label += ", %" + c.name + "_2" // an op of two results
			}
			fmt.Fprintf(&b, "%s = %s\n", label, c.line)
		}
	}
	return ir.Parse(b.String() + "return " + strings.Join(out, ", ") + "\n")
}

// sizedClaimed returns the names of sized that the backend claims.
func (s *suite) sizedClaimed() (map[string]bool, error) {
	out := map[string]bool{}
	for _, c := range sized {
		g, err := sizedGraph(8, map[string]bool{c.name: true})
		if err != nil {
			return nil, fmt.Errorf("BUG: devicetest: %s: %w", c.name, err)
		}
		if s.lacks(g) == "" {
			out[c.name] = true
		}
	}
	return out, nil
}

// checkBounds runs the ops of sized at static sizes, and at the same sizes below several bounds. Each result must be
// that of its op's definition. Results of ops that do not sum floats must have the same bits in both programs.
func (s *suite) checkBounds() error {
	names, err := s.sizedClaimed()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return skipped("the description takes none of the ops")
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return !s.chosen.takes("bounds/" + name) })
	if len(names) == 0 {
		return nil // the sample has none
	}
	_, err = s.bounds(names, map[int64][]int64{37: {40}, 40: {1000}, 5: {4097}},
		func(sums bool) bool { return !sums })
	return err
}

// Bounds checks that a program for sizes from 1 to a bound gives the bits of a program for one size, whatever the bound
// and its residues. Not all backends promise this for ops that sum floats; see spec/ops.md.
func Bounds(t *testing.T, b device.Backend) {
	info, err := b.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s := newSuite(b, info)
	names, err := s.sizedClaimed()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range sized {
		if !names[c.name] {
			t.Logf("%s is not claimed", c.name)
		}
	}
	sizes := map[int64][]int64{1: {2, 40}, 5: {8, 4097}, 31: {32}, 32: {33, 64}, 33: {34, 40}, 37: {40, 1000},
		40: {41, 64, 1000, 4097}, 64: {65, 128}, 100: {128, 1000}, 129: {4097}}
	if _, err := s.bounds(names, sizes, func(bool) bool { return true }); err != nil {
		t.Error(err)
	}
}

// bounds runs ops at sizes, the keys of sizes, in programs for that size alone and in programs for bounds. It returns
// an error if an op for which exact returns true gives other bits, and the names of all ops that do.
func (s *suite) bounds(names map[string]bool, sizes map[int64][]int64, exact func(sums bool) bool) (
	differ map[string]bool, err error) {
	differ = map[string]bool{}
	for n, bounds := range sizes {
		syms := map[string]int64{"S": n}
		inputs, want := values{}, map[string]tensor.Tensor{}
		for _, bound := range append([]int64{0}, bounds...) { // 0 stands for the program with a static size
			g, err := sizedGraph(max(bound, n), names)
			if err == nil && bound == 0 {
				g, err = g.Fix(syms)
			}
			if err != nil {
				return nil, fmt.Errorf("BUG: devicetest: %w", err)
			}
			rng := rand.New(rand.NewPCG(uint64(n), 9))
			for _, x := range g.Inputs() {
				inputs[x.Name] = operand(rng, x.Type, syms, false)
				if x.Name == "i" {
					for k := range inputs["i"].Ints {
						inputs["i"].Ints[k] %= n // an index
					}
				}
			}
			at := syms
			if bound == 0 {
				at = nil
			}
			err = s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
				got, err := r.stepwise(at, inputs, nil)
				if err != nil {
					return err
				}
				if bound == 0 {
					want = got
				}
				for _, c := range sized {
					if names[c.name] && !bytes.Equal(got[c.name].Data, want[c.name].Data) {
						differ[c.name] = true
						if exact(c.sums) {
							return fmt.Errorf("%s has other bits than in a program for size %d only", c.name, n)
						}
					}
				}
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("size %d of at most %d: %w", n, max(bound, n), err)
			}
		}
	}
	return differ, nil
}
