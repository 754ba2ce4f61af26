package task_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
)

// methodsOf returns the signatures of methods in the text form.
func methodsOf(t *testing.T, texts ...string) (out task.Methods) {
	t.Helper()
	for _, text := range texts {
		g, err := ir.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		m := task.Method{Name: g.Name, Syms: g.Syms}
		for _, n := range g.Inputs() {
			m.Inputs = append(m.Inputs, task.Value{Name: n.Name, Type: n.Type})
		}
		for _, o := range g.Outputs {
			m.Outputs = append(m.Outputs, task.Value{Name: o.Name, Type: o.Node.Type})
		}
		out = append(out, m)
	}
	return out
}

var clicksOf = tinymodel.ConceptsClicks

func TestValidateConcepts(t *testing.T) {
	if err := tinymodel.ConceptsTask().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(c *task.Concepts){
		"image method":     func(c *task.Concepts) { c.ImageMethod = "" },
		"masks":            func(c *task.Concepts) { c.MasksOutput = "" },
		"any text":         func(c *task.Concepts) { c.AnyText = "" },
		"no features":      func(c *task.Concepts) { c.Features = nil },
		"features":         func(c *task.Concepts) { c.Features = []string{""} },
		"many features":    func(c *task.Concepts) { c.Features = make([]string, 17) },
		"half examples":    func(c *task.Concepts) { c.ExamplesInput = "" },
		"no examples":      func(c *task.Concepts) { c.MaxExamples = 0 },
		"few examples":     func(c *task.Concepts) { c.MaxExamples = -1 },
		"many examples":    func(c *task.Concepts) { c.MaxExamples = 1 << 20 },
		"size":             func(c *task.Concepts) { c.Size = 0 },
		"queries":          func(c *task.Concepts) { c.Queries = 1 << 20 },
		"tokens":           func(c *task.Concepts) { c.MaxTokens = 0 },
		"vocabulary":       func(c *task.Concepts) { c.Vocabulary = 1 << 30 },
		"resize":           func(c *task.Concepts) { c.Resize = task.ResizeLongestSide },
		"std":              func(c *task.Concepts) { c.Std[2] = 0 },
		"mean":             func(c *task.Concepts) { c.Mean[0] = math.NaN() },
		"threshold":        func(c *task.Concepts) { c.Threshold = 1.5 },
		"clicks in part":   func(c *task.Concepts) { c.Clicks.MaxPoints = 2 },
		"wrong clicks":     func(c *task.Concepts) { c.Clicks = clicksOf(c); c.Clicks.Tokens = 0 },
		"another image":    func(c *task.Concepts) { c.Clicks = clicksOf(c); c.Clicks.Size = 16 },
		"another method":   func(c *task.Concepts) { c.Clicks = clicksOf(c); c.Clicks.ImageMethod = "x" },
		"another scale":    func(c *task.Concepts) { c.Clicks = clicksOf(c); c.Clicks.Std[1] = 1 },
		"mask threshold":   func(c *task.Concepts) { c.MaskThreshold = math.NaN() },
		"negative queries": func(c *task.Concepts) { c.Queries = -1 },
	} {
		c := tinymodel.ConceptsTask()
		spoil(c)
		if err := c.Validate(); !errors.Is(err, code.TaskSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckConcepts checks that every name and size that the task depends on is compared with the methods.
func TestCheckConcepts(t *testing.T) {
	all := []string{tinymodel.See, tinymodel.Words, tinymodel.Find, tinymodel.FindLike}
	if err := tinymodel.ConceptsTask().Check(methodsOf(t, all...)); err != nil {
		t.Fatal(err)
	}
	alone := tinymodel.ConceptsTask()
	alone.ExamplesMethod, alone.ExamplesInput, alone.LabelsInput, alone.MaxExamples = "", "", "", 0
	if err := alone.Check(methodsOf(t, all[:3]...)); err != nil {
		t.Error(err)
	}
	both := tinymodel.ConceptsTask()
	both.Clicks = tinymodel.ConceptsClicks(both)
	if err := both.Check(methodsOf(t, append(all, tinymodel.Decode)...)); err != nil || both.Validate() != nil {
		t.Error(err, both.Validate())
	}
	if err := both.Check(methodsOf(t, all...)); err == nil || !strings.Contains(err.Error(), `"decode"`) {
		t.Errorf("without the method of clicks: %v", err)
	}
	if task.Clicks(both) != &both.Clicks || task.Clicks(alone) != nil || task.Clicks(&both.Clicks) != &both.Clicks {
		t.Error("Clicks returns another task")
	}
	for name, change := range map[string]func(*task.Concepts){
		"no such method": func(c *task.Concepts) { c.TextMethod = "say" },
		"size":           func(c *task.Concepts) { c.Size = 9 },
		"features":       func(c *task.Concepts) { c.Features = []string{"f"} },
		"ids":            func(c *task.Concepts) { c.IDsInput = "tokens" },
		"text":           func(c *task.Concepts) { c.Text = "words" },
		"queries":        func(c *task.Concepts) { c.Queries = 4 },
		"tokens":         func(c *task.Concepts) { c.MaxTokens = 7 },
		"examples":       func(c *task.Concepts) { c.ExamplesInput = "boxes" },
		"more examples":  func(c *task.Concepts) { c.MaxExamples = 3 },
		"no examples":    func(c *task.Concepts) { c.ExamplesMethod = "find" },
		"logits":         func(c *task.Concepts) { c.LogitsOutput = "masks" },
		"presence":       func(c *task.Concepts) { c.PresenceOutput = "p" },
	} {
		c := tinymodel.ConceptsTask()
		change(c)
		if err := c.Check(methodsOf(t, all...)); err == nil || !strings.HasPrefix(err.Error(), "the task ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		method   int
		from, to string
	}{
		{1, "t = reshape x : f32[1,N,1]", "t = reshape x : f32[1,1,N]"},
		{1, "ids = input : i32", "ids = input : i64"},
		{2, "text = input : f32[1,N,1]\nm = reduce_mean text {axes=[1]}",
			"text = input : f32[1,N,2]\nw = narrow text {axis=2, len=1} : f32[1,N,1]\nm = reduce_mean w {axes=[1]}"},
		{2, "sym N = 1..6", "sym N = 1..5"},
		{3, "labels = input : i32[1,M]", "labels = input : i32[1,N]"},
		{3, "sym M = 1..2", "sym M = 2..2"},
	} {
		texts := slices.Clone(all)
		texts[c.method] = strings.Replace(texts[c.method], c.from, c.to, 1)
		if c.to == "labels = input : i32[1,N]" {
			texts[3] = strings.Replace(texts[3], "l = cast labels {to=f32} : f32[1,M]",
				"l = cast labels {to=f32} : f32[1,N]", 1)
		}
		if texts[c.method] == all[c.method] {
			t.Fatalf("%q: nothing was changed", c.from)
		}
		if tinymodel.ConceptsTask().Check(methodsOf(t, texts...)) == nil {
			t.Errorf("%s: no error", c.to)
		}
	}
}

// TestConceptsInput checks that ids, labels and examples must be those that the model can use.
func TestConceptsInput(t *testing.T) {
	c := tinymodel.ConceptsTask()
	if _, ok := c.Default("decode", "mask"); ok {
		t.Error("without clicks a mask may be left out")
	}
	c.Clicks = clicksOf(c)
	c.Clicks.MaskInput, c.Clicks.MaskSide = "mask", 8
	if v, ok := c.Default("decode", "mask"); !ok || v == v {
		t.Errorf("the default of a mask is %v, %v", v, ok)
	}
	ints := func(v ...int32) tensor.Tensor { return tensor.Tensor{Data: tensor.Bytes(v)} }
	floats := func(v ...float32) tensor.Tensor { return tensor.Tensor{Data: tensor.Bytes(v)} }
	for _, x := range []struct {
		method, input string
		v             tensor.Tensor
		want          string
	}{
		{"words", "ids", ints(0, 16), ""},
		{"words", "ids", ints(3, 17), "id 1 is 17; allowed are 0 to 16"},
		{"words", "ids", ints(-1), "id 0 is -1; allowed are 0 to 16"},
		{"find_like", "labels", ints(0, 1), ""},
		{"find_like", "labels", ints(2), "label 0 is 2; allowed are 0 to 1"},
		{"find_like", "examples", floats(0, 1, 0.5, 0.25), ""},
		{"find_like", "examples", floats(0, 0, 0, 0, 0, 1.5, 0, 0),
			"number 1 of example 1 is 1.5; allowed are 0 to 1, parts of the image"},
		{"find_like", "examples", floats(float32(math.NaN())), "number 0 of example 0 is NaN"},
		{"find", "text", floats(9), ""},
		{"decode", "labels", ints(2, 3, -1), ""},
		{"decode", "labels", ints(4), "label 0 is 4; allowed are 1 (foreground)"},
	} {
		err := c.CheckInput(x.method, x.input, x.v)
		if (err == nil) != (x.want == "") || err != nil && !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%s of %s: %v; want %q", x.input, x.method, err, x.want)
		}
	}
}
