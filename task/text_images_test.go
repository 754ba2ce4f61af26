package task_test

import (
	"math"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
)

func imagesTask() *task.Text {
	t := tinymodel.TextTask()
	t.Images = task.TextImages{Append: "append_image", Features: "features", Grid: "grid", MaxPixels: 1024,
		MaxTokens: 16, Merge: 2, Method: "embed_image", MinPixels: 64, Patch: 4, Patches: "patches", Rotary: "rotary",
		Std: [3]float64{1, 1, 1}, Token: 15, Video: -1}
	return t
}

// TestCheckImages checks that the methods for images must match the task in names, types and sizes.
func TestCheckImages(t *testing.T) {
	const see = "graph embed_image\nsym N = 1..16\npatches = input : f32[4*N,48]\ngrid = input : i32[2]\n" +
		"x = reshape patches : f32[N,192]\nf = narrow x {axis=1,start=0,len=24} : f32[N,24]\nreturn features=f\n"
	const add = "graph append_image\nsym T = 1..5\nfeatures = input : f32[T,24]\nposition = input : i32[]\n" +
		"rotary = input : i32[3,T]\nd = const {value=0} : i32[]\nreturn done=d\n"
	extend := strings.Replace(tinymodel.Extend, "step = input : u32[2]",
		"step = input : u32[2]\nrotary = input : i32[3,T]", 1)
	all := strings.Join([]string{extend, see, add}, "\x00")
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{"N = 1..16", "N = 1..64", ""},
		{"N = 1..16", "N = 1..15", "rows for each of 1 to 16"},
		{"N = 1..16", "N = 2..16", "rows for each of 1 to 16"},
		{"f32[4*N,48]", "f32[192*N,1]", "patches is f32[192*N,1]; want f32"},
		{"grid = input : i32[2]", "grid = input : i64[2]", "grid is i64[2]; want i32"},
		{"features=f", "features=x", "input features is f32[T,24]"},
		{"features=f", "other=f", `output "features" is not there`},
		{"graph embed_image", "graph see", `uses method "embed_image"`},
		{"graph append_image", "graph add", `uses method "append_image"`},
		{"sym T = 1..5\nfeatures", "sym T = 1..4\nfeatures", "want 1 to 5 rows"},
		{"position = input : i32[]\nrotary = input : i32[3,T]", "position = input : i32[]\nrotary = input : i32[3,5]",
			"as many columns"},
		{"u32[2]\nrotary = input : i32[3,T]", "u32[2]\nrotary = input : i32[4,T]", "rotary is i32[4,T]"},
		{"u32[2]\nrotary = input : i32[3,T]", "u32[2]\nrotary = input : i32[3,5]",
			"want a column for each of T tokens"},
		{"u32[2]\nrotary = input : i32[3,T]", "u32[2]", "rotary"},
	} {
		graphs := strings.ReplaceAll(all, c.from, c.to)
		if c.from == "" {
			graphs = all
		} else if graphs == all {
			t.Fatalf("%q is not there", c.from)
		}
		err := checkText(t, imagesTask(), strings.Split(graphs, "\x00")...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in place of %s: %v; want %q", c.to, c.from, err, c.want)
		}
	}
}

// TestValidateImages checks that a description is complete, and that its numbers are in range.
func TestValidateImages(t *testing.T) {
	if err := imagesTask().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(t *task.Text){
		"no name":   func(t *task.Text) { t.Images.Grid = "" },
		"no method": func(t *task.Text) { t.Images.Method = "" },
		"patch":     func(t *task.Text) { t.Images.Patch = 0 },
		"merge":     func(t *task.Text) { t.Images.Merge = 65 },
		"pixels":    func(t *task.Text) { t.Images.MinPixels = 1025 },
		"tokens":    func(t *task.Text) { t.Images.MaxTokens = 25 },
		"no tokens": func(t *task.Text) { t.Images.MaxTokens = 0 },
		"token":     func(t *task.Text) { t.Images.Token = 17 },
		"video":     func(t *task.Text) { t.Images.Video = -2 },
		"std":       func(t *task.Text) { t.Images.Std[1] = 0 },
		"mean":      func(t *task.Text) { t.Images.Mean[2] = math.NaN() },
		"with a window": func(t *task.Text) {
			t.Slide = task.TextSlide{Method: "a", Dropped: "b", First: "c", Keep: 3}
		},
		"a batch alone": func(t *task.Text) {
			t.Batch = task.TextBatch{Method: "a", Count: "b", Move: "c", From: "d", To: "e", Sequence: "f", Row: "g",
				Rows: 1, Sequences: 2}
		},
		"sequence alone": func(t *task.Text) { t.Images.Sequence = "sequence" },
	} {
		about := imagesTask()
		if spoil(about); about.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestImageInputs checks the rows and columns of an image, and the position of its blocks.
func TestImageInputs(t *testing.T) {
	about := imagesTask()
	numbers := func(n ...int32) tensor.Tensor {
		return tensor.Tensor{DType: dtype.I32, Shape: []int{len(n)}, Data: tensor.Bytes(n)}
	}
	for _, c := range []struct {
		method, input string
		value         tensor.Tensor
		ok            bool
	}{
		{"embed_image", "grid", numbers(2, 32), true}, {"embed_image", "grid", numbers(2, 3), false},
		{"embed_image", "grid", numbers(0, 2), false}, {"embed_image", "grid", numbers(2, -2), false},
		{"embed_image", "grid", numbers(34, 2), false}, {"append_image", "position", numbers(23), true},
		{"append_image", "position", numbers(24), false}, {"append_image", "position", numbers(-1), false},
	} {
		if err := about.CheckInput(c.method, c.input, c.value); (err == nil) != c.ok {
			t.Errorf("%s %s %v: %v", c.method, c.input, c.value, err)
		}
	}
}
