package quant_test

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/weights"
)

// reader returns a function that returns the bytes of a file's tensors by name.
func reader(t *testing.T, file string) func(name string) []byte {
	c, err := weights.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return func(name string) []byte {
		r, err := c.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// TestEncode compares blocks with those of the Python package gguf 0.19, which agree with ggml's reference.
func TestEncode(t *testing.T) {
	read := reader(t, "testdata/encoded.safetensors")
	x := tensor.View[float32](append(tensor.AlignedBytes(0), read("x")...))
	for _, d := range []dtype.DType{dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1, dtype.Q8_0} {
		want := read(strings.ToUpper(d.String()))
		got := make([]byte, len(want))
		if bad := quant.Encode(got, d, x); bad >= 0 {
			t.Errorf("%v: block %d is refused", d, bad)
		}
		for i := 0; i < len(got); i += d.Size() {
			if !bytes.Equal(got[i:i+d.Size()], want[i:i+d.Size()]) {
				t.Errorf("%v: block %d is\n%x; want\n%x", d, i/d.Size(), got[i:i+d.Size()], want[i:i+d.Size()])
			}
		}
	}
}

// TestEncodeError limits the error for random values. The limit is tight enough to detect a worse search for scales.
func TestEncodeError(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	most := map[dtype.DType]float64{dtype.Q8_0: 0.0055, dtype.Q4_0: 0.088, dtype.Q4_1: 0.081, dtype.Q5_0: 0.044,
		dtype.Q5_1: 0.039, dtype.Q4_K: 0.074, dtype.Q5_K: 0.037, dtype.Q6_K: 0.018}
	for _, d := range quant.Encodes() {
		x := make([]float32, 256*200)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		b, back := make([]byte, len(x)/d.Values()*d.Size()), make([]float32, len(x))
		if bad := quant.Encode(b, d, x); bad >= 0 {
			t.Fatalf("%v: block %d is refused", d, bad)
		}
		quant.Decode(back, d, b)
		var sum float64
		for i, v := range x {
			sum += math.Pow(float64(v-back[i]), 2)
		}
		if e := math.Sqrt(sum / float64(len(x))); !(e < most[d]) {
			t.Errorf("%v: error %v; want less than %v", d, e, most[d])
		} else {
			t.Logf("%v: error %.5f", d, e)
		}
		for _, v := range []float32{0, 1e-30, -3, 1e30, float32(math.Inf(1)), float32(math.NaN())} {
			clear(x)
			x[5] = v
			bad := quant.Encode(b, d, x)
			if refused := !(math.Abs(float64(v)) < 1e6); refused != (bad == 0) {
				t.Errorf("%v: a value %v: block %d is refused", d, v, bad)
			}
			if quant.Decode(back, d, b); bad < 0 && math.Abs(float64(back[5]-v)) > 0.02*math.Abs(float64(v))+1e-6 {
				t.Errorf("%v: %v becomes %v", d, v, back[5])
			}
		}
	}
}
