//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestLongLoops runs shaders in which one invocation goes over many elements. A device that ends loops early may refuse
// the longest. No device may return the sum that it had when it stopped.
func TestLongLoops(t *testing.T) {
	typ := ir.TypeOf
	const f32, f16 = dtype.F32, dtype.F16
	for _, c := range devicetest.SomeOf(t, 4, []struct {
		name    string
		refused bool // by llvmpipe, perhaps
		in      []ir.Type
		node    func(in []*ir.Node) *ir.Node
	}{
		{"reduce", false, []ir.Type{typ(f32, 1, 21000)}, func(in []*ir.Node) *ir.Node {
			return op.ReduceSum(in[0], true, 1)
		}},
		{"reduce long", true, []ir.Type{typ(f32, 1, 70000)}, func(in []*ir.Node) *ir.Node {
			return op.ReduceSum(in[0], true, 1)
		}},
		{"product", true, []ir.Type{typ(f16, 1, 70000), typ(f16, 70000, 1)}, func(in []*ir.Node) *ir.Node {
			return op.MatMul(in[0], in[1], op.MatMulAttrs{})
		}},
		{"softmax", true, []ir.Type{typ(f16, 1, 40000)}, func(in []*ir.Node) *ir.Node { return op.Softmax(in[0], 1) }},
		{"norm", true, []ir.Type{typ(f16, 1, 33001), typ(f16, 33001), typ(f16, 33001)}, func(in []*ir.Node) *ir.Node {
			return op.LayerNorm(in[0], in[1], in[2], 1e-5)
		}},
		{"conv", true, []ir.Type{typ(f16, 1, 66000, 1, 1), typ(f16, 1, 66000, 1, 1)}, func(in []*ir.Node) *ir.Node {
			return op.Conv2D(in[0], in[1], nil, op.ConvAttrs{Layout: op.NCHW})
		}},
		{"attention", false, []ir.Type{typ(f32, 1, 1, 18), typ(f32, 1, 20000, 18), typ(f32, 1, 20000, 18)},
			func(in []*ir.Node) *ir.Node {
				return op.Attention(in[0], in[1], in[2], op.AttentionOperands{},
					op.AttentionAttrs{Heads: 1, Layout: op.BSE})
			}},
		{"attention long", true, []ir.Type{typ(f32, 1, 1, 2), typ(f32, 1, 70000, 2), typ(f32, 1, 70000, 2)},
			func(in []*ir.Node) *ir.Node {
				return op.Attention(in[0], in[1], in[2], op.AttentionOperands{},
					op.AttentionAttrs{Heads: 1, Layout: op.BSE})
			}},
	}) {
		t.Run(c.name, func(t *testing.T) {
			p, n, values, named := oneStep(t, c.in, ir.Range{Lo: 0.001, Hi: 0.01}, c.node)
			for _, v := range values {
				v.Floats[len(v.Floats)-1] = 10 // what comes last shows
			}
			x := load(t, shared, p, nil)
			if c.refused && strings.HasPrefix(first(t).Name, llvmpipe) {
				_, err := x.Run(context.Background(), device.Run{IO: tensor.AlignedBytes(int(p.IOSize))})
				if d := (*diag.Error)(nil); errors.As(err, &d) && d.Code == device.ErrUnsupported {
					return
				}
			}
			want := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
			if err := n.Op.Eval(n.Attrs, values, want); err != nil {
				t.Fatal(err)
			}
			for i, v := range onDevice(t, x, p, nil, named)["y"].Floats {
				if w := want.Floats[i]; !(math.Abs(v-w) <= 2e-3*math.Abs(w)+1e-7) {
					t.Fatalf("y[%d] is %v; want %v", i, v, w)
				}
			}
		})
	}
}
