package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const goldens = "testdata"

type golden struct {
	Name    string
	Text    string
	IDs     []int
	Plain   []int `json:"ids_plain"`
	Decoded string
	Skipped string `json:"decoded_skip_special"`
}

type goldenFile struct {
	Tokenizer   string
	Cases       []golden
	DecodeCases []golden `json:"decode_cases"`
}

func readGoldens(t testing.TB, folder string) (*Tokenizer, goldenFile) {
	t.Helper()
	dir := filepath.Join(goldens, folder)
	b, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f goldenFile
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	b, err = os.ReadFile(filepath.Join(dir, f.Tokenizer))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return tok, f
}

var folders = []string{"llama3", "llama2-metaspace", "llama2-prepend"}

// TestGoldens compares ids and texts with those of the Hugging Face library.
func TestGoldens(t *testing.T) {
	for _, folder := range folders {
		tok, f := readGoldens(t, folder)
		if len(f.Cases) < 60 || len(f.DecodeCases) < 13 {
			t.Fatalf("%s: %d cases and %d of decoding", folder, len(f.Cases), len(f.DecodeCases))
		}
		f.check(t, tok, folder != "llama3")
	}
}

// TestCorners compares corner cases with the Hugging Face library: added tokens that strip the same white space, have
// another id in the vocabulary or occur twice, the beginning of a text after a normalizer, and bytes that are not
// UTF-8.
func TestCorners(t *testing.T) { checkPeer(t, filepath.Join(goldens, "corners.json")) }

// TestEncoders compares small Unigram and WordPiece tokenizers with the Hugging Face library: equal scores, pieces that
// occur twice, unknown characters in a row, tables of the normalizer Precompiled that drop or lengthen the beginning of
// a text.
func TestEncoders(t *testing.T) { checkPeer(t, filepath.Join(goldens, "encoders.json")) }

// TestPeer runs the cases that a script in bench/tokenizer made with the Hugging Face library.
func TestPeer(t *testing.T) {
	path := os.Getenv("RLX_TOKENIZER_CASES")
	if path == "" {
		t.Skip("RLX_TOKENIZER_CASES names no file")
	}
	checkPeer(t, path)
}

type peerFile struct {
	goldenFile
	Tokenizer json.RawMessage
}

func readPeer(t testing.TB, path string) (files []peerFile) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &files); err != nil || len(files) == 0 {
		t.Fatalf("%s: %d tokenizers, %v", path, len(files), err)
	}
	return files
}

func checkPeer(t *testing.T, path string) {
	t.Helper()
	for _, f := range readPeer(t, path) {
		tok, err := Parse(f.Tokenizer)
		if err != nil {
			t.Errorf("%s: %v", f.Cases[0].Name, err)
			continue
		}
		f.check(t, tok, strings.Contains(string(f.Tokenizer), `"ByteFallback"`))
	}
}

func (f *goldenFile) check(t *testing.T, tok *Tokenizer, fallback bool) {
	t.Helper()
	for _, c := range f.Cases {
		for special, want := range map[bool][]int{true: c.IDs, false: c.Plain} {
			if got, err := tok.Encode(c.Text, special); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: Encode(%q, %v) = %v, %v; want %v", c.Name, c.Text, special, got, err, want)
			}
		}
	}
	for _, c := range slices.Concat(f.Cases, f.DecodeCases) {
		for skip, want := range map[bool]string{true: c.Skipped, false: c.Decoded} {
			if got := string(tok.Decode(c.IDs, skip)); got != want {
				t.Errorf("%s: Decode(%v, %v) = %q; want %q", c.Name, c.IDs, skip, got, want)
			}
			var streamed strings.Builder
			s := tok.Stream(skip)
			for _, id := range c.IDs {
				streamed.WriteString(s.Next(id))
			}
			streamed.WriteString(s.Flush())
			if got := streamed.String(); got != want && !(fallback && strings.Contains(want, "\ufffd")) {
				t.Errorf("%s: Stream of %v, %v = %q; want %q", c.Name, c.IDs, skip, got, want)
			}
		}
	}
}

// TestBytes checks that the bytes of tokens make the text of their sequence.
func TestBytes(t *testing.T) {
	for _, folder := range folders {
		tok, f := readGoldens(t, folder)
		of := tok.Bytes()
		check := func(ids []int) {
			var got []byte
			first := true
			for _, id := range ids {
				got = append(got, of(id, first)...)
				first = first && tok.Special(id)
			}
			if want := string(tok.Decode(ids, true)); utf8.Valid(got) && string(got) != want {
				t.Errorf("%s: the bytes of %v are %q; the text is %q", folder, ids, got, want)
			}
		}
		for _, c := range slices.Concat(f.Cases, f.DecodeCases) {
			check(c.IDs)
			check(c.Plain)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			ids := make([]int, 1+rng.IntN(6))
			for i := range ids {
				ids[i] = rng.IntN(tok.Size())
			}
			check(ids)
		}
		if id, ok := tok.ID("<0xE2>"); ok && string(of(id, false)) != "\xe2" {
			t.Errorf("%s: <0xE2> has the bytes %q", folder, of(id, false))
		}
	}
}
