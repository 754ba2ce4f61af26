package tinymodel

import (
	"strings"

	"github.com/rlx-go/rlx/task"
)

// Extend is a model with the task "text" for ids from 0 to 16. Its state has the ids it has seen. With s the sum of
// id+1 over them, the logit of id j is 3-(j-t)^2/2 with t = (5s+3) mod 17. So greedily 3 is followed by 6, 7, 13, 15,
// 10, 14, 4, 12, 9, 8, 2, 0, 5, 1, 11 and 3 again: s becomes 6s+4 mod 17.
const Extend = `graph extend
sym R = 1..6
sym T = 1..5
input_ids = input : i64[1,T]
position = input : i32[]
temperature = input : f32[]
top_k = input : i32[]
top_p = input : f32[]
min_p = input : f32[]
repeat_penalty = input : f32[]
recent = input : i64[R]
seed = input : u32[2]
step = input : u32[2]
seen = state : f32[24]
x = cast input_ids {to=f32} : f32[1,T]
r = reshape x : f32[T]
one = const {value=1} : f32[]
r1 = add r, one : f32[T]
next = kv_append seen, r1, position {axis=0} : f32[24]
s = reduce_sum next {axes=[0],keep_dims=true} : f32[1]
five = const {value=5} : f32[]
three = const {value=3} : f32[]
size = const {value=17} : f32[]
s5 = mul s, five : f32[1]
s53 = add s5, three : f32[1]
t = mod s53, size : f32[1]
j = iota : f32[17]
d = sub j, t : f32[17]
d2 = mul d, d : f32[17]
minus = const {value=-0.5} : f32[]
l0 = mul d2, minus : f32[17]
l = add l0, three : f32[17]
logits = reshape l : f32[1,17]
past = cast recent {to=f32} : f32[R]
past1 = reshape past : f32[R,1]
hot = eq past1, j : bool[R,17]
seen_before = any hot {axes=[0]} : bool[17]
up = mul l, repeat_penalty : f32[17]
down = div l, repeat_penalty : f32[17]
zero = const {value=0} : f32[]
negative = lt l, zero : bool[17]
times = where negative, up, down : f32[17]
p = where seen_before, times, l : f32[17]
p2 = reshape p : f32[1,17]
token = sample p2, temperature, top_k, top_p, seed, step : i32[1]
greedy = argmax logits {axis=1} : i32[1]
log = log_softmax logits {axis=1} : f32[1,17]
chosen = cast token {to=f32} : f32[1]
chosen1 = reshape chosen : f32[1,1]
mine = eq chosen1, j : bool[1,17]
log0 = where mine, log, zero : f32[1,17]
logprob = reduce_sum log0 {axes=[1]} : f32[1]
greedy_logprob = reduce_max log {axes=[1]} : f32[1]
return logits=logits, greedy=greedy, greedy_logprob=greedy_logprob, token=token, logprob=logprob
`

// Draft is a head that drafts for Extend as changed by WithDraft. Its hidden state is s, from which it computes the
// next id. If that is a multiple of 3, Draft is off by one.
const Draft = `graph draft
sym T = 1..5
hidden = input : f32[1,T,1]
input_ids = input : i64[1,T]
position = input : i32[]
drafted = state : f32[24]
x = cast input_ids {to=f32} : f32[1,T]
r = reshape x : f32[T]
one = const {value=1} : f32[]
r1 = add r, one : f32[T]
h = reshape hidden : f32[T]
s = add h, r1 : f32[T]
next = kv_append drafted, s, position {axis=0} : f32[24]
i = iota : f32[T]
last = reduce_max i {axes=[0],keep_dims=true} : f32[1]
mine = eq i, last : bool[T]
zero = const {value=0} : f32[]
s0 = where mine, s, zero : f32[T]
s1 = reduce_sum s0 {axes=[0],keep_dims=true} : f32[1]
after = reshape s1 : f32[1,1,1]
three = const {value=3} : f32[]
third = mod s1, three : f32[1]
odd = eq third, zero : bool[1]
wrong = cast odd {to=f32} : f32[1]
five = const {value=5} : f32[]
s5 = mul s1, five : f32[1]
s53 = add s5, three : f32[1]
s54 = add s53, wrong : f32[1]
size = const {value=17} : f32[]
t = mod s54, size : f32[1]
greedy = cast t {to=i32} : i32[1]
return greedy=greedy, hidden=after
`

// Rewind overwrites ids in the state of Extend. Ids after the given position still count.
const Rewind = `graph rewind
new.seen = input : f32[24]
seen = state : f32[24]
zero = const {value=0} : i32[]
next = kv_append seen, new.seen, zero {axis=0} : f32[24]
return done=zero
`

// WithDraft returns Extend, or a graph derived from it, with the outputs that checking drafts needs, and adds Draft and
// Rewind to the task.
func WithDraft(about *task.Text, graph string) string {
	about.Draft = task.TextDraft{Method: "draft", Rewind: "rewind", Choices: "choices", LogProbs: "logprobs",
		Hidden: "hidden", Token: "greedy"}
	return strings.Replace(graph, "return ", `before = reduce_sum seen {axes=[0],keep_dims=true} : f32[1]
more = cumsum r1 {axis=0} : f32[T]
sums = add more, before : f32[T]
sums5 = mul sums, five : f32[T]
sums53 = add sums5, three : f32[T]
best = mod sums53, size : f32[T]
best1 = cast best {to=i32} : i32[T]
choices = reshape best1 : i32[1,T]
column = reshape best : f32[T,1]
off = sub j, column : f32[T,17]
off2 = mul off, off : f32[T,17]
all = mul off2, minus : f32[T,17]
logs = log_softmax all {axis=1} : f32[T,17]
most = reduce_max logs {axes=[1]} : f32[T]
logprobs = reshape most : f32[1,T]
hidden = reshape sums : f32[1,T,1]
return choices=choices, logprobs=logprobs, hidden=hidden, `, 1)
}

// TextTask returns the description of Extend's task, without a tokenizer. Id 16 ends a text.
func TextTask() *task.Text {
	t := task.NewText(17, 24, 5, 6)
	t.End = []int{16}
	return t
}

// Tokenizer is a tokenizer.json for Extend. Ids 0 to 15 are "a", "b", "c", "d", "e", "f", 0xC3, 0xA9 (together é), "i",
// "j", "k", "l", " ", "n", "o" and "p"; 16 is the special token "<end>".
const Tokenizer = `{"version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
"added_tokens": [{"id": 16, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
"decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
"model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
"vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "Ã": 6, "©": 7, "i": 8, "j": 9, "k": 10, "l": 11, "Ġ": 12, "n": 13, "o": 14, "p": 15}, "merges": []}}
`
