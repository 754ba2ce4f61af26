package task_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
)

// check compares a task with the methods in graphs.
func checkText(t *testing.T, about *task.Text, graphs ...string) error {
	t.Helper()
	var all task.Methods
	for _, graph := range graphs {
		g, err := ir.Parse(graph)
		if err != nil {
			t.Fatalf("%v in\n%s", err, graph)
		}
		m := task.Method{Name: g.Name, Syms: g.Syms}
		for _, n := range g.Inputs() {
			m.Inputs = append(m.Inputs, task.Value{Name: n.Name, Type: n.Type})
		}
		for _, o := range g.Outputs {
			m.Outputs = append(m.Outputs, task.Value{Name: o.Name, Type: o.Node.Type})
		}
		all = append(all, m)
	}
	return about.Check(all)
}

// TestCheckDraft checks that methods which draft tokens must match the task in names, types and sizes.
func TestCheckDraft(t *testing.T) {
	about := tinymodel.TextTask()
	all := strings.Join([]string{tinymodel.WithDraft(about, tinymodel.Extend), tinymodel.Draft, tinymodel.Rewind},
		"\x00")
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{"choices=choices", "choose=choices", `output "choices" is not there`},
		{"logprobs=logprobs", "logprobs=choices", "logprobs is i32[1,T]; want f32"},
		{"hidden=hidden", "hidden=logits", "hidden is f32[1,17]"},
		{"logprobs=logprobs", "logprobs=log", "logprobs has 17 rows; want one for each token, T"},
		{"graph draft", "graph drafts", `uses method "draft"`},
		{"graph rewind", "graph unwind", `uses method "rewind"`},
		{"new.seen", "old.seen", "want new.NAME"},
		{"sym T = 1..5\nhidden", "sym T = 1..4\nhidden", "want 1 to 5 tokens of each"},
		{"hidden = input : f32[1,T,1]", "hidden = input : f32[1,1,T]", "hidden is f32[1,1,T]"},
		{"greedy=greedy, hidden=after", "greedy=greedy, hidden=s1", "output hidden is f32[1]"},
		{"greedy=greedy, hidden=after", "greedy=wrong, hidden=after", "output greedy is f32[1]"},
	} {
		graphs := strings.ReplaceAll(all, c.from, c.to)
		if c.from == "" {
			graphs = all
		} else if graphs == all {
			t.Fatalf("%q is not there", c.from)
		}
		if err := checkText(t, about, strings.Split(graphs, "\x00")...); (err == nil) != (c.want == "") || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in place of %s: %v; want %q", c.to, c.from, err, c.want)
		}
	}
}

// TestCheck checks that a method must match the task in names, types and sizes.
func TestCheckText(t *testing.T) {
	const constant = "x = cast input_ids {to=f32} : f32[1,T]"
	for _, c := range []struct {
		name, from, to string
		ok             bool
	}{
		{"as it is", "", "", true},
		{"more tokens than a chunk", "T = 1..5", "T = 1..9", true},
		{"fewer tokens than a chunk", "T = 1..5", "T = 1..4", false},
		{"no run of one token", "T = 1..5", "T = 2..5", false},
		{"fewer ids to penalise", "R = 1..6", "R = 1..5", false},
		{"another method", "graph extend", "graph further", false},
		{"another input", "seed = input", "seeds = input", false},
		{"one input more", "step = input : u32[2]", "step = input : u32[2]\nmore = input : f32[]", false},
		{"ids i32", "input_ids = input : i64[1,T]", "input_ids = input : i32[1,T]", false},
		{"ids of two sequences", "input_ids = input : i64[1,T]\n", "input_ids = input : i64[2,T]\n", false},
		{"position i64", "position = input : i32[]", "position = input : i64[]", false},
		{"top_p for each row", "top_p = input : f32[]", "top_p = input : f32[1]", false},
		{"no token", "token=token, ", "", false},
		{"logits of another size", "logits=logits", "logits=hot", false},
		{"logprob of another type", "logprob=logprob", "logprob=token", false},
		{"no greedy token", "greedy=greedy, ", "", false},
		{"greedy token of another type", "greedy=greedy", "greedy=chosen", false},
		{"no probability of the greedy token", "greedy_logprob=greedy_logprob, ", "", false},
		{"another output", "logprob=logprob", "logprob=logprob, probabilities=log", true},
	} {
		graph := strings.ReplaceAll(tinymodel.Extend, c.from, c.to)
		switch {
		case c.from == "":
			graph = tinymodel.Extend
		case strings.HasPrefix(c.to, "seeds"):
			graph = strings.ReplaceAll(graph, "top_p, seed, step", "top_p, seeds, step")
		case strings.Contains(c.to, "i64[2,T]"):
			graph = strings.ReplaceAll(graph, constant, "x = const {value=1} : f32[1,T]")
		case strings.Contains(c.to, "f32[1]"):
			graph = strings.ReplaceAll(graph, "top_p = input : f32[1]",
				"top_p = input : f32[1]\nsame = reshape top_p : f32[]")
			graph = strings.ReplaceAll(graph, "top_k, top_p, seed", "top_k, same, seed")
		}
		if c.from != "" && graph == tinymodel.Extend {
			t.Fatalf("%s: nothing was changed", c.name)
		}
		if err := checkText(t, tinymodel.TextTask(), graph); c.ok != (err == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	same := strings.NewReplacer("sym R = 1..6\n", "", "T = 1..5", "T = 1..6", "i64[R]", "i64[T]", "f32[R,1]",
		"f32[T,1]", "[R]", "[T]", "bool[R,17]", "bool[T,17]").Replace(tinymodel.Extend)
	if err := checkText(t, tinymodel.TextTask(), same); err == nil ||
		!strings.Contains(err.Error(), "sizes of their own") {
		t.Errorf("one size for two inputs: %v", err)
	}
}

// move and several are methods of a batch.
const (
	move    = "graph move\nfrom = input : i32[]\nto = input : i32[]\nreturn done=from\n"
	several = `graph several
sym B = 1..3
sym R = 1..6
sym T = 1..5
input_ids = input : i64[B,T]
position = input : i32[B]
count = input : i32[B]
temperature = input : f32[]
top_k = input : i32[]
top_p = input : f32[]
min_p = input : f32[]
repeat_penalty = input : f32[]
recent = input : i64[B,R]
seed = input : u32[2]
step = input : u32[B,2]
logits = const {value=0} : f32[B,17]
token = const {value=0} : i32[B]
logprob = const {value=0} : f32[B]
return logits=logits, token=token, logprob=logprob, greedy=token, greedy_logprob=logprob
`
)

// TestCheckBatch checks that a method for several sequences must match the task in sizes.
func TestCheckBatch(t *testing.T) {
	about := tinymodel.TextTask()
	about.Batch = task.TextBatch{Method: "several", Count: "count", Sequences: 3, Move: "move", From: "from", To: "to"}
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""}, {"i64[B,T]", "i64[2,T]", "of 2 to 2 sequences; the task gives 1 to 3"},
		{"B = 1..3", "B = 1..2", "of 1 to 2 sequences"},
		{"position = input : i32[B]", "position = input : i32[]", "position is i32[]"},
		{"position = input : i32[B]", "position = input : i32[3]", "want as many sequences"},
		{"count = input : i32[B]", "count = input : i32[2]", "count is i32[2]"},
		{"f32[B,17]", "f32[B,16]", "logits is f32[B,16]"}, {"u32[B,2]", "u32[2]", "step is u32[2]"},
		{"i64[B,R]", "i64[R]", "recent is i64[R]"}, {"count", "counts", "its inputs are"},
		{"T = 1..5", "T = 1..3", "takes 1 to 3 ids"}, {"graph several", "graph few", `uses method "several"`},
		{"graph move", "graph moves", `uses method "move"`},
		{"to = input : i32[]", "to = input : i64[]", "to is i64[]"},
	} {
		graphs := several + "\x00" + move
		if c.from != "" {
			graphs = strings.ReplaceAll(graphs, c.from, c.to)
		}
		if err := checkText(
			t, about,
			append([]string{tinymodel.Extend}, strings.Split(graphs, "\x00")...)...); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in place of %s: %v; want %q", c.to, c.from, err, c.want)
		}
	}
	for n, want := range map[int32]bool{-1: false, 0: true, 2: true, 3: false} {
		if err := about.CheckInput("move", "to", tensor.Tensor{Data: tensor.Bytes([]int32{n})}); (err == nil) != want {
			t.Errorf("a move to %d: %v", n, err)
		}
	}
	for n, want := range map[int32]bool{0: false, 1: true, 5: true, 6: false} {
		if err := about.CheckInput(
			"several", "count", tensor.Tensor{Data: tensor.Bytes([]int32{1, n})}); (err == nil) != want {
			t.Errorf("a count of %d: %v", n, err)
		}
	}
}

// TestCheckPages checks that a method for several sequences whose state is in pages must match the task in sizes, and
// that no page is used that the state does not have.
func TestCheckPages(t *testing.T) {
	about := tinymodel.TextTask()
	about.Batch = inPages()
	graphs := []string{tinymodel.Extend, strings.NewReplacer("position = input", "pages = input : i32[B,5]\nposition = input",
		"f32[]", "f32[B]", "top_k = input : i32[]", "top_k = input : i32[B]", "u32[2]", "u32[B,2]").Replace(several), move}
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""}, {"i32[B,5]", "i32[B,4]", "pages is i32[B,4]"}, {"i32[B,5]", "i64[B,5]", "pages is i64[B,5]"},
		{"i32[B,5]", "i32[3,5]", "want as many sequences"}, {"pages = input", "sequence = input", "its inputs are"},
	} {
		changed := slices.Clone(graphs)
		if c.from != "" {
			changed[1] = strings.ReplaceAll(graphs[1], c.from, c.to)
		}
		if err := checkText(t, about, changed...); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in place of %s: %v; want %q", c.to, c.from, err, c.want)
		}
	}
	for n, want := range map[int32]bool{math.MinInt32: false, -1: false, 0: true, 7: true, 8: false, math.MaxInt32: false} {
		v := tensor.Tensor{Data: tensor.Bytes([]int32{1, 2, n, 3, 0})}
		if err := about.CheckInput("several", "pages", v); (err == nil) != want {
			t.Errorf("page %d: %v", n, err)
		}
		if err := about.CheckInput("move", "from", tensor.Tensor{Data: v.Data[8:12]}); (err == nil) != want {
			t.Errorf("a move of page %d: %v", n, err)
		}
	}
}

// TestCheckSlide checks a method that makes room in a full state, and the input for the number of dropped rows.
func TestCheckSlide(t *testing.T) {
	const slide = "graph slide\nfirst = input : i32[]\nreturn done=first\n"
	counts := strings.NewReplacer("position = input : i32[]",
		"position = input : i32[]\ndropped = input : i32[]\nrow = sub position, dropped : i32[]", "r1, position",
		"r1, row").Replace(tinymodel.Extend)
	about := tinymodel.TextTask()
	about.Slide = task.TextSlide{Method: "slide", First: "first", Dropped: "dropped", Keep: 7}
	for _, c := range []struct{ extend, slide, want string }{
		{counts, slide, ""}, {tinymodel.Extend, slide, "the task gives"},
		{counts, strings.Replace(slide, "i32", "i64", 1), "first is i64[]"},
		{counts, strings.Replace(slide, "first = input", "last = input", 1), "its inputs are"},
		{counts, strings.Replace(slide, "graph slide", "graph shift", 1), `uses method "slide"`},
	} {
		if strings.Contains(c.slide, "last = ") {
			c.slide = strings.ReplaceAll(c.slide, "done=first", "done=last")
		}
		if err := checkText(t, about, c.extend, c.slide); (err == nil) != (c.want == "") || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
}

// TestCheckTextInput checks that values are refused which would end a run halfway.
func TestCheckTextInput(t *testing.T) {
	f32 := func(x float64) []byte { return tensor.Bytes([]float32{float32(x)}) }
	i32 := func(x int32) []byte { return tensor.Bytes([]int32{x}) }
	s := tinymodel.TextTask()
	for _, c := range []struct {
		input string
		data  []byte
		want  string
	}{
		{"input_ids", tensor.Bytes([]int64{0, 16}), ""},
		{"input_ids", tensor.Bytes([]int64{0, 17}), "id 1 is 17; the vocabulary has 0 to 16"},
		{"recent", tensor.Bytes([]int64{-1}), "id 0 is -1"}, {"position", i32(23), ""},
		{"position", i32(24), "is 24; the context has 0 to 23"},
		{"position", i32(-1), "is -1"}, {"top_k", i32(17), ""}, {"top_k", i32(18), "0 (off) to 17"},
		{"top_p", f32(1), ""}, {"top_p", f32(1.5), "0 to 1"},
		{"min_p", f32(math.NaN()), "0 to 1"}, {"temperature", f32(math.Inf(1)), "finite"},
		{"repeat_penalty", f32(0), "positive"}, {"repeat_penalty", f32(1.1), ""},
	} {
		err := s.CheckInput("extend", c.input, tensor.Tensor{Data: c.data})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v; want %q", c.input, c.data, err, c.want)
		}
		if err := s.CheckInput("forward", c.input, tensor.Tensor{Data: c.data}); err != nil {
			t.Errorf("an input of another method: %v", err)
		}
	}
}
