package tinymodel

import "github.com/rlx-go/rlx/task"

// See, Words, Find and FindLike are a model with the task "segment_concepts" for images of 8x8 and the ids of
// Tokenizer. Of its three queries, query 0 has the bright part of the red plane and the logit m - 2, where m is the
// mean of the ids; query 1 has the dark part and the logit 2 - m; query 2 has the whole image and the logit -20. The
// presence is 1. FindLike adds the sum of the labels to the logit of query 1. So "e" finds the bright part, "a" the
// dark one, and "c" both.
const (
	See = `graph see
image = input : f32[1,3,8,8]
r = narrow image {axis=1, len=1} : f32[1,1,8,8]
e = reshape r : f32[1,1,8,8]
return e=e
`
	Words = `graph words
sym N = 1..6
ids = input : i32[1,N]
x = cast ids {to=f32} : f32[1,N]
t = reshape x : f32[1,N,1]
return text=t
`
	Find = `graph find
sym N = 1..6
e = input : f32[1,1,8,8]
text = input : f32[1,N,1]
m = reduce_mean text {axes=[1]} : f32[1,1]
two = const {value=2} : f32[1,1]
q0 = sub m, two : f32[1,1]
q1 = sub two, m : f32[1,1]
` + objects
	FindLike = `graph find_like
sym M = 1..2
sym N = 1..6
e = input : f32[1,1,8,8]
text = input : f32[1,N,1]
examples = input : f32[1,M,4]
labels = input : i32[1,M]
m = reduce_mean text {axes=[1]} : f32[1,1]
two = const {value=2} : f32[1,1]
all = reduce_sum examples {axes=[1,2]} : f32[1]
none = const {value=0} : f32[1]
nothing = mul all, none : f32[1]
zeros = reshape nothing : f32[1,1]
q00 = sub m, two : f32[1,1]
q0 = add q00, zeros : f32[1,1]
l = cast labels {to=f32} : f32[1,M]
s = reduce_sum l {axes=[1], keep_dims=true} : f32[1,1]
q10 = sub two, m : f32[1,1]
q1 = add q10, s : f32[1,1]
` + objects

	objects = `q2 = const {value=-20} : f32[1,1]
logits = concat q0, q1, q2 {axis=1} : f32[1,3]
presence = const {value=20} : f32[1,1]
zero = const {value=0} : f32[1,1,1]
half = const {value=0.5} : f32[1,1,1]
one = const {value=1} : f32[1,1,1]
b0 = concat zero, zero, half, one {axis=2} : f32[1,1,4]
b1 = concat half, zero, one, one {axis=2} : f32[1,1,4]
b2 = concat zero, zero, one, one {axis=2} : f32[1,1,4]
boxes = concat b0, b1, b2 {axis=1} : f32[1,3,4]
n = neg e : f32[1,1,8,8]
inside = const {value=1} : f32[1,1,8,8]
masks = concat e, n, inside {axis=1} : f32[1,3,8,8]
return logits=logits, presence=presence, boxes=boxes, masks=masks
`
)

// ConceptsTask returns the description of their task.
func ConceptsTask() *task.Concepts {
	t := task.NewConcepts(8, 3, 6, 17, 2)
	t.ImageMethod, t.TextMethod, t.DetectMethod, t.ExamplesMethod = "see", "words", "find", "find_like"
	t.Features, t.ExamplesInput, t.AnyText, t.Tokenizer = []string{"e"}, "examples", "c", "tokenizer.json"
	return t
}

// ConceptsClicks returns clicks for the image of a task of ConceptsTask, with Decode as their method.
func ConceptsClicks(c *task.Concepts) task.Segment {
	s := *task.NewSegment(c.Size, 5)
	s.ImageMethod, s.Embedding = c.ImageMethod, "e"
	s.Resize, s.Mean, s.Std = c.Resize, c.Mean, c.Std
	return s
}
