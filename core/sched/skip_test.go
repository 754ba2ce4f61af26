package sched_test

import (
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/sched"
)

// TestConditionsFirst checks that an order that takes less memory is not chosen if it computes what a condition may
// make unnecessary before the condition is known.
func TestConditionsFirst(t *testing.T) {
	g, err := ir.Parse(`graph g
x = input : f32[64,64]
limit = input : f32[]
t = exp x : f32[64,64]
u = tanh x : f32[64,64]
s = reduce_max u {axes=[0,1]} : f32[]
p = lt s, limit : bool[]
c = reduce_sum t {axes=[0,1]} : f32[]
zero = const : f32[]
y = where p, c, zero : f32[]
return y=y
`)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(g, sched.Options{Target: "portable"})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Skips(); s == nil {
		t.Error("c runs before p")
	}
}
