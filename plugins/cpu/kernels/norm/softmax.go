package norm

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// SoftmaxArgs are the arguments of Softmax, along the middle axis of [Outer, N, Inner]. Dst may be X.
type SoftmaxArgs struct {
	Dst, X          stored.Values
	Outer, N, Inner int
	Log             bool
}

// Softmax computes exp(x-max)/sum(exp(x-max)) or, if Log is set, x-max-log(sum(exp(x-max))). A row of -Inf only gives
// NaN.
func Softmax(p *pool.Pool, g SoftmaxArgs) {
	if n := g.Outer * g.N * g.Inner; g.Dst.Len() < n || g.X.Len() < n {
		panic("BUG: Softmax: a slice is short")
	}
	if g.N == 0 || g.Inner == 0 {
		return
	}
	if g.Inner == 1 {
		if g.long(p) {
			softmaxLong(p, g)
			return
		}
		if g.short(p.Set) {
			pool.Split(p, g.Outer, softmaxWidth*pool.RowGrain(4*g.N*softmaxWidth), softmaxShort{g, p})
			return
		}
		pool.Split(p, g.Outer, pool.RowGrain(4*g.N), softmaxRows{g, p})
		return
	}
	pool.Split(p, g.Outer*g.strips(), pool.RowGrain(4*g.N*softmaxWidth), softmaxColumns{g, p})
}

// ScratchSize returns what Softmax needs. It reads only the sizes and the type of X.
func (g SoftmaxArgs) ScratchSize() pool.Size {
	var short int64
	if g.Inner == 1 && g.N <= shortSoftmax {
		short = g.shortScratch()
	}
	switch {
	case g.X.Kind == dtype.F32:
		return pool.Size{Worker: short,
			Shared: pool.FloatBytes(pool.CeilDiv(g.N, softmaxChunk), g.N/reduce.Block+1)}
	case g.Inner == 1:
		return pool.Size{Worker: max(short, pool.FloatBytes(g.N, elementwise.Spread, elementwise.Spread))}
	}
	return pool.Size{Worker: pool.FloatBytes(g.N*softmaxWidth, softmaxWidth, softmaxWidth, softmaxWidth)}
}

func (g SoftmaxArgs) strips() int { return (g.Inner + softmaxWidth - 1) / softmaxWidth }

type softmaxRows struct {
	SoftmaxArgs
	p *pool.Pool
}

func (g *softmaxRows) Do(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.Scratch(worker)
	spreads, temporary := sc.Floats(elementwise.Spread), sc.Floats(elementwise.Spread)
	buf := g.X.Buffer(sc, g.N)
	for r := lo; r < hi; r++ {
		d, x := g.Dst.Room(r*g.N, g.N, buf), g.X.Row(s, r*g.N, g.N, buf)
		if reduce.On(s).Softmax != nil {
			reduce.On(s).Softmax.Row(s, d, x, g.Log)
		} else {
			softmaxRowByParts(s, d, x, g.Log, spreads, temporary)
		}
		g.Dst.Put(s, r*g.N, d)
	}
}

// softmaxColumns goes down strips of columns.
type softmaxColumns struct {
	SoftmaxArgs
	p *pool.Pool
}

const softmaxWidth = 128 // columns of a strip

func (g *softmaxColumns) Do(lo, hi, worker int) {
	var sum [softmaxWidth]float64
	s, sc, n := g.p.Set, g.p.Scratch(worker), g.N
	most, temporary, part := sc.Floats(softmaxWidth), sc.Floats(softmaxWidth), sc.Floats(softmaxWidth)
	block := g.X.Buffer(sc, n*softmaxWidth)
	for t := lo; t < hi; t++ {
		strip := t % g.strips() * softmaxWidth
		at, w := t/g.strips()*n*g.Inner+strip, min(softmaxWidth, g.Inner-strip)
		top, exp := most[:w], temporary[:w]
		row := func(j int) (x, d []float32) { // row j of the operand, and memory for its result
			if block == nil {
				return g.X.Floats[at+j*g.Inner:][:w], g.Dst.Floats[at+j*g.Inner:][:w]
			}
			return block[j*w:][:w], block[j*w:][:w]
		}
		for j := 0; block != nil && j < n; j++ {
			g.X.Row(s, at+j*g.Inner, w, block[j*w:])
		}
		if reduce.On(s).Softmax != nil {
			x, d, ld := block, block, w
			if block == nil {
				x, d, ld = g.X.Floats[at:], g.Dst.Floats[at:], g.Inner
			}
			reduce.On(s).Softmax.Columns(s, d, x, n, ld, g.Log, top, part[:w], exp, sum[:w])
			for j := 0; block != nil && j < n; j++ {
				g.Dst.Put(s, at+j*g.Inner, block[j*w:][:w])
			}
			continue
		}
		for j := range n {
			if x, _ := row(j); j == 0 {
				copy(top, x)
			} else {
				elementwise.On(s).Binary[elementwise.Max](top, top, x)
			}
		}
		clear(sum[:])
		clear(part)
		for j := range n {
			x, d := row(j)
			elementwise.On(s).Binary[elementwise.Sub](d, x, top)
			e := d
			if g.Log {
				e = exp
			}
			elementwise.Apply(s, elementwise.Exp, e, d)
			elementwise.On(s).Binary[elementwise.Add](part[:w], part[:w], e)
			if j%reduce.Rows == reduce.Rows-1 || j == n-1 {
				for i, v := range part[:w] {
					sum[i] += float64(v)
				}
				clear(part)
			}
		}
		f := elementwise.Div
		for i, v := range sum[:w] {
			exp[i] = float32(v)
			if g.Log {
				f, exp[i] = elementwise.Sub, float32(math.Log(v))
			}
		}
		for j := range n {
			_, d := row(j)
			elementwise.On(s).Binary[f](d, d, exp)
			g.Dst.Put(s, at+j*g.Inner, d)
		}
	}
}

// softmaxRowByParts is for sets without reduce.softmaxRoutines. buf and temporary have spread elements.
func softmaxRowByParts(s *isa.Set, dst, x []float32, log bool, buf, temporary []float32) {
	nr := s.Lanes
	whole := len(x) / nr * nr
	copy(dst, x)
	tops := elementwise.SpreadTo(buf, float32(math.Inf(-1)), nr)
	On(s).Narrow.ScoreMax(dst[:whole], 1, tops)
	top := tops[0]
	for _, v := range tops {
		Raise(&top, v)
	}
	for _, v := range x[whole:] {
		Raise(&top, v)
	}
	withNumber(elementwise.On(s).Binary[elementwise.Sub], dst, top, buf)
	if log {
		var sum float64
		for i := 0; i < len(dst); i += elementwise.Spread {
			e := temporary[:min(elementwise.Spread, len(dst)-i)]
			clear(temporary[copy(temporary, dst[i:i+len(e)]):])
			elementwise.Apply(s, elementwise.Exp, temporary[:(len(e)+15)&^15], temporary[:(len(e)+15)&^15])
			sum += float64(reduce.On(s).Sum(e))
		}
		withNumber(elementwise.On(s).Binary[elementwise.Sub], dst, float32(math.Log(sum)), buf)
		return
	}
	// The last elements are computed in a whole vector too, so that their bits do not depend on their position.
	whole = len(dst) &^ 15
	elementwise.Apply(s, elementwise.Exp, dst[:whole], dst[:whole])
	rest := temporary[:16]
	clear(rest[copy(rest, dst[whole:]):])
	elementwise.Apply(s, elementwise.Exp, rest, rest)
	copy(dst[whole:], rest)
	withNumber(elementwise.On(s).Binary[elementwise.Mul], dst, 1/reduce.On(s).Sum(dst), buf)
}

// withNumber is dst = f(dst, y). buf has spread elements.
func withNumber(f func(dst, a, b []float32), dst []float32, y float32, buf []float32) {
	b := elementwise.SpreadTo(buf, y, len(dst))
	for len(dst) > 0 {
		n := min(len(dst), elementwise.Spread)
		f(dst[:n], dst[:n], b[:n])
		dst = dst[n:]
	}
}
