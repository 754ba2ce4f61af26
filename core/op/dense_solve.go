package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// maxSolve is the largest number of equations of dense_solve.
const maxSolve = 4096

// DenseSolveDef solves systems of linear equations.
var DenseSolveDef = ir.Define(ir.Def[NoAttrs]{
	Name: "dense_solve",
	Doc: "x of a x = b: a [..., N, N] and b [..., N, K], or [..., N] for one right side each, of f32 or f64; N is static, 1 to 4096, and the axes before are equal. " +
		"By elimination with partial pivoting. Where a is singular, so that a pivot is exactly 0, or NaN, that x is NaN. The error grows with the condition number of a. numpy.linalg.solve.",
	Operands: "a, b",
	Infer:    func(s ir.Sig[NoAttrs]) (ir.Type, error) { return inferSolve(s.In[0], s.In[1]) },
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		rank := len(in[0].Shape)
		n, k := in[0].Shape[rank-1], 1
		if len(in[1].Shape) == rank {
			k = in[1].Shape[rank-1]
		}
		copy(out.Floats, in[1].Floats)
		a := make([]float64, n*n)
		for i := range tensor.Numel(in[0].Shape[:rank-2]) {
			copy(a, in[0].Floats[i*n*n:])
			solve(a, out.Floats[i*n*k:(i+1)*n*k], n, k)
		}
		return nil
	},
	Memory: func(s ir.Sig[NoAttrs], _ ir.Type) int64 {
		n := s.In[0].Shape[s.In[0].Rank()-1].Const
		return 8 * n * n
	},
	FLOPs: func(_ NoAttrs, in []ir.Type, out ir.Type) int64 {
		n := in[0].Shape[in[0].Rank()-1].Const
		return 2*numel(in[0])*n/3 + 2*numel(out)*n
	},
	// a bound for small and well-conditioned a
	Tol: func(_ NoAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return forDType(out.DType, 1e-4, 1e-4)
	},
	Cases: func() (cases []ir.Case[NoAttrs]) {
		c := func(a, b ir.Type) {
			cases = append(cases, ir.Case[NoAttrs]{In: []ir.Type{a, b}})
		}
		c(f32(1, 1), f32(1))
		c(f32(2, 2), f32(2, 1))
		c(f32(3, 3), f32(3))
		c(f32(2, 3, 4, 4), f32(2, 3, 4, 5))
		c(f32(7, 5, 5), f32(7, 5))
		c(f32(0, 3, 3), f32(0, 3, 2))
		c(f32(3, 3), f32(3, 0))
		c(f64(2, 6, 6), f64(2, 6, 3))
		c(f64(9, 9), f64(9))
		return cases
	},
})

func inferSolve(a, b ir.Type) (ir.Type, error) {
	if err := singleOrDouble("a", a); err != nil {
		return ir.Type{}, err
	}
	rank := a.Rank()
	if rank < 2 || b.DType != a.DType || b.Rank() != rank && b.Rank() != rank-1 {
		return ir.Type{}, fmt.Errorf("a is %v and b %v; want [..., N, N] and [..., N, K] or [..., N] of one type", a, b)
	}
	n := a.Shape[rank-1]
	if !n.IsStatic() || n.Const < 1 || n.Const > maxSolve || a.Shape[rank-2] != n {
		return ir.Type{}, fmt.Errorf("a is %v; want square matrices of a static size from 1 to %d", a, maxSolve)
	}
	for i, d := range a.Shape[:rank-1] {
		if b.Shape[i] != d {
			return ir.Type{}, ir.Differ(b.Shape[i], d, "a is %v and b %v; want equal sizes but for the last axis", a, b)
		}
	}
	return b, nil
}

// solve replaces b [n,k] by the solution of a x = b, and overwrites a [n,n].
func solve(a, b []float64, n, k int) {
	for col := range n {
		pivot := col
		for r := col + 1; r < n; r++ {
			if math.Abs(a[r*n+col]) > math.Abs(a[pivot*n+col]) {
				pivot = r
			}
		}
		if v := a[pivot*n+col]; v == 0 || math.IsNaN(v) {
			for i := range b {
				b[i] = math.NaN()
			}
			return
		}
		swapRows(a, n, col, pivot)
		swapRows(b, k, col, pivot)
		for r := col + 1; r < n; r++ {
			f := a[r*n+col] / a[col*n+col]
			for c := col; c < n; c++ {
				a[r*n+c] -= f * a[col*n+c]
			}
			for c := range k {
				b[r*k+c] -= f * b[col*k+c]
			}
		}
	}
	for r := n - 1; r >= 0; r-- {
		for c := range k {
			sum := b[r*k+c]
			for i := r + 1; i < n; i++ {
				sum -= a[r*n+i] * b[i*k+c]
			}
			b[r*k+c] = sum / a[r*n+r]
		}
	}
}

// swapRows exchanges two rows of n elements.
func swapRows(x []float64, n, i, j int) {
	if i != j {
		for c := range n {
			x[i*n+c], x[j*n+c] = x[j*n+c], x[i*n+c]
		}
	}
}

// DenseSolve adds x of a x = b.
func DenseSolve(a, b *ir.Node) *ir.Node { return a.Graph.Add(DenseSolveDef, NoAttrs{}, a, b) }

// A loop over the columns eliminates each from all other rows of [a b], whose pivot rows stay where they are: the
// loop's second carried value says which have been, and the fourth is the pivot row of the column.
var _ = ir.Lower(DenseSolveDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, b := in[0], in[1]
	rank := a.Type.Rank()
	size := a.Type.Shape[rank-1]
	batch, _ := product(a.Type.Shape[:rank-2])
	k := ir.Static(1)
	if b.Type.Rank() == rank {
		k = b.Type.Shape[rank-1]
	}
	both := Concat(2, Reshape(a, ir.Shape{batch, size, size}), Reshape(b, ir.Shape{batch, size, k}))
	steps := int(size.Const)
	free := Const(g, 1, ir.Type{DType: dtype.Bool, Shape: ir.Shape{batch, size}})
	good := Const(g, 1, ir.Type{DType: dtype.Bool, Shape: ir.Shape{batch}})
	row := Const(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{batch}})
	body := solveStep(both.Type, free.Type, good.Type, row.Type, g.Syms)
	out := Loop(LoopAttrs{Body: body, Carried: 4, Steps: 1, Length: steps, Results: []int{0, 2, 7}}, both, free, good,
		row, Iota(g, 0, ir.TypeOf(dtype.I32, int64(steps))))
	from := Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{k}})
	x := Gather(out[0], Add(from, number(float64(steps), from)), 2)
	x = GatherBatched(x, Transpose(out[2], 1, 0), 1)
	x = Where(Reshape(out[1], ir.Shape{batch, ir.Static(1), ir.Static(1)}), x, number(math.NaN(), x))
	return Reshape(x, n.Type.Shape)
})

// solveStep returns the body of the loop over columns.
func solveStep(both, free, good, row ir.Type, syms ir.Syms) *ir.Graph {
	body := ir.NewGraph("", syms...)
	if err := body.Build(func() {
		m, rest := Input(body, "m", both), Input(body, "free", free)
		ok := Input(body, "good", good)
		Input(body, "row", row)
		at := Input(body, "column", ir.TypeOf(dtype.I32))
		column := DynamicSlice(m, at, 2, 1) // [B,N,1]
		flat := Reshape(column, free.Shape)
		sizes := Abs(flat)
		// a row that has been is smaller than all others
		pivot := ArgMax(Where(rest, sizes, number(-1, sizes)), 1, false)
		index := Iota(body, 1, ir.Type{DType: dtype.I32, Shape: free.Shape})
		chosen := Eq(index, Reshape(pivot, ir.Shape{free.Shape[0], ir.Static(1)}))
		wide := withAxis(chosen, 2)
		zero := number(0, m)
		pivotRow := ReduceSum(Where(wide, m, zero), true, 1)                // [B,1,N+K]
		value := ReduceSum(Where(wide, column, number(0, column)), true, 1) // [B,1,1]
		next := Where(wide, Div(pivotRow, value), Sub(m, Mul(column, Div(pivotRow, value))))
		body.Return("m", next)
		body.Return("free", And(rest, Not(chosen)))
		flatValue := Reshape(value, good.Shape)
		body.Return("good", And(ok, Gt(Abs(flatValue), number(0, flatValue))))
		body.Return("row", pivot)
	}); err != nil {
		panic("BUG: op: dense_solve: " + err.Error())
	}
	body.NameByText("dense_solve")
	return body
}

// With y the solution for the transposed matrix and dx: db = y and da = -y xᵀ.
var _ = gradient(DenseSolveDef, func(n *ir.Node, _ NoAttrs, dy *ir.Node) []*ir.Node {
	a, x := n.In[0], n
	db := DenseSolve(transposed(a), dy)
	y, right := db, x
	if rank := a.Type.Rank(); x.Type.Rank() < rank {
		y, right = withAxis(db, rank-1), withAxis(x, rank-1)
	}
	return []*ir.Node{Neg(MatMul(y, right, MatMulAttrs{TransB: true})), db}
})
