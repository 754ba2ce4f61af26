// Package tinymodel has programs for tests whose results can be computed by hand.
package tinymodel

import (
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op" // registers the ops of the graphs
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/task"
)

// Encode and Decode are a model with the task "segment". encode returns the red plane of an 8x8 image. The masks of
// decode are that plane (mask 0), its negative (1), all ones (2) and all minus ones (3). iou is 0.1, 0.7, 0.9, 0.3.
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

// MLP is a method f for up to nine rows.
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

// Task returns the description of the task of Encode and Decode.
func Task() *task.Segment { return task.NewSegment(8, 5) }

// Image and Prompt are a minimal model with the task, with other names and numbers of points than Encode and Decode.
const (
	Image = `graph image
pixels = input : f32[1,3,8,8]
e = reduce_sum pixels {axes=[1,2,3]} : f32[1]
return embeddings=e
`
	Prompt = `graph prompt
sym N = 1..4
embeddings = input : f32[1]
points = input : f32[1,N,2]
labels = input : i32[1,N]
m = expand embeddings : f32[1,4,3,5]
q = reduce_max m {axes=[2,3]} : f32[1,4]
return masks=m, iou=q
`
)

// SmallTask returns the description of the task of Image and Prompt.
func SmallTask() *task.Segment {
	s := task.NewSegment(8, 4)
	s.ImageMethod, s.PromptMethod, s.ImageInput, s.MasksOutput = "image", "prompt", "pixels", "masks"
	return s
}

// Cache and Peek are a model whose state is a cache of 8 rows and a count of the runs of append. append writes rows at
// pos and returns the sum of the cache before and after, and the count. peek returns only the sum.
const (
	Cache = `graph append
sym T = 1..3
rows = input : f32[T,2]
pos = input : i32[]
cache = state {init=0.5} : f32[8,2]
runs = state : f32[1]
zero = const {value=0} : i32[]
one = const {value=1} : f32[1]
before = reduce_sum cache {axes=[0,1]} : f32[]
next = kv_append cache, rows, pos {axis=0} : f32[8,2]
after = reduce_sum next {axes=[0,1]} : f32[]
more = add runs, one : f32[1]
now = kv_append runs, more, zero {axis=0} : f32[1]
n = add now, runs : f32[1]
half = const {value=0.5} : f32[1]
m = add n, one : f32[1]
r = mul m, half : f32[1]
return before=before, after=after, runs=r
`
	Peek = `graph peek
cache = state {init=0.5} : f32[8,2]
sum = reduce_sum cache {axes=[0,1]} : f32[]
return sum=sum
`
)

// Program compiles a graph for a target without running passes.
func Program(t testing.TB, text, target string) *program.Program {
	t.Helper()
	return Programs(t, target, text)[0]
}

// Programs compiles the methods of a model, which share their states.
func Programs(t testing.TB, target string, texts ...string) []*program.Program {
	t.Helper()
	list, err := Compile(target, texts...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Compile is Programs outside a test.
func Compile(target string, texts ...string) (list []*program.Program, err error) {
	graphs := make([]*ir.Graph, len(texts))
	for i, text := range texts {
		if graphs[i], err = ir.Parse(text); err != nil {
			return nil, err
		}
	}
	states, err := sched.StateLayout(graphs...)
	if err != nil {
		return nil, err
	}
	for _, g := range graphs {
		p, _, err := sched.Build(g, sched.Options{Target: target, State: states.Find})
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}
