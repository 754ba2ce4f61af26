package tokenizer

import (
	"fmt"
	"path/filepath"
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
	for _, file := range readPeer(f, filepath.Join(goldens, "encoders.json")) {
		tok, err := Parse(file.Tokenizer)
		if err != nil {
			f.Fatal(err)
		}
		toks = append(toks, tok)
		f.Add(file.Cases[0].Text)
	}
	bytes, err := Parse(byteUnigram())
	if err != nil {
		f.Fatal(err)
	}
	toks = append(toks, bytes)
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
			if tok == bytes && err == nil && got != text && !strings.Contains(text, "<0x") { // such text is a token
				t.Fatalf("byte fallback gave %q back as %q", text, got)
			}
			if want := "<|begin_of_text|>" + text; i == 0 && err == nil && got != want {
				t.Fatalf("the text came back as %q; want %q", got, want)
			}
		}
	})
}

// byteUnigram returns a Unigram tokenizer that represents every text.
func byteUnigram() []byte {
	doc := `{"decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}, "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["?", 0], ["ab", -2], ["a", -2]`
	for b := range 256 {
		doc += fmt.Sprintf(`, ["<0x%02X>", -9]`, b)
	}
	return []byte(doc + "]}}")
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
