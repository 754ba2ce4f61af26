package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzEncode looks for text on which Encode fails, decoded text is not valid UTF-8, or Decode and Stream differ.
func FuzzEncode(f *testing.F) {
	var toks []*Tokenizer
	for _, folder := range folders {
		tok, g := readGoldens(f, folder)
		toks = append(toks, tok)
		for _, c := range g.Cases {
			f.Add(c.Text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range toks {
			ids, err := tok.Encode(text, true)
			if utf8.ValidString(text) != (err == nil) {
				t.Fatalf("Encode(%q) = %v", text, err)
			}
			got := string(tok.Decode(ids, false))
			var b strings.Builder
			s := tok.Stream(false)
			for _, id := range ids {
				part := s.Next(id)
				if !utf8.ValidString(part) {
					t.Fatalf("Next gave %q", part)
				}
				b.WriteString(part)
			}
			b.WriteString(s.Flush())
			if b.String() != got {
				t.Fatalf("Stream gave %q, Decode %q", b.String(), got)
			}
			if want := "<|begin_of_text|>" + text; i == 0 && err == nil && got != want {
				t.Fatalf("the text came back as %q; want %q", got, want)
			}
		}
	})
}

// FuzzParse looks for a tokenizer.json on which Parse, Encode or Decode panics, or takes unbounded time or memory.
func FuzzParse(f *testing.F) {
	for _, part := range parts {
		f.Add([]byte(tiny(part)), "a <x> b")
	}
	f.Fuzz(func(t *testing.T, doc []byte, text string) {
		tok, err := Parse(doc)
		if err != nil {
			return
		}
		ids, err := tok.Encode(text, true)
		if err == nil {
			tok.Decode(append(ids, 0, 1, 2, -1, 1<<30), true)
		}
	})
}
