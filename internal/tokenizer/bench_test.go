package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample returns about 1 MB of text like that of prompts: prose, code and other scripts. bench/tokenizer/speed.py times
// the Hugging Face library on it.
func sample(b *testing.B) string {
	var parts []string
	for _, pattern := range []string{"../../../docs/*.md", "../../../spec/*.md", "*.go", "testdata/*/cases.json"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			if err != nil {
				b.Fatal(err)
			}
			parts = append(parts, string(text))
		}
	}
	if path := os.Getenv("RLX_TOKENIZER_TEXT"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		return string(text)
	}
	return strings.Join(parts, "\n")
}

func BenchmarkEncode(b *testing.B) {
	text := sample(b)
	for _, folder := range folders {
		tok, _ := readGoldens(b, folder)
		b.Run(folder, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := tok.Encode(text, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	text := sample(b)
	for _, folder := range folders {
		tok, _ := readGoldens(b, folder)
		ids, err := tok.Encode(text, true)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(folder, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Decode(ids, false)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, folder := range folders {
		doc, err := os.ReadFile(filepath.Join(goldens, folder, "tokenizer.json"))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(folder, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if _, err := Parse(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
