package text_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/text"
)

const goldens = "../testdata/goldens/"

// goldenModel compiles a golden language model with rlxc.
func goldenModel(t *testing.T, name string, flags ...string) string {
	t.Helper()
	return rlxtest.CompileGolden(t, goldens+name, flags...)
}

func goldenIDs(t *testing.T, model, name string) (ids []int) {
	t.Helper()
	for _, id := range tensortest.Golden(t, goldens+model+"/golden.safetensors:"+name).Ints {
		ids = append(ids, int(id))
	}
	return ids
}

// TestSlide checks models in which all layers have a window: a prompt and a text beyond the context equal those of an
// unlimited context, and can be saved and continued.
func TestSlide(t *testing.T) {
	t.Parallel()
	prompt, want := goldenIDs(t, "mistral_tiny", "input_ids"), goldenIDs(t, "mistral_tiny", "greedy")
	whole, err := text.NewGenerator(
		t.Context(), rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "mistral_tiny", "--context", "200")),
			rlx.Options{Threads: 1}))
	if err != nil {
		t.Fatal(err)
	}
	o := text.Options{Tokens: 120, IgnoreEnd: true}
	long := generate(t, whole, prompt, o).IDs()
	if got := whole.IDs()[:len(want)]; !slices.Equal(got, want) {
		t.Fatalf("a context of 200: %v; want %v", got, want)
	}
	path := filepath.Join(t.TempDir(), "s.safetensors")
	for _, context := range []string{"8", "16", "33"} { // the window has 8 tokens and the prompt 40
		g, err := text.NewGenerator(
			t.Context(), rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "mistral_tiny", "--context", context)),
				rlx.Options{Threads: 1}))
		if err != nil {
			t.Fatal(err)
		}
		o.Tokens = 50
		first := generate(t, g, prompt, o)
		var file bytes.Buffer
		if err := g.Save(t.Context(), &file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := g.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.Load(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		o.Tokens = 70
		if got := slices.Concat(first.IDs(), generate(t, g, nil, o).IDs()); !slices.Equal(got, long) {
			t.Errorf("a context of %s: %v; want %v", context, got, long)
		}
		bad := bytes.Replace(file.Bytes(), []byte(`dropped":"`), []byte(`dropped":"9`), 1)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		rlxtest.WantError(t, "a file that dropped more", g.Load(t.Context(), path), rlx.ErrInput)
	}
	// A context smaller than the window does not slide.
	g, err := text.NewGenerator(
		t.Context(), rlxtest.Session(t, rlxtest.Open(t, goldenModel(t, "mistral_tiny", "--context", "7")),
			rlx.Options{Threads: 1}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Generate(t.Context(), prompt, o)
	rlxtest.WantError(t, "a context of 7", err, text.ErrContext)
}
