package main

import (
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
)

// TestLifetimes checks that rlxc plan reports for an artifact the same numbers as the planner did at compilation,
// including values that overwrite others.
func TestLifetimes(t *testing.T) {
	g, err := ir.Parse(`graph f
x = input : f32[64,8]
a = softmax x {axis=1} : f32[64,8]
b = relu a : f32[64,8]
c = reshape b : f32[8,64]
d = transpose c {perm=[1,0]} : f32[64,8]
e = exp d : f32[64,8]
return y=e
`)
	if err != nil {
		t.Fatal(err)
	}
	p, want, err := sched.Build(g, sched.Options{Target: "t"})
	if err != nil {
		t.Fatal(err)
	}
	got := lifetimes(listed{p, program.Whole(p), 0})
	if got.naive != want.Naive || got.peak != want.Peak || got.reuse() != want.Reuse() || want.Reuse() <= 1 {
		t.Errorf("naive %d, peak %d, reuse %v; the planner says %v", got.naive, got.peak, got.reuse(), want)
	}
}
