package op

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/random"
	"github.com/rlx-go/rlx/core/tensor"
)

// SampleAttrs are the attributes of sample.
type SampleAttrs struct {
	// Alone draws each row as if it were the only one. Rows with the same seed and step then have the same random
	// numbers.
	Alone bool `attr:"alone"`
}

// SampleDef draws a token for each row of logits.
var SampleDef = ir.Define(ir.Def[SampleAttrs]{
	Name: "sample",
	Doc: "An index for each row of logits [..., V], drawn by its probability, as i32[...]. The other operands belong to a run and hold one value, or one for each row: " +
		"temperature T (f32), top_k (i32, 0 to V, 0 is off), top_p (f32, 0 to 1, 1 is off), seed and step (u32[..., 2], 64 bits each, the low word first). " +
		"T <= 0 gives the largest logit. Otherwise the top_k largest logits survive, equal ones in the order of their indices; then of these, with p the softmax of logits / T over them, " +
		"the most probable up to the one with which their sum reaches top_p, and at least one; and of these, if there is a min_p (f32, 0 to 1, 0 is off), those with at least min_p times the " +
		"largest probability. " +
		"The largest of logits / T + g wins, the first of equal ones (Gumbel-max): g = -ln(-ln(max(u, 1e-30))), u the upper 24 bits of the first word of threefry2x32-20 " +
		"(Salmon and others, 2011) with counter (row, index) and key threefry2x32-20(counter step, key seed); with alone, row is 0 for all rows. NaN never survives; a row of NaN only is a run error, and so are a top_k, top_p or min_p " +
		"outside its range and a temperature that is not finite. +Inf has all of the probability, and of -Inf only the first has. " +
		"Devices agree but where two sums of logits / T + g, or a sum of probabilities and top_p, differ by less than a rounding of f32.",
	Operands: "logits, temperature, top_k, top_p, seed, step, min_p?",
	Checked:  []ir.Checked{{Operand: 0, Safe: 0}, {Operand: 1, Safe: 0}, {Operand: 2, Safe: 0}, {Operand: 3, Safe: 1}, {Operand: 6, Safe: 0}},
	Infer: func(s ir.Sig[SampleAttrs]) (ir.Type, error) {
		x := s.In[0]
		if err := isFloat("logits", x); err != nil {
			return ir.Type{}, err
		}
		if x.Rank() == 0 {
			return ir.Type{}, fmt.Errorf("logits are %v; want rank 1 or more", x)
		}
		least, _ := s.Syms.Bounds(x.Shape[x.Rank()-1])
		if least < 1 {
			return ir.Type{}, fmt.Errorf("logits are %v, in rows of %d or more; want 1 or more", x, least)
		}
		rows := x.Shape[:x.Rank()-1]
		for i, p := range sampleOperands {
			got, pair := s.In[i+1], ir.Shape{ir.Static(2)}
			if !got.Present() {
				continue
			}
			one, each := ir.Type{DType: p.dtype, Shape: ir.Shape{}}, ir.Type{DType: p.dtype, Shape: rows}
			if p.pair {
				one.Shape, each.Shape = pair, slices.Concat(rows, pair)
			}
			if !got.Equal(one) && !got.Equal(each) {
				return ir.Type{}, ir.TypesDiffer(got, each, "%s is %v; want %v or %v", p.name, got, one, each)
			}
		}
		return ir.Type{DType: dtype.I32, Shape: rows}, checkIndex(dtype.I32, x, x.Rank()-1, s.Syms)
	},
	Eval: func(a SampleAttrs, in []*tensor.Array, out *tensor.Array) error {
		n := in[0].Shape[len(in[0].Shape)-1]
		left := make([]int, n)
		for row := range out.Ints {
			token, err := sampleRow(a, in[0].Floats[row*n:][:n], row, in[1:], left[:0])
			if err != nil {
				return err
			}
			out.Ints[row] = int64(token)
		}
		return nil
	},
	Memory: func(s ir.Sig[SampleAttrs], _ ir.Type) int64 {
		_, n := s.Syms.Bounds(s.In[0].Shape[s.In[0].Rank()-1])
		return 8 * n
	},
	FLOPs: func(_ SampleAttrs, in []ir.Type, _ ir.Type) int64 { return 100 * numel(in[0]) },
	Tol:   exact[SampleAttrs],
	Cases: sampleCases,
})

// SampleMinP is the index of the optional operand of sample.
const SampleMinP = 6

// sampleOperands are the operands of sample after the logits.
var sampleOperands = []struct {
	name  string
	dtype dtype.DType
	pair  bool
}{{"temperature", dtype.F32, false}, {"top_k", dtype.I32, false}, {"top_p", dtype.F32, false},
	{"seed", dtype.U32, true}, {"step", dtype.U32, true}, {"min_p", dtype.F32, false}}

// sampleRow draws from one row. left is an empty slice with room for its indices.
func sampleRow(a SampleAttrs, x []float64, row int, params []*tensor.Array, left []int) (int, error) {
	o, err := sampleParams(len(x), row, params)
	if err != nil {
		return 0, err
	}
	for i, v := range x {
		if !math.IsNaN(v) {
			left = append(left, i)
		}
	}
	if len(left) == 0 {
		return 0, fmt.Errorf("row %d of the logits is NaN only; want a number", row)
	}
	if o.temperature > 0 && (o.topK > 0 || o.topP < 1 || o.minP > 0) {
		slices.SortFunc(left, func(i, j int) int { return cmp.Or(cmp.Compare(x[j], x[i]), i-j) })
	} else { // the order of the others does not matter
		most := 0
		for k, i := range left {
			if x[i] > x[left[most]] {
				most = k
			}
		}
		left[0], left[most] = left[most], left[0]
	}
	if o.temperature <= 0 {
		return left[0], nil
	}
	// below returns the scaled logit of i minus the largest one. Subtracting the same number from all logits changes
	// neither the softmax nor the index of the largest sum, and exp cannot overflow.
	largest := x[left[0]]
	below := func(i int) float64 {
		if x[i] == largest {
			return 0
		}
		return (x[i] - largest) / o.temperature
	}
	left = o.likely(left, below)
	best, token := math.Inf(-1), -1
	counter := uint32(row)
	if a.Alone {
		counter = 0
	}
	for _, i := range left {
		v := below(i) + random.Gumbel(random.Threefry([2]uint32{counter, uint32(i)}, o.key)[0])
		if token < 0 || v > best || v == best && i < token {
			best, token = v, i
		}
	}
	return token, nil
}

// sampleOptions are the operands of a row but for its logits.
type sampleOptions struct {
	temperature, topP, minP float64
	topK                    int
	key                     [2]uint32 // for random.Threefry
}

// sampleParams reads the operands for a row with n logits. Each operand has one value for all rows, or one per row.
func sampleParams(n, row int, params []*tensor.Array) (o sampleOptions, err error) {
	at := func(k int) int {
		if params[k].Len() == 1 {
			return 0
		}
		return row
	}
	pair := func(k int) [2]uint32 {
		w := params[k].Ints
		if len(w) > 2 {
			w = w[2*row:]
		}
		return [2]uint32{uint32(w[0]), uint32(w[1])}
	}
	t, k, p := params[0].Floats[at(0)], params[1].Ints[at(1)], params[2].Floats[at(2)]
	switch {
	case math.IsNaN(t) || math.IsInf(t, 0):
		return o, fmt.Errorf("temperature of row %d is %v; want a finite number", row, t)
	case k < 0 || k > int64(n):
		return o, fmt.Errorf("top_k of row %d is %d; want 0 to %d", row, k, n)
	case !(p >= 0 && p <= 1):
		return o, fmt.Errorf("top_p of row %d is %v; want 0 to 1", row, p)
	}
	o = sampleOptions{temperature: t, topK: int(k), topP: p, key: random.Threefry(pair(4), pair(3))}
	if params[5] != nil {
		if o.minP = params[5].Floats[at(5)]; !(o.minP >= 0 && o.minP <= 1) {
			return o, fmt.Errorf("min_p of row %d is %v; want 0 to 1", row, o.minP)
		}
	}
	return o, nil
}

// likely returns the indices, which are ordered from the largest logit to the smallest, that top_k, top_p and min_p
// leave. below returns the scaled logit of an index minus the largest one.
func (o sampleOptions) likely(left []int, below func(int) float64) []int {
	if o.topK > 0 {
		left = left[:min(len(left), o.topK)]
	}
	if o.topP < 1 {
		total, sum := 0.0, 0.0
		for _, i := range left {
			total += math.Exp(below(i))
		}
		for j, i := range left {
			if sum += math.Exp(below(i)); sum >= o.topP*total {
				left = left[:j+1]
				break
			}
		}
	}
	if o.minP > 0 {
		least := math.Log(o.minP)
		left = slices.DeleteFunc(left, func(i int) bool { return below(i) < least })
	}
	return left
}

func sampleCases() []ir.Case[SampleAttrs] {
	words := ir.Range{Lo: 0, Hi: 1<<32 - 1}
	c := func(x ir.Type, t, k, p ir.Range, each bool, minP ...ir.Range) ir.Case[SampleAttrs] {
		in, lead := []ir.Type{x}, x.Shape[:x.Rank()-1]
		for _, o := range sampleOperands[:5+len(minP)] {
			typ := ir.Type{DType: o.dtype, Shape: ir.Shape{}}
			if each {
				typ.Shape = lead
			}
			if o.pair {
				typ.Shape = slices.Concat(typ.Shape, ir.ShapeOf(2))
			}
			in = append(in, typ)
		}
		return ir.Case[SampleAttrs]{In: in, Fill: append([]ir.Range{{Lo: -4, Hi: 4}, t, k, p, words, words}, minP...)}
	}
	one := ir.Range{Lo: 1, Hi: 1}
	var off ir.Range
	alone := c(f32(3, 500), one, off, one, true, off)
	alone.Attrs.Alone = true
	return []ir.Case[SampleAttrs]{
		alone,
		c(f32(1), one, off, one, false), c(f32(3, 7), one, off, one, false), c(f32(3, 7), off, off, one, false),
		c(f32(5, 33), ir.Range{Lo: 0.5, Hi: 2}, ir.Range{Lo: 0, Hi: 33}, one, true),
		c(f32(5, 33), one, off, ir.Range{Lo: 0, Hi: 1}, true),
		c(f32(2, 3, 300), one, ir.Range{Lo: 1, Hi: 50}, ir.Range{Lo: 0.2, Hi: 1}, true),
		c(f32(0, 5), one, off, one, true),
		c(f32(2, 5000), one, ir.Range{Lo: 40, Hi: 40}, ir.Range{Lo: 0.9, Hi: 0.9}, false),
		c(f32(2, 5000), ir.Range{Lo: 0.1, Hi: 0.3}, off, ir.Range{Lo: 0.3, Hi: 0.99}, true),
		c(f32(3, 1), one, ir.Range{Lo: 1, Hi: 1}, off, false), c(f16(3, 40), one, ir.Range{Lo: 5, Hi: 9}, one, true),
		c(bf16(3, 41), one, off, ir.Range{Lo: 0.5, Hi: 0.9}, true), c(f64(3, 20), one, off, one, false),
		c(f32(5, 33), one, off, one, true, ir.Range{Lo: 0.1, Hi: 0.5}),
		c(f32(4, 300), ir.Range{Lo: 0.5, Hi: 2}, ir.Range{Lo: 5, Hi: 100}, ir.Range{Lo: 0.5, Hi: 1}, true,
			ir.Range{Lo: 0, Hi: 0.2}),
		c(f32(2, 20000), one, off, one, false, ir.Range{Lo: 0.3, Hi: 0.3}),
		c(f16(3, 40), one, off, one, true, ir.Range{Lo: 0.2, Hi: 1}), c(f32(3, 7), off, off, one, false, one),
	}
}

// Sample adds an index for each row of logits, drawn by its probability. temperature (f32), topK (i32), topP (f32),
// seed and step (pairs of u32, the low word first) and minP (f32) have one value, or one for each row. minP may be nil.
func Sample(logits, temperature, topK, topP, seed, step, minP *ir.Node, attrs SampleAttrs) *ir.Node {
	return logits.Graph.Add(SampleDef, attrs, logits, temperature, topK, topP, seed, step, minP)
}
