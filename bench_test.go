package rlx_test

import (
	"testing"

	"github.com/rlx-go/rlx"
)

// BenchmarkRun measures the overhead of a run: one step, 4 KB in and out, with different sizes each time.
func BenchmarkRun(b *testing.B) {
	s := session(b, tiny(b, "graph f\nsym N = 1..1024\nx = input : f32[N]\ny = neg x : f32[N]\nreturn y=y\n"),
		rlx.Options{})
	var in []map[string]rlx.Tensor
	for n := 1000; n <= 1024; n++ {
		in = append(in, map[string]rlx.Tensor{"x": tensorOf(b, make([]float32, n), n)})
	}
	for i := 0; b.Loop(); i++ {
		if _, err := s.Run(b.Context(), rlx.Request{Method: "f", Inputs: in[i%len(in)]}); err != nil {
			b.Fatal(err)
		}
	}
}
