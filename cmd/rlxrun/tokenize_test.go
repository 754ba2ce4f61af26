package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

// TestAttachedTokenizer checks that the tokenizer of an artifact is the attachment that its task names.
func TestAttachedTokenizer(t *testing.T) {
	doc, err := os.ReadFile("../../core/task/text/tokenizer/testdata/llama3/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	about := tinymodel.TextTask()
	for _, name := range []string{"", "words"} {
		about.Tokenizer = name
		path := filepath.Join(t.TempDir(), "a.rlx")
		_, err = format.Write(t.Context(), path, format.Artifact{
			Programs: []*program.Program{tinymodel.Program(t, tinymodel.Extend, "cpu")}, Meta: format.Meta{Model: "text", Task: about},
		}, []format.Weight{{Name: "words", Type: ir.TypeOf(dtype.U8, int64(len(doc))), Write: func(w io.Writer) error { _, err := w.Write(doc); return err }}})
		if err != nil {
			t.Fatal(err)
		}
		tok, err := openTokenizer(t.Context(), path)
		if name == "" {
			if err == nil || !strings.Contains(err.Error(), "has no tokenizer") {
				t.Error(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := tok.Encode("ROMEO:\nI will", true); err != nil || !slices.Equal(ids, []int{0, 872, 268, 42, 393}) {
			t.Error(ids, err)
		}
	}
}
