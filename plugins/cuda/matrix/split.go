package matrix

import (
	_ "embed"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// A product with a few hundred rows has fewer tiles than a large GPU has processors. Then K is divided (split-K): each
// block sums over a part of K, as if the parts were products of their own, and another shader adds these sums.

//go:embed product_sum.wgsl
var productSumWGSL string

// plan is how products with from to to rows are computed.
type plan struct {
	Tile
	splits   int // parts into which K is divided; 1 if it is not
	from, to int
}

// takes reports whether a call is computed so.
func (p plan) takes(s kernels.ProductSizes) bool { return p.from <= s.M && s.M <= p.to }

const (
	// numbers of rows up to which products have plans of their own, if the number is known only at run time
	leastRows, fewRows = 64, 1024
	usualRows          = 512 // for which the second is made
	mostSplits         = 8
	// Estimates in seconds: of the second shader, and of each byte of the sums, which is written and read.
	sumTime, sumByteTime = 2e-6, 1 / 4e12
	splitGain            = 0.9 // dividing K must save a tenth of the time
)

// RowBounds returns the numbers of rows between which products have other plans.
func RowBounds(d Device) []int {
	if d.tiles() == nil {
		return nil
	}
	return []int{leastRows, fewRows}
}

// plans returns the plans for all numbers of rows.
func (p product) plans(most kernels.ProductSizes) []plan {
	rows := p.node.Type.Shape[p.node.Type.Rank()-2]
	if most.M <= fewRows || rows.IsStatic() {
		return []plan{p.planFor(most, most.M, 0, most.M)}
	}
	least, list := 0, []plan(nil)
	for _, r := range []struct{ rows, to int }{{leastRows, leastRows}, {usualRows, fewRows}, {most.M, most.M}} {
		l := p.planFor(most, r.rows, least, r.to)
		if k := len(list) - 1; k >= 0 && list[k].Tile == l.Tile && list[k].splits == 1 && l.splits == 1 {
			list[k].to = l.to
		} else {
			list = append(list, l)
		}
		least = r.to + 1
	}
	return list
}

// planFor returns the plan that is best for m rows.
func (p product) planFor(most kernels.ProductSizes, m, from, to int) plan {
	tile, time := p.choose(m, most.N, p.halves(most.K), most.Count)
	best := plan{tile, 1, from, to}
	if !p.divisible(most) {
		return best
	}
	parts := p.halves(most.K) / depth
	if s := p.device.Splits; s > 0 && parts%s == 0 {
		best.splits = s
		return best
	}
	seconds := func(time float64, k int) float64 {
		return 2e-12 * time * float64(k*max(1, passes(p.terms()))) * float64(p.device.Processors)
	}
	least := splitGain * seconds(time, parts*depth)
	for s := 2; s <= mostSplits; s++ {
		if parts%s != 0 || parts/s < 4 {
			continue
		}
		tile, time := p.choose(m, most.N, parts/s*depth, s)
		took := seconds(time, parts/s*depth) + sumTime + 8*float64(s*m*most.N)*sumByteTime
		if took < least {
			best.Tile, best.splits, least = tile, s, took
		}
	}
	return best
}

// choose returns the best tile for count products with K of k, and its time, see Device.choose.
func (p product) choose(m, n, k, count int) (Tile, float64) {
	if p.exact {
		return p.device.choose(p.device.TermTiles(), m, n, count)
	}
	if t := p.device.Tile; t != nil && t.PingPong {
		return *t, 0
	}
	list := p.device.tiles()
	if m <= leastRows {
		list = append(list, p.device.fewRowTiles()...)
	}
	best, least := p.device.choose(list, m, n, count)
	if p.typ == dtype.F32 || k > mostTurns {
		return best, least
	}
	for _, t := range p.device.turnTiles() {
		if t.groups(m, n, count) <= p.device.Processors {
			continue
		}
		if _, took := p.device.choose([]Tile{t}, m, n, count); took < least*(1+lostDepth/float64(k)) {
			best, least = t, took/(1+lostDepth/float64(k))
		}
	}
	return best, least
}

// divisible reports whether the K of the product may be divided.
func (p product) divisible(most kernels.ProductSizes) bool {
	columns := p.node.Type.Shape[p.node.Type.Rank()-1]
	k := p.node.In[0].Type.Shape[p.node.In[0].Type.Rank()-1]
	if p.TransA {
		k = p.node.In[0].Type.Shape[p.node.In[0].Type.Rank()-2]
	}
	for _, i := range []int{p.Bias, p.Residual} {
		if i >= 0 && !kernels.BeginsAt(p.node.In[i], 16) {
			return false
		}
	}
	return most.Count == 1 && k.IsStatic() && columns.IsStatic() && columns.Const%4 == 0 &&
		kernels.BeginsAt(p.node, 16)
}

// sumBytes returns the scratch memory for sums over parts of K.
func (p product) sumBytes(most kernels.ProductSizes) (n int64) {
	for _, l := range p.list {
		if l.splits > 1 {
			n = max(n, 4*int64(l.splits)*int64(l.to)*int64(most.N))
		}
	}
	if p.direct.rows > 0 {
		n = max(n, p.direct.scratch(min(p.direct.most, most.M), most.N))
	}
	return n
}

// divided returns the shaders of a product whose K is divided: s, made for a whole product, and the one that adds.
func (p product) divided(l plan, s kernels.Shader, x productText) []kernels.Shader {
	sum := kernels.Shader{
		Name: "sum of parts", Body: productSumWGSL,
		Consts: struct {
			Splits         int
			Act            string
			Bias, Residual bool
			Rounded, Only  bool
		}{l.splits, x.Act, x.Bias, x.Residual, x.Rounded, x.Only},
		Bindings: []kernels.Binding{{Name: "part", Operand: kernels.Scratch, Vec: 4, DType: dtype.F32}},
		Fields:   []string{"quads", "columns", "begin"},
		Params: func(c *kernels.Call) []uint32 {
			s := p.Sizes(c)
			if s.M*s.N == 0 || !l.takes(s) {
				return nil
			}
			return []uint32{uint32(s.M * s.N / 4), uint32(s.N / 4), uint32(p.sums / 16)}
		},
		Groups: func(c *kernels.Call) int {
			s := p.Sizes(c)
			return ceilDiv(s.M*s.N, 4*256)
		},
	}
	for _, b := range s.Bindings[2:] {
		b.Vec = 4
		sum.Bindings = append(sum.Bindings, b)
	}
	y := kernels.Binding{Name: "y", Operand: kernels.Scratch, DType: dtype.U32}
	x.Act, x.Bias, x.Residual, x.Rounded, x.Only, x.Pairs, x.Fours = "", false, false, false, false, true, true
	s.Bindings = append(slices.Clone(s.Bindings[:2]), y)
	s.Consts, s.Source = x, x.source(s.Bindings)
	return []kernels.Shader{s, sum}
}
