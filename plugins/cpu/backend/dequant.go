package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

var (
	_ = register(
		kernel{op: "dequant_matmul", takes: `(f32, any) if scheme = "packed"`,
			also: "(f32, i8|u8, scale: f32|u8, zero: f32, global: f32)", scratch: dequantScratch,
			prepare: func(n *ir.Node) func(*call) error {
				if n.Attrs.(op.DequantMatMulAttrs).Scheme != op.SchemePacked {
					return schemeProduct(n)
				}
				rounds := n.Attrs.(op.DequantMatMulAttrs).Activations == op.ActivationsQ8
				return func(c *call) error {
					if g := packedProduct(c); rounds {
						product.GemmRounded(c.pool, &g)
					} else {
						product.Gemm(c.pool, &g)
					}
					return nil
				}
			}, joins: func(n *ir.Node) (s jointStep, ok bool) {
				a := n.Attrs.(op.DequantMatMulAttrs)
				return jointStep{func(c *call) (product.GemmArgs, bool) { return packedProduct(c), true },
					a.Activations == op.ActivationsQ8}, a.Scheme == op.SchemePacked
			}})
	_ = register(
		kernel{op: "dequant_matmul_backward", takes: "(f32, any)",
			scratch: func(p *pool.Pool, n *ir.Node, precision product.Precision) pool.Size {
				dy, out := n.Graph.Syms.Largest(n.In[0].Type.Shape), n.Graph.Syms.Largest(n.Type.Shape)
				g := product.GemmArgs{M: tensor.Numel(dy[:len(dy)-1]), N: out[len(out)-1], K: dy[len(dy)-1],
					B: stored.Packed(n.In[1].Type.DType, nil)}
				r := g.PackedColumnsScratch(p)
				g.Precision = precision
				return r.With(g.PackedColumnsScratch(p))
			},
			prepare: func(n *ir.Node) func(*call) error {
				return func(c *call) error {
					rows, k := rowsOf(c.out)
					dy := c.in[0].Shape
					depth := dy[len(dy)-1]
					g := product.GemmArgs{M: rows, N: k, K: depth, A: f32(c.in[0]), B: weights(c.in[1]), C: f32(c.out),
						Precision: c.forRows(rows)}
					g.LDA, g.LDB, g.LDC = depth, k, k
					product.GemmPackedColumns(c.pool, &g)
					return nil
				}
			}})
	_ = register(
		kernel{op: "dequant_grouped_matmul", takes: "(f32, any, i32|i64|u32)", scratch: dequantScratch,
			prepare: func(n *ir.Node) func(*call) error {
				group := &product.Grouped{}
				if n.Attrs.(op.DequantGroupedMatMulAttrs).Activations == op.ActivationsQ8 {
					group.Multiply = product.GemmRounded
				}
				return func(c *call) error {
					x, w := c.in[0], c.in[1]
					g := product.GemmArgs{M: x.Shape[0], N: w.Shape[1], K: x.Shape[1], A: f32(x), B: weights(w),
						TransB: true,
						C:      f32(c.out), Precision: c.forRows(x.Shape[0])}
					g.LDA, g.LDB, g.LDC = g.K, g.K, g.N
					return groupedMatMul(c, group, g, w.Shape[0], c.in[2])
				}
			}})
	_ = register(
		kernel{op: "dequant_rows", takes: "(any, i32|i64|u32)",
			scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
				rows := n.Graph.Syms.MaxElems(n.In[1].Type)
				_, width := n.Graph.Syms.Bounds(n.In[0].Type.Shape[1])
				return pool.Size{Other: rows * width * int64(n.In[0].Type.DType.Size())}
			}, prepare: func(*ir.Node) func(*call) error {
				var picked []byte
				return func(c *call) error {
					table, rows := c.in[0], tensor.Numel(c.in[1].Shape)
					size := table.Shape[1] * table.DType.Size()
					if cap(picked) < rows*size {
						picked = make([]byte, rows*size)
					}
					picked = picked[:rows*size]
					var err error
					switch idx := c.in[1]; idx.DType {
					case dtype.I32:
						err = layout.Gather(c.pool, picked, table.Data, 1, table.Shape[0], size, view[int32](idx))
					case dtype.I64:
						err = layout.Gather(c.pool, picked, table.Data, 1, table.Shape[0], size, view[int64](idx))
					default:
						err = layout.Gather(c.pool, picked, table.Data, 1, table.Shape[0], size, view[uint32](idx))
					}
					if err == nil {
						product.DecodeRows(c.pool, f32(c.out), stored.Packed(table.DType, picked), rows,
							table.Shape[1]*table.DType.Values())
					}
					return err
				}
			}})
)

// packedProduct returns the product of a dequant_matmul with packed weights.
func packedProduct(c *call) product.GemmArgs {
	rows, n := rowsOf(c.out)
	x := c.in[0].Shape
	k := x[len(x)-1]
	return product.GemmArgs{M: rows, N: n, K: k, LDA: k, LDB: k, LDC: n, TransB: true, A: f32(c.in[0]),
		B: weights(c.in[1]), C: f32(c.out), Precision: c.forRows(rows)}
}

// schemeProduct multiplies by weights [k,n] whose scales are separate operands (every scheme but "packed").
func schemeProduct(n *ir.Node) func(*call) error {
	a := n.Attrs.(op.DequantMatMulAttrs)
	scheme := &product.SchemeProduct{Rounds: a.Activations == op.ActivationsQ8}
	values := map[string]string{"int8_asym": "int8", "fp8_e4m3": "e4m3", "fp8_e5m2": "e5m2", "nvfp4": "e2m1"}[a.Scheme]
	if values == "" {
		values = a.Scheme
	}
	return func(c *call) error {
		rows, cols := rowsOf(c.out)
		x := c.in[0].Shape
		w := product.SchemeWeights{Values: values, Data: c.in[1].Data, N: cols, Block: a.Block}
		switch {
		case a.Scheme == "nvfp4":
			w.Block, w.Small, w.Global = op.NVFP4Block, c.in[op.DequantMatMulScale].Data,
				f32(c.in[op.DequantMatMulGlobal])[0]
		default:
			w.Scale, w.Zero = optional(c, op.DequantMatMulScale), optional(c, op.DequantMatMulZero)
		}
		g := product.GemmArgs{M: rows, N: cols, K: x[len(x)-1], A: f32(c.in[0]), C: f32(c.out),
			Precision: c.forRows(rows)}
		g.LDA, g.LDC = g.K, g.N
		scheme.Multiply(c.pool, &g, &w)
		return nil
	}
}

// dequantScratch returns the scratch memory of products with quantised weights: the memory of a product of all rows, or
// of the rows of each group, and the activations rounded to 8 bits.
func dequantScratch(p *pool.Pool, n *ir.Node, precision product.Precision) pool.Size {
	syms := n.Graph.Syms
	x, w := syms.Largest(n.In[0].Type.Shape), syms.Largest(n.In[1].Type.Shape)
	k := x[len(x)-1]
	m := tensor.Numel(x[:len(x)-1])
	if a, ok := n.Attrs.(op.DequantMatMulAttrs); ok && a.Scheme != op.SchemePacked {
		out := syms.Largest(n.Type.Shape)
		r := product.SchemeScratch(p, m, k, out[len(out)-1], product.Float32)
		return r.With(product.SchemeScratch(p, m, k, out[len(out)-1], precision))
	}
	d := n.In[1].Type.DType
	g := product.GemmArgs{M: m, N: w[len(w)-2], K: k, TransB: true, B: stored.Packed(d, nil)}
	r := product.PackedScratch(p, d, m, k)
	if len(w) == 3 {
		r.Other += product.GroupedScratch(m, k, g.N, w[0]).Other
	}
	for _, g.Precision = range []product.Precision{product.Float32, precision} {
		r = r.With(g.ScratchSize(p))
	}
	return r
}
