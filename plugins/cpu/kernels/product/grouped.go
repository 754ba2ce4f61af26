package product

import (
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Grouped is the state of GroupedMatMul. It keeps memory between calls.
type Grouped struct {
	order, end []int     // rows by group; where each group ends in order
	a, c       []float32 // rows of a group, and their products

	Multiply func(p *pool.Pool, g *GemmArgs) // multiplies the rows of a group; nil means Gemm
}

// GroupedScratch returns what Grouped keeps for up to m rows of k elements, n columns and the given number of groups.
func GroupedScratch(m, k, n, groups int) pool.Size {
	return pool.Size{Other: pool.SizeOf[int](m+groups+1) + pool.SizeOf[float32](m*(k+n))}
}

// GroupedMatMul is C[m] = A[m]·B[index[m]] for each row m, where g.B holds a matrix for each of the groups. It gathers
// the rows of a group and multiplies them together. An index outside [0, groups) is an error; C is then undefined.
func GroupedMatMul[I layout.Index](x *Grouped, p *pool.Pool, g GemmArgs, groups int, index []I) error {
	if err := sortRows(x, index[:g.M], groups); err != nil {
		return err
	}
	b, rows, c := g.B, g.A, g.C
	multiply := x.Multiply
	if multiply == nil {
		multiply = Gemm
	}
	from := 0
	for e := range groups {
		order := x.order[from:x.end[e]]
		from = x.end[e]
		if len(order) == 0 {
			continue
		}
		g.M, g.B = len(order), b.From(e*g.K*g.N)
		first := order[0]
		if order[len(order)-1]-first == len(order)-1 { // the rows are contiguous
			g.A, g.C = rows[first*g.K:], c[first*g.N:]
			multiply(p, &g)
			continue
		}
		x.a, x.c = pool.Sized(x.a, len(order)*g.K), pool.Sized(x.c, len(order)*g.N)
		g.A, g.C = x.a, x.c
		for i, m := range order {
			copy(g.A[i*g.K:(i+1)*g.K], rows[m*g.K:])
		}
		multiply(p, &g)
		for i, m := range order {
			copy(c[m*g.N:(m+1)*g.N], g.C[i*g.N:])
		}
	}
	return nil
}

// sortRows sets x.order and x.end. The rows of a group stay in their order.
func sortRows[I layout.Index](x *Grouped, index []I, groups int) error {
	x.order, x.end = pool.Sized(x.order, len(index)), pool.Sized(x.end, groups+1)
	clear(x.end)
	for i, e := range index {
		if y := float64(e); !(y > -1 && y < float64(groups)) {
			return diag.New(code.Index, "", "index %v at position %d is out of range 0 to %d", e, i, groups-1)
		}
		x.end[int(e)+1]++
	}
	for e := range groups { // x.end[e] is where group e begins
		x.end[e+1] += x.end[e]
	}
	for i, e := range index { // and moves to where it ends
		x.order[x.end[int(e)]] = i
		x.end[int(e)]++
	}
	return nil
}
