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
	doc, err := os.ReadFile("../../internal/tokenizer/testdata/llama3/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	about := tinymodel.TextTask()
	for _, c := range []struct {
		name, doc string
		want      []int
	}{
		{"", " ", nil},
		{"words", string(doc), []int{0, 872, 268, 42, 393}},
		{"words",
			`{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["RO", -1], ["MEO:", -1], ["\nI will", -9]]}}`,
			[]int{1, 2, 3}},
		{"words",
			`{"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {"type": "WordPiece", "unk_token": "?",
"continuing_subword_prefix": "##", "max_input_chars_per_word": 9, "vocab": {"ro": 0, "##meo": 1, ":": 2, "will": 3, "?": 4}}}`, []int{
				0, 1, 2, 4, 3}},
	} {
		about.Tokenizer = c.name
		path := filepath.Join(t.TempDir(), "a.rlx")
		_, err = format.Write(t.Context(), path, format.Artifact{
			Programs: []*program.Program{tinymodel.Program(t, tinymodel.Extend, "cpu")},
			Meta:     format.Meta{Model: "text", Task: about},
		}, []format.Weight{{Name: "words", Type: ir.TypeOf(dtype.U8, int64(len(c.doc))),
			Write: func(w io.Writer) error {
				_, err := io.WriteString(w, c.doc)
				return err
			}}})
		if err != nil {
			t.Fatal(err)
		}
		tok, err := openTokenizer(t.Context(), path)
		if c.name == "" {
			if err == nil || !strings.Contains(err.Error(), "has no tokenizer") {
				t.Error(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := tok.Encode("ROMEO:\nI will", true); err != nil || !slices.Equal(ids, c.want) {
			t.Error(ids, err)
		}
	}
}
