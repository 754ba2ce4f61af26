package backend

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestNaNBits runs elementwise ops on NaNs of several payloads and other special values. The bits of an element must
// depend on those of its operands only: neither on its position, which may be in a whole vector or in a rest, nor on
// the number of threads. Operands are of the same shape, or one is a number.
func TestNaNBits(t *testing.T) {
	const n = 2*pool.Grain + 13
	type kind struct {
		def *ir.OpDef
		c   ir.Case[any]
		key string
	}
	var kinds []kind
	seen, checks := map[string]bool{}, 0
	for _, def := range ir.Defs() {
		if !def.Elementwise || def.Eval == nil || def.Name == "elementwise_region" {
			continue
		}
		for _, c := range def.Cases() {
			key := def.Name + " " + fmt.Sprint(c.Attrs)
			floats := 0
			for _, x := range c.In {
				key += " " + x.DType.String()
				if x.DType.IsFloat() {
					floats++
				}
			}
			if seen[key] || floats == 0 || slices.ContainsFunc(c.In, absent) {
				continue
			}
			seen[key] = true
			kinds = append(kinds, kind{def, c, key})
		}
	}
	chosen := devicetest.SomeOf(t, len(kinds)/3, kinds)
	if testing.Short() { // an emulator takes minutes for all
		chosen = devicetest.SomeOf(t, len(kinds)/16, kinds)
	}
	for _, k := range chosen {
		for number := -1; number < len(k.c.In) && (number < 0 || len(k.c.In) > 1); number++ {
			for _, fused := range []bool{false, true} {
				if testing.Short() && fused != (number < 0) {
					continue
				}
				what := fmt.Sprintf("%s, number %d, fused %v", k.key, number, fused)
				if checkNaNBits(t, what, k.def, k.c, n, number, fused) {
					checks++
				}
			}
		}
	}
	if len(kinds) < 100 || checks < len(chosen) {
		t.Errorf("only %d checks of %d of %d kinds of nodes", checks, len(chosen), len(kinds))
	}
}

// checkNaNBits compares the results of an op for operands of n elements with those for the same elements in other
// places, in all but the operand that is one number. With fused the op is part of a region. It returns false if there
// is no such node.
func checkNaNBits(t *testing.T, what string, def *ir.OpDef, c ir.Case[any], n, number int, fused bool) bool {
	g := ir.NewGraph("f")
	rng := rand.New(rand.NewPCG(uint64(len(what)), uint64(number+2)))
	var nodes []*ir.Node
	var in [][]byte
	for k, x := range c.In {
		size := n
		if k == number {
			size = 1
		}
		nodes = append(nodes, op.Input(g, fmt.Sprint("x", k), ir.TypeOf(x.DType, int64(size))))
		in = append(in, specials(rng, x.DType, size))
	}
	y := g.AddDeclared(def, c.Attrs, c.Out, nodes...)
	if fused && !y.Type.DType.IsFloat() {
		return false
	}
	if fused {
		y = op.Neg(op.Abs(y))
	}
	g.Return("y", y)
	if g.Err() != nil {
		return false // not for operands of these shapes
	}
	p, weights := compiled(t, g)
	io := tensor.AlignedBytes(int(p.IOSize))
	inputs, outputs := program.NewBinder(p).IO(nil)
	run := func(e device.Executable, shift int) []byte {
		for k, x := range in {
			cut := 0
			if k != number {
				cut = shift * len(x) / n
			}
			copy(io[inputs[k].Offset:], x[cut:])
			copy(io[inputs[k].Offset+int64(len(x)-cut):], x[:cut])
		}
		if _, err := e.Run(t.Context(), device.Run{IO: io}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		out := io[outputs[0].Offset:][:outputs[0].Bytes]
		back := len(out) - shift*len(out)/n
		return slices.Concat(out[back:], out[:back])
	}
	var want []byte
	for threads := 1; threads <= 4; threads++ {
		e, err := Backend{}.Load(t.Context(), device.Load{Program: p, Threads: threads, Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		for _, shift := range []int{0, 1, 5, 13} {
			got := run(e, shift)
			if want == nil {
				want = got
			}
			if i := differs(got, want, len(want)/n); i >= 0 {
				t.Errorf("%s: the bits of element %d are others with %d threads and elements moved by %d", what, i,
					threads, shift)
				break
			}
		}
		e.Close()
	}
	return true
}

// differs returns the first element of so many bytes in which a and b differ, or -1.
func differs(a, b []byte, size int) int {
	for i := 0; i < len(b); i += size {
		if !bytes.Equal(a[i:i+size], b[i:i+size]) {
			return i / size
		}
	}
	return -1
}

// specials returns n elements, of which about half are special. Bytes that are no float are 0 or 1.
func specials(rng *rand.Rand, d dtype.DType, n int) []byte {
	bits := uint(8 * d.Size())
	mantissa := map[dtype.DType]uint{dtype.F64: 52, dtype.F32: 23, dtype.F16: 10, dtype.BF16: 7}[d]
	out := make([]byte, 0, n*d.Size())
	put := func(v uint64) {
		for k := range d.Size() {
			out = append(out, byte(v>>(8*k)))
		}
	}
	if !d.IsFloat() {
		for range n {
			put(uint64(rng.IntN(2)))
		}
		return out
	}
	exponent := uint64(1)<<(bits-1-mantissa) - 1
	for range n {
		sign, inf := uint64(rng.IntN(2))<<(bits-1), exponent<<mantissa
		switch rng.IntN(10) {
		case 0, 1, 2: // a quiet NaN
			put(sign | inf | 1<<(mantissa-1) | uint64(rng.IntN(1<<5)))
		case 3: // a signaling one
			put(sign | inf | 1 + uint64(rng.IntN(1<<5)))
		case 4:
			put(sign | inf)
		case 5:
			put(sign)
		default:
			v := math.Float64bits(rng.NormFloat64())
			put(v>>63<<(bits-1) | (uint64(int64(v>>52&0x7ff)-1023+int64(exponent/2))&exponent)<<mantissa |
				v&(1<<52-1)>>(52-mantissa))
		}
	}
	return out
}
