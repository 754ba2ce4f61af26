package tinymodel

import "github.com/rlx-go/rlx/core/task/text"

// Extend is a model with the task "text" for ids from 0 to 16. It keeps the ids that it has seen: with s the sum of id+1 over
// all of them, the logit of id j is 3-(j-t)^2/2 with t = (5s+3) mod 17. So, greedily, 3 is followed by 6, 7, 13, 15, 10,
// 14, 4, 12, 9, 8, 2, 0, 5, 1, 11 and 3 again: s becomes 6s+4 mod 17.
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
return logits=logits, greedy=greedy, token=token, logprob=logprob
`

// TextTask is the description of the task that Extend has, without a tokenizer. 16 ends a text.
func TextTask() *text.Task {
	t := text.New(17, 24, 5, 6)
	t.End = []int{16}
	return t
}

// Tokenizer is a tokenizer.json for Extend: 0 to 15 are the texts "a", "b", "c", "d", "e", "f", 0xC3, 0xA9 (which are é together), "i", "j",
// "k", "l", " ", "n", "o" and "p", and 16 is the special token "<end>".
const Tokenizer = `{"version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
"added_tokens": [{"id": 16, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
"decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
"model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
"vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "Ã": 6, "©": 7, "i": 8, "j": 9, "k": 10, "l": 11, "Ġ": 12, "n": 13, "o": 14, "p": 15}, "merges": []}}
`
