package train_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/train"
)

// artifact compiles the golden model for adapters once, with batches of 2 x 7 tokens.
var artifact = sync.OnceValue(func() string {
	path := rlxtest.Scratch("adapters.rlx")
	rlxtest.Compile(path, goldens+"train_lora/model", "--target", "cpu", "--train", "lora=4", "--train-batch", "2",
		"--train-tokens", "7")
	return path
})

// corpus returns n ids of the golden model's vocabulary, 97.
func corpus(n int) (ids []int) {
	for i := range n {
		ids = append(ids, (i*i+3*i)%97)
	}
	return ids
}

func trainer(t *testing.T, threads int, ids []int, o train.Options) *train.Trainer {
	t.Helper()
	s := rlxtest.Session(t, rlxtest.Open(t, artifact()), rlx.Options{Threads: threads})
	tr, err := train.New(t.Context(), s, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// steps trains until there are n steps.
func steps(t *testing.T, tr *train.Trainer, n int) {
	t.Helper()
	for tr.Done() < n {
		if _, err := tr.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func exported(t *testing.T, tr *train.Trainer) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tr.State().Export(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestResume goes on from a checkpoint in another process of the backend, with another number of threads: the values
// and the losses have the same bits as without the interruption.
func TestResume(t *testing.T) {
	o := train.Options{Settings: train.Defaults(12)}
	o.Seed = 7
	whole := trainer(t, 1, corpus(100), o)
	steps(t, whole, 12)
	first := trainer(t, 2, corpus(100), o)
	path := filepath.Join(t.TempDir(), "c.safetensors")
	steps(t, first, 5)
	if err := first.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	steps(t, first, 6) // lost
	second := trainer(t, 1, corpus(100), o)
	if err := second.Resume(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if second.Done() != 5 {
		t.Fatalf("goes on after step %d; want 5", second.Done())
	}
	steps(t, second, 12)
	if !slices.Equal(second.Losses(), whole.Losses()) {
		t.Errorf("losses %v; want %v", second.Losses(), whole.Losses())
	}
	whole.State().Meta, second.State().Meta = nil, nil
	if !bytes.Equal(exported(t, second), exported(t, whole)) {
		t.Error("the values differ")
	}

	other := o
	other.LearningRate *= 2
	for what, tr := range map[string]*train.Trainer{
		"another rate": trainer(t, 1, corpus(100), other), "another text": trainer(t, 1, corpus(101), o)} {
		rlxtest.WantError(t, what, tr.Resume(t.Context(), path), train.ErrResume)
		if tr.Done() != 0 {
			t.Errorf("%s: the trainer has %d steps", what, tr.Done())
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := trainer(t, 1, corpus(100), o).Resume(t.Context(), path); err == nil {
		t.Error("a damaged checkpoint is accepted")
	}
}

// TestOrder checks that each pass takes every sequence once, and that the order follows from the seed.
func TestOrder(t *testing.T) {
	losses := func(seed uint64) []float32 {
		o := train.Options{Settings: train.Defaults(6)}
		o.Seed, o.LearningRate = seed, 0 // so that the loss tells the batch
		tr := trainer(t, 0, corpus(7*6+1), o)
		steps(t, tr, 6) // two passes through six sequences
		return tr.Losses()
	}
	a, b, c := losses(1), losses(1), losses(2)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("seed 1: %v, again %v; seed 2: %v", a, b, c)
	}
	sum := func(x []float32) (s float64) {
		for _, v := range x {
			s += float64(v)
		}
		return s
	}
	if d := sum(a[:3]) - sum(a[3:]); math.Abs(d) > 1e-4 || slices.Equal(a[:3], a[3:]) {
		t.Errorf("passes %v and %v; want the same sequences in another order", a[:3], a[3:])
	}
}

// TestBadInput checks texts, settings and values that cannot be trained.
func TestBadInput(t *testing.T) {
	m := rlxtest.Open(t, artifact())
	s := rlxtest.Session(t, m, rlx.Options{Threads: 1})
	good := train.Options{Settings: train.Defaults(3)}
	with := func(change func(o *train.Options)) train.Options {
		o := good
		change(&o)
		return o
	}
	for what, c := range map[string]struct {
		ids  []int
		o    train.Options
		want error
		text string
	}{
		"empty":      {nil, good, train.ErrText, "has 0 tokens; a sequence takes 7, and one more"},
		"short":      {corpus(7), good, train.ErrText, "has 7 tokens"},
		"vocabulary": {append(corpus(20), 97), good, train.ErrText, "token 20 is 97; the vocabulary has 0 to 96"},
		"no steps":   {corpus(20), with(func(o *train.Options) { o.Steps = 0 }), diag.Usage, "steps: is 0"},
		"NaN rate": {corpus(20), with(func(o *train.Options) { o.LearningRate = math.NaN() }), diag.Usage,
			"lr: is NaN"},
		"beta":     {corpus(20), with(func(o *train.Options) { o.Beta2 = 1 }), diag.Usage, "beta2: is 1"},
		"schedule": {corpus(20), with(func(o *train.Options) { o.Schedule = "x" }), diag.Usage, "schedule"},
		"scratch":  {corpus(20), with(func(o *train.Options) { o.Scratch = true }), diag.Usage, "trained as a whole"},
		"no adapter": {corpus(20), with(func(o *train.Options) { o.Adapter = t.TempDir() }), train.ErrAdapter,
			"cannot be read"},
		"other layers": {corpus(20), with(func(o *train.Options) { o.Adapter = goldens + "train_lora/adapter" }),
			train.ErrAdapter, "has no tensor for"},
	} {
		_, err := train.New(t.Context(), s, c.ids, c.o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %q", what, err, c.text)
		}
	}
	_, err := train.New(t.Context(), rlxtest.Session(t, rlxtest.Open(t, rlxtest.Llama()), rlx.Options{}), nil, good)
	rlxtest.WantError(t, "a model that does not train", err, rlx.ErrUsage)

	tr, err := train.New(t.Context(), s, nil, with(func(o *train.Options) {
		o.Batches = func(int) []int { return corpus(15) }
	}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = tr.Step(t.Context())
	rlxtest.WantError(t, "a batch of another size", err, rlx.ErrInput)
	tr, err = train.New(t.Context(), s, nil, with(func(o *train.Options) {
		o.Batches = func(int) []int { return make([]int, 16) }
	}))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = tr.Evaluate(t.Context(), corpus(3))
	rlxtest.WantError(t, "a short text to evaluate", err, train.ErrText)
}

// TestDiverged checks that a loss that is not a number ends the training, and that the last checkpoint remains.
func TestDiverged(t *testing.T) {
	o := train.Options{Settings: train.Defaults(50)}
	o.LearningRate, o.Warmup, o.Clip, o.Schedule = 1e6, 0, 0, train.Constant
	tr := trainer(t, 1, corpus(60), o)
	path := filepath.Join(t.TempDir(), "c.safetensors")
	if err := tr.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil && tr.Done() < 50 {
		_, err = tr.Step(t.Context())
	}
	rlxtest.WantError(t, "a huge learning rate", err, rlx.ErrNaN)
	again := trainer(t, 1, corpus(60), o)
	if err := again.Resume(t.Context(), path); err != nil {
		t.Fatal(err)
	}
}

// TestCurve draws losses with a NaN among them.
func TestCurve(t *testing.T) {
	c := train.Curve{Losses: []float32{4, 3, float32(math.NaN()), 2, 1}, Eval: []train.Evaluation{{Step: 5, Loss: 1.5}}}
	var b bytes.Buffer
	if err := c.SVG(&b); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Contains(s, "NaN") || strings.Contains(s, "%!") || strings.Count(s, "<polyline") != 2 {
		t.Error(s)
	}
	c.Losses[2] = 3
	if s := c.Text(40, 4); strings.Count(s, "\n") != 5 || !strings.Contains(s, "5 steps") {
		t.Error(s)
	}
}

// TestPacked trains adapters beside packed weights, which stay packed: the artifact has no second copy of them. The
// first losses are near those with the weights of the checkpoint.
func TestPacked(t *testing.T) {
	first := func(most int64, flags ...string) float64 {
		path := rlxtest.Scratch("packed.rlx")
		rlxtest.Compile(path, "../demo/llama", append([]string{"--target", "cpu", "--train", "lora=2",
			"--train-tokens", "16"}, flags...)...)
		m := rlxtest.Open(t, path)
		bytes := int64(0)
		for _, w := range m.Weights() {
			bytes += w.Bytes
		}
		if bytes > most {
			t.Errorf("%v: the weights have %d bytes; want at most %d", flags, bytes, most)
		}
		o := train.Options{Settings: train.Defaults(3)}
		tr, err := train.New(t.Context(), rlxtest.Session(t, m, rlx.Options{}), corpus(40), o)
		if err != nil {
			t.Fatal(err)
		}
		steps(t, tr, 2)
		if x, err := tr.Step(t.Context()); err != nil || !(x.Norm > 0) {
			t.Errorf("%v: %+v, %v", flags, x, err)
		}
		return float64(tr.Losses()[0])
	}
	whole := first(12e6)
	for format, near := range map[string]float64{"q8_0": 0.05, "q4_k_m": 0.5} {
		most := int64(6e6)
		if format == "q4_k_m" {
			most = 4e6
		}
		if x := first(most, "--quantize", format); math.Abs(x-whole) > near {
			t.Errorf("%s: the first loss is %v; want %v within %v", format, x, whole, near)
		}
	}
}
