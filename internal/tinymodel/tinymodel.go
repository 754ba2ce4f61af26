// Package tinymodel has programs for tests whose results can be worked out by hand.
package tinymodel

import (
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op" // the ops that texts name
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/task"
)

// Encode and Decode are a model with the task "segment". encode keeps the red plane of an 8x8 image. decode's masks are that plane
// (mask 0), its negative (1), all ones (2) and all minus ones (3); iou is 0.1, 0.7, 0.9, 0.3.
const (
	Encode = `graph encode
image = input : f32[1,3,8,8]
r = narrow image {axis=1, len=1} : f32[1,1,8,8]
e = reshape r : f32[1,1,8,8]
return embeddings=e
`
	Decode = `graph decode
sym N = 1..5
embeddings = input : f32[1,1,8,8]
points = input : f32[1,N,2]
labels = input : i32[1,N]
n = neg embeddings : f32[1,1,8,8]
one = const {value=1} : f32[1,1,8,8]
minus = neg one : f32[1,1,8,8]
m = concat embeddings, n, one, minus {axis=1} : f32[1,4,8,8]
q0 = const {value=0.1} : f32[1,1]
q1 = const {value=0.7} : f32[1,1]
q2 = const {value=0.9} : f32[1,1]
q3 = const {value=0.3} : f32[1,1]
q = concat q0, q1, q2, q3 {axis=1} : f32[1,4]
return low_res_masks=m, iou=q
`
)

// MLP is a method f of nine rows at most.
const MLP = `graph f
sym N = 1..9
x = input : f32[N,8]
w = const {value=0.25} : f32[8,8]
h = matmul x, w : f32[N,8]
g = gelu h : f32[N,8]
v = reshape g : f32[N,2,4]
s = softmax v {axis=2} : f32[N,2,4]
n = narrow s {axis=1, len=1} : f32[N,1,4]
return y=s, z=n
`

// Task is the description of the task that Encode and Decode have.
func Task() task.Segment { return task.NewSegment(8, 5) }

// Program compiles a graph without passes, for a target.
func Program(t testing.TB, text, target string) *program.Program {
	t.Helper()
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(g, sched.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
