package format

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/task"
)

// A task that names nothing known, or numbers out of range, has the code of core/task.
func TestBadTask(t *testing.T) {
	for name, change := range map[string]func(*task.Segment){
		"size":   func(s *task.Segment) { s.Size = 0 },
		"resize": func(s *task.Segment) { s.Resize = "stretch" },
		"std":    func(s *task.Segment) { s.Std[1] = 0 },
		"best":   func(s *task.Segment) { s.BestLast = 4 },
	} {
		f := forge(t)
		change(f.c.meta.Segment)
		if _, err := verifyBytes(f.file()); !errors.Is(err, task.CodeSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*task.Segment){
		"image method":      func(s *task.Segment) { s.ImageMethod = "encode" },
		"no image method":   func(s *task.Segment) { s.ImageMethod = "see" },
		"image":             func(s *task.Segment) { s.ImageInput = "x" },
		"embedding":         func(s *task.Segment) { s.Embedding = "e" },
		"prompt method":     func(s *task.Segment) { s.PromptMethod = "decode" },
		"no prompt method":  func(s *task.Segment) { s.PromptMethod = "see" },
		"embedding input":   func(s *task.Segment) { s.EmbeddingInput = "e" },
		"points":            func(s *task.Segment) { s.PointsInput = "p" },
		"points as labels":  func(s *task.Segment) { s.PointsInput, s.LabelsInput = s.LabelsInput, s.PointsInput },
		"one input twice":   func(s *task.Segment) { s.PointsInput = s.EmbeddingInput },
		"labels":            func(s *task.Segment) { s.LabelsInput = "l" },
		"masks":             func(s *task.Segment) { s.MasksOutput = "m" },
		"masks and quality": func(s *task.Segment) { s.MasksOutput, s.IoUOutput = s.IoUOutput, s.MasksOutput },
		"quality":           func(s *task.Segment) { s.IoUOutput = "q" },
		"size of the image": func(s *task.Segment) { s.Size = 9 },
		"tokens":            func(s *task.Segment) { s.Tokens = 5 },
		"more points":       func(s *task.Segment) { s.MaxPoints = 5 },
	} {
		f := forge(t)
		change(f.c.meta.Segment)
		if _, err := verifyBytes(f.file()); !errors.Is(err, CodeOf(27)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// checkTaskOf checks the test artifact's task on other methods.
func checkTaskOf(t *testing.T, image, prompt string) error {
	t.Helper()
	a, _ := testArtifact(t)
	dir, err := Layout(nil)
	if err != nil {
		t.Fatal(err)
	}
	a.Programs = []*program.Program{build(t, image, "cpu", dir), build(t, prompt, "cpu", dir)}
	_, err = newWriter(a, dir)
	return err
}

// TestTaskTypes: every size and element type that the task depends on is compared with the methods.
func TestTaskTypes(t *testing.T) {
	if err := checkTaskOf(t, imageText, promptText); err != nil {
		t.Fatal(err)
	}
	const constant = "q = const {value=0.5} : f32[1,4]"
	for _, c := range []struct {
		name, from, to string // replaced in both texts
		ok             bool
	}{
		{"points 2..64", "N = 1..4", "N = 2..64", true},
		{"points 3..4", "N = 1..4", "N = 3..4", false},
		{"points 1..3", "N = 1..4", "N = 1..3", false},
		{"even numbers of points", "1,N", "1,2*N", false},
		{"points with three coordinates", "[1,N,2]", "[1,N,3]", false},
		{"two batches of points", "[1,N,2]", "[2,N,2]", false},
		{"points f16", "points = input : f32", "points = input : f16", false},
		{"labels f32", "i32[1,N]", "f32[1,N]", false},
		{"labels of another number", "i32[1,N]", "i32[1,N+1]", false},
		{"labels without a batch", "i32[1,N]", "i32[N]", false},
		{"image of another size", "[1,3,8,8]", "[1,3,8,9]", false},
		{"image of four channels", "[1,3,8,8]", "[1,4,8,8]", false},
		{"image f16", "pixels = input : f32[1,3,8,8]\ne = reduce_sum pixels {axes=[1,2,3]}",
			"pixels = input : f16[1,3,8,8]\np = cast pixels {to=f32} : f32[1,3,8,8]\ne = reduce_sum p {axes=[1,2,3]}", false},
		{"embedding of another shape", "keep", "e = reduce_sum pixels {axes=[1,2]} : f32[1,8]", false},
		{"embedding input of another shape", "embeddings = input : f32[1]", "embeddings = input : f32[1,1]", false},
		{"another input", "labels = input", "more = input : f32[1]\nlabels = input", false},
		{"another input of the image method", "pixels = input", "more = input : f32[1]\npixels = input", false},
		{"rank of the masks", "f32[1,4,3,5]\nq = reduce_max m {axes=[2,3]}", "f32[1,4,3]\nq = reduce_max m {axes=[2]}", false},
		{"one mask too few", "f32[1,4", "f32[1,3", false},
		{"wide masks", "f32[1,4,3,5]\nq = reduce_max m {axes=[2,3]} : f32[1,4]", "f32[1,4,3,16384]\n" + constant, true},
		{"too wide masks", "f32[1,4,3,5]\nq = reduce_max m {axes=[2,3]} : f32[1,4]", "f32[1,4,3,16385]\n" + constant, false},
		{"quality of another rank", "{axes=[2,3]} : f32[1,4]", "{axes=[2,3], keep_dims=true} : f32[1,4,1,1]", false},
		{"quality f16", "q = reduce_max m {axes=[2,3]} : f32[1,4]", "q = const {value=0.5} : f16[1,4]", false},
		{"dynamic masks", "m = expand embeddings : f32[1,4,3,5]", "m = iota {axis=1} : f32[1,4,N,5]", true},
	} {
		image, prompt := strings.Replace(imageText, c.from, c.to, 1), strings.ReplaceAll(promptText, c.from, c.to)
		if c.from == "keep" {
			image = strings.Replace(imageText, "e = reduce_sum pixels {axes=[1,2,3]} : f32[1]", c.to, 1)
		}
		if image == imageText && prompt == promptText {
			t.Fatalf("%s: nothing was changed", c.name)
		}
		err := checkTaskOf(t, image, prompt)
		if c.ok && err != nil || !c.ok && !errors.Is(err, CodeOf(27)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestTaskEmbedding: nothing gives the symbols in the type of an embedding a value.
func TestTaskEmbedding(t *testing.T) {
	const sized = "graph image\nsym N = 1..1\npixels = input : f32[1,3,8,8]\ne = iota : f32[N]\nreturn embeddings=e\n"
	prompt := strings.NewReplacer("embeddings = input : f32[1]", "embeddings = input : f32[N]", "expand embeddings", "iota {axis=1}").Replace(promptText)
	if err := checkTaskOf(t, sized, prompt); !errors.Is(err, CodeOf(27)) {
		t.Error(err)
	}
}

// TestSegmentEmpty: masks without rows or columns, always or for some value of a symbol, are no masks.
func TestSegmentEmpty(t *testing.T) {
	const sized = "m = expand embeddings : f32[1,4,3,5]\nq = reduce_max m {axes=[2,3]} : f32[1,4]"
	for _, c := range []struct{ syms, shape string }{
		{"sym N = 1..4", "[1,4,0,5]"}, {"sym N = 1..4", "[1,4,3,0]"}, {"sym N = 0..4", "[1,4,N,5]"}, {"sym N = 1..4", "[1,4,3,N-1]"}, {"sym N = 1..4", "[1,4,-1*N+4,5]"},
	} {
		prompt := strings.Replace(promptText, sized, "m = iota {axis=1} : f32"+c.shape+"\nq = const {value=0.5} : f32[1,4]", 1)
		prompt = strings.Replace(prompt, "sym N = 1..4", c.syms, 1)
		if err := checkTaskOf(t, imageText, prompt); !errors.Is(err, CodeOf(27)) {
			t.Errorf("masks of shape %s with %s: %v", c.shape, c.syms, err)
		}
	}
}
