package task_test

import (
	"cmp"
	"math"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
)

// check compares a task with the methods in the texts.
func checkSegment(t *testing.T, s *task.Segment, texts ...string) error {
	t.Helper()
	err := s.Check(methodsOf(t, texts...))
	if err != nil && !strings.HasPrefix(err.Error(), "the task ") {
		t.Errorf("%v", err)
	}
	return err
}

// TestCheckNames checks that methods, inputs and outputs exist under the names in the task, with the sizes in the task.
func TestCheckNames(t *testing.T) {
	for name, change := range map[string]func(*task.Segment){
		"features":          func(s *task.Segment) { s.Features = []string{"f"} },
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
		s := tinymodel.SmallTask()
		change(s)
		if checkSegment(t, s, tinymodel.Image, tinymodel.Prompt) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCheckTypes checks that every size and element type that the task depends on is compared with the methods.
func TestCheckTypes(t *testing.T) {
	if err := checkSegment(t, tinymodel.SmallTask(), tinymodel.Image, tinymodel.Prompt); err != nil {
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
			"pixels = input : f16[1,3,8,8]\np = cast pixels {to=f32} : f32[1,3,8,8]\ne = reduce_sum p {axes=[1,2,3]}",
			false},
		{"embedding of another shape", "keep", "e = reduce_sum pixels {axes=[1,2]} : f32[1,8]", false},
		{"embedding input of another shape", "embeddings = input : f32[1]", "embeddings = input : f32[1,1]", false},
		{"another input", "labels = input", "more = input : f32[1]\nlabels = input", false},
		{"another input of the image method", "pixels = input", "more = input : f32[1]\npixels = input", false},
		{"rank of the masks", "f32[1,4,3,5]\nq = reduce_max m {axes=[2,3]}", "f32[1,4,3]\nq = reduce_max m {axes=[2]}",
			false},
		{"one mask too few", "f32[1,4", "f32[1,3", false},
		{"wide masks", "f32[1,4,3,5]\nq = reduce_max m {axes=[2,3]} : f32[1,4]", "f32[1,4,3,16384]\n" + constant, true},
		{"too wide masks", "f32[1,4,3,5]\nq = reduce_max m {axes=[2,3]} : f32[1,4]", "f32[1,4,3,16385]\n" + constant,
			false},
		{"quality of another rank", "{axes=[2,3]} : f32[1,4]", "{axes=[2,3], keep_dims=true} : f32[1,4,1,1]", false},
		{"quality f16", "q = reduce_max m {axes=[2,3]} : f32[1,4]", "q = const {value=0.5} : f16[1,4]", false},
		{"dynamic masks", "m = expand embeddings : f32[1,4,3,5]", "m = iota {axis=1} : f32[1,4,N,5]", true},
	} {
		image, prompt := strings.Replace(tinymodel.Image, c.from, c.to, 1),
			strings.ReplaceAll(tinymodel.Prompt, c.from, c.to)
		if c.from == "keep" {
			image = strings.Replace(tinymodel.Image, "e = reduce_sum pixels {axes=[1,2,3]} : f32[1]", c.to, 1)
		}
		if image == tinymodel.Image && prompt == tinymodel.Prompt {
			t.Fatalf("%s: nothing was changed", c.name)
		}
		err := checkSegment(t, tinymodel.SmallTask(), image, prompt)
		if c.ok != (err == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestCheckEmbedding checks that the type of an embedding may not have symbols, because no input gives them a value.
func TestCheckEmbedding(t *testing.T) {
	const sized = "graph image\nsym N = 1..1\npixels = input : f32[1,3,8,8]\ne = iota : f32[N]\nreturn embeddings=e\n"
	prompt := strings.NewReplacer("embeddings = input : f32[1]", "embeddings = input : f32[N]", "expand embeddings",
		"iota {axis=1}").Replace(tinymodel.Prompt)
	if err := checkSegment(t, tinymodel.SmallTask(), sized, prompt); err == nil {
		t.Error("no error")
	}
}

// TestCheckEmpty checks that masks must have rows and columns for all values of the symbols.
func TestCheckEmpty(t *testing.T) {
	const sized = "m = expand embeddings : f32[1,4,3,5]\nq = reduce_max m {axes=[2,3]} : f32[1,4]"
	for _, c := range []struct{ syms, shape string }{
		{"sym N = 1..4", "[1,4,0,5]"}, {"sym N = 1..4", "[1,4,3,0]"}, {"sym N = 0..4", "[1,4,N,5]"},
		{"sym N = 1..4", "[1,4,3,N-1]"}, {"sym N = 1..4", "[1,4,-1*N+4,5]"},
	} {
		prompt := strings.Replace(
			tinymodel.Prompt, sized, "m = iota {axis=1} : f32"+c.shape+"\nq = const {value=0.5} : f32[1,4]", 1)
		prompt = strings.Replace(prompt, "sym N = 1..4", c.syms, 1)
		if err := checkSegment(t, tinymodel.SmallTask(), tinymodel.Image, prompt); err == nil {
			t.Errorf("masks of shape %s with %s: no error", c.shape, c.syms)
		}
	}
}

// TestCheckSegmentInput checks that labels must be those of the task, and that other inputs are accepted.
func TestCheckSegmentInput(t *testing.T) {
	s := tinymodel.SmallTask()
	labels := append(make([]byte, 1), tensor.Bytes([]int32{1, -1, 0, 2, 3})...)[1:] // not aligned
	if err := s.CheckInput("prompt", "labels", tensor.Tensor{Data: labels}); err != nil {
		t.Error(err)
	}
	bad := tensor.Tensor{Data: tensor.Bytes([]int32{1, 4})}
	const want = "label 1 is 4; allowed are 1 (foreground), 0 (background), 2 and 3 (corners of a box) and -1 (padding)"
	if err := s.CheckInput("prompt", "labels", bad); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	for _, other := range [][2]string{{"image", "labels"}, {"prompt", "points"}} {
		if err := s.CheckInput(other[0], other[1], bad); err != nil {
			t.Errorf("%v: %v", other, err)
		}
	}
}

// masked returns the small task with masks of 3x3, and the texts of its prompt method and of a method for up to 6
// prompts.
func masked() (s *task.Segment, prompt, batch string) {
	s = tinymodel.SmallTask()
	s.MaskInput, s.MaskSide, s.BatchMethod, s.MaxPrompts = "mask", 3, "batch", 6
	prompt = strings.Replace(tinymodel.Prompt, "labels = input : i32[1,N]",
		"labels = input : i32[1,N]\nmask = input : f32[1,1,3,3]", 1)
	batch = strings.NewReplacer("graph prompt", "graph batch", "sym N = 1..4", "sym N = 1..4\nsym P = 1..6", "[1,N",
		"[P,N", "f32[1,4", "f32[P,4").Replace(tinymodel.Prompt)
	return s, prompt, batch
}

// TestCheckMasked checks the mask input of the prompt method, and the method for several prompts.
func TestCheckMasked(t *testing.T) {
	s, prompt, batch := masked()
	if err := checkSegment(t, s, tinymodel.Image, prompt, batch); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change        func(*task.Segment)
		prompt, batch string
	}{
		"a method without the mask":   {prompt: tinymodel.Prompt},
		"a mask that is not declared": {change: func(s *task.Segment) { s.MaskInput, s.MaskSide = "", 0 }},
		"a mask of another side":      {change: func(s *task.Segment) { s.MaskSide = 4 }},
		"a mask of another type": {
			prompt: strings.Replace(prompt, "mask = input : f32", "mask = input : f16", 1)},
		"no method for several": {batch: " "},
		"a mask for several": {
			batch: strings.Replace(batch, "labels = input", "mask = input : f32[1,1,3,3]\nlabels = input", 1)},
		"fewer prompts":          {change: func(s *task.Segment) { s.MaxPrompts = 7 }},
		"two prompts or more":    {batch: strings.Replace(batch, "P = 1..6", "P = 2..6", 1)},
		"one prompt for several": {batch: strings.Replace(tinymodel.Prompt, "graph prompt", "graph batch", 1)},
		"several prompts in the single": {
			prompt: strings.NewReplacer("graph batch", "graph prompt", "labels = input : i32[P,N]",
				"labels = input : i32[P,N]\nmask = input : f32[1,1,3,3]").Replace(batch)},
		"masks of one prompt": {
			batch: strings.NewReplacer("f32[P,4,3,5]", "f32[1,4,3,5]", ": f32[P,4]\n", ": f32[1,4]\n").Replace(batch)},
		"another embedding for several": {
			batch: strings.Replace(batch, "embeddings = input : f32[1]", "embeddings = input : f32[1,1]", 1)},
		"labels of another size in each": {batch: strings.Replace(batch, "i32[P,N]", "i32[N,P]", 1)},
	} {
		s, prompt, batch := masked()
		if c.change != nil {
			c.change(s)
		}
		texts := []string{tinymodel.Image, cmp.Or(c.prompt, prompt)}
		if c.batch != " " {
			texts = append(texts, cmp.Or(c.batch, batch))
		}
		if err := checkSegment(t, s, texts...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCheckMask checks that a mask must be finite, or NaN throughout, which stands for a mask that is left out.
func TestCheckMask(t *testing.T) {
	s, _, _ := masked()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		mask []float32
		ok   bool
	}{{[]float32{1, -2, 0}, true}, {[]float32{nan, nan, nan}, true}, {[]float32{1, nan, 0}, false},
		{[]float32{nan, nan, 0}, false}, {[]float32{1, inf, 0}, false}} {
		if err := s.CheckInput("prompt", "mask", tensor.Tensor{Data: tensor.Bytes(c.mask)}); c.ok != (err == nil) {
			t.Errorf("%v: %v", c.mask, err)
		}
	}
	for _, c := range []struct {
		method, input string
		ok            bool
	}{{"prompt", "mask", true}, {"prompt", "labels", false}, {"batch", "mask", false}, {"image", "mask", false}} {
		if v, ok := s.Default(c.method, c.input); ok != c.ok || ok && v == v {
			t.Errorf("%v: %v %v", c, v, ok)
		}
	}
	if _, ok := tinymodel.SmallTask().Default("prompt", "mask"); ok {
		t.Error("a task without a mask has a default for it")
	}
	if err := s.CheckInput("batch", "labels", tensor.Tensor{Data: tensor.Bytes([]int32{9})}); err == nil {
		t.Error("label 9 of several prompts: no error")
	}
}
