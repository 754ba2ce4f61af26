package quant_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
)

// TestDecode compares values, bit by bit, with those that the Python package gguf 0.19 and ggml 0.25 decode from the
// same blocks.
func TestDecode(t *testing.T) {
	read := reader(t, "testdata/blocks.safetensors")
	for _, d := range dtype.Packed() {
		name := strings.ToUpper(d.String())
		blocks, want := read(name+".bytes"), read(name+".values")
		got := make([]float32, len(blocks)/d.Size()*d.Values())
		quant.Decode(got, d, blocks)
		if len(got) < 24*d.Values() || 4*len(got) != len(want) {
			t.Fatalf("%v: %d values; the file has %d", d, len(got), len(want)/4)
		}
		for i, v := range got {
			if w := binary.LittleEndian.Uint32(want[4*i:]); math.Float32bits(v) != w {
				t.Errorf("%v: value %d of block %d is %v; want %v", d, i%d.Values(), i/d.Values(), v,
					math.Float32frombits(w))
				break
			}
		}
	}
}

// TestRandom checks that random values are finite and small enough for sums of products.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range dtype.Packed() {
		b := make([]byte, 50*d.Size())
		quant.Random(b, d, rng.Uint32)
		values, most := make([]float32, 50*d.Values()), 0.0
		quant.Decode(values, d, b)
		for _, v := range values {
			most = max(most, math.Abs(float64(v)))
		}
		if !(most > 0.25 && most < 8) {
			t.Errorf("%v: the largest value is %v", d, most)
		}
	}
}
