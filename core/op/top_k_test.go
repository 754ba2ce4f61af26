package op_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestTopKAgainstNumPy compares the reference with what NumPy finds (testdata/make_top_k.py): ties, zeros of both signs,
// denormals, infinities and NaN.
func TestTopKAgainstNumPy(t *testing.T) {
	var cases []struct {
		What, DType string
		Shape       []int
		K           int
		X, Values   []uint32 // bits
		Indices     []int64
	}
	text, err := os.ReadFile("testdata/top_k.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) < 15 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.What, func(t *testing.T) {
			d, _ := dtype.Parse(c.DType)
			x := tensor.New(d, c.Shape...)
			put(x, c.X)
			typ := ir.Type{DType: d}
			for _, n := range c.Shape {
				typ.Shape = append(typ.Shape, ir.Static(int64(n)))
			}
			for _, index := range []dtype.DType{dtype.Invalid, dtype.I32, dtype.I64, dtype.U32, dtype.F32} {
				a := op.TopKAttrs{K: c.K, IndexDType: index}
				out := results(t, op.TopKDef, ir.Case[any]{Attrs: a, In: []ir.Type{typ}}, []*tensor.Array{x.Array()})
				want := tensor.New(d, out[0].Shape...)
				put(want, c.Values)
				if got := out[0].Tensor(); !slices.Equal(got.Data, want.Data) {
					t.Errorf("values are %v; want %v", out[0], want.Array())
				}
				for i, k := range c.Indices {
					if out[1].At(i) != float64(k) {
						t.Fatalf("%v: index %d is %v; want %d", a.Index(), i, out[1].At(i), k)
					}
				}
			}
		})
	}
}

// put fills a tensor with elements given as bits.
func put(x tensor.Tensor, bits []uint32) {
	size := x.DType.Size()
	for i, b := range bits {
		var word [4]byte
		binary.LittleEndian.PutUint32(word[:], b)
		copy(x.Data[i*size:(i+1)*size], word[:])
	}
}
