package grammar

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// large is a vocabulary of 128256 tokens, as many as Llama 3 has: all bytes, the words of this project's sources with
// and without a space in front and in several cases, their beginnings, and digits.
func large(b *testing.B) *Vocabulary {
	const size = 128256
	var list []string
	seen := map[string]bool{}
	add := func(s string) {
		if s != "" && !seen[s] && len(list) < size {
			seen[s] = true
			list = append(list, s)
		}
	}
	for i := range 256 {
		add(string([]byte{byte(i)}))
	}
	for i := range 1000 {
		add(strings.TrimLeft(string([]byte{byte('0' + i/100), byte('0' + i/10%10), byte('0' + i%10)}), ""))
	}
	for _, p := range []string{`":`, `",`, `{"`, `"}`, ` "`, `": "`, `", "`, `"},`, `"]`, "\n  ",
		"\n    ", `\n`, "],", "}}"} {
		add(p)
	}
	for _, pattern := range []string{"*.go", "../*/*.go", "../../*/*.go", "../../docs/*.md", "../../core/*/*.go",
		"../../*.md", "../../plugins/*/*/*.go", "../../models/*/*.go", "../../cmd/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				b.Fatal(err)
			}
			for _, w := range strings.Fields(string(text)) {
				w = w[:min(len(w), 16)]
				add(w)
				add(" " + w)
				add(strings.ToUpper(w))
				for n := 2; n < len(w); n++ {
					add(w[:n])
					add(" " + w[:n])
				}
			}
		}
	}
	for rng := rand.New(rand.NewPCG(1, 2)); len(list) < size; {
		w := make([]byte, 2+rng.IntN(8))
		for i := range w {
			w[i] = byte('a' + rng.IntN(26))
		}
		add(string(w))
	}
	return NewVocabulary(size, func(id int, _ bool) []byte { return []byte(list[id]) })
}

const benchSchema = `{"type": "object", "properties": {
	"name": {"type": "string"}, "email": {"type": "string", "maxLength": 60},
	"age": {"type": "integer", "minimum": 0, "maximum": 150}, "born": {"type": "string", "format": "date"},
	"address": {"type": "object", "properties": {"street": {"type": "string"}, "zip": {"type": "string",
		"pattern": "^[0-9]{5}$"}}, "required": ["street", "zip"]},
	"tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}},
	"friends": {"type": "array", "items": {"$ref": "#"}}, "note": {}},
	"required": ["name", "email", "age", "born", "address", "tags"]}`

// BenchmarkMask computes the mask of every token of random texts of a schema, as when a model is never right by itself.
// In "first" nothing is known yet about grammar and vocabulary, as for the first text of a server.
func BenchmarkMask(b *testing.B) {
	g, err := ParseSchema([]byte(benchSchema))
	if err != nil {
		b.Fatal(err)
	}
	v := large(b)
	run := func(b *testing.B, first bool) {
		rng := rand.New(rand.NewPCG(3, 4))
		e := NewEngine(g, v)
		tokens := 0
		for b.Loop() {
			if first {
				e = NewEngine(g, v)
			}
			m, err := e.Begin()
			for n := 0; err == nil && n < 120; n++ {
				if _, must := m.Ends(); must {
					break
				}
				var mask []uint64
				if mask, err = m.Mask(); err == nil {
					tokens++
					_, err = m.Accept(pick(mask, rng))
				}
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(tokens), "µs/token")
	}
	b.Run("first", func(b *testing.B) { run(b, true) })
	b.Run("later", func(b *testing.B) { run(b, false) })
	b.Run("accept", func(b *testing.B) {
		e := NewEngine(g, v)
		m, err := e.Begin()
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if ok, err := m.Fits(int('{')); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
}

func BenchmarkVocabulary(b *testing.B) {
	v := large(b)
	for b.Loop() {
		NewVocabulary(v.size, func(id int, _ bool) []byte { return v.bytes[0][id] })
	}
}

// pick returns a random token of a mask.
func pick(mask []uint64, rng *rand.Rand) int {
	for {
		id := rng.IntN(64 * len(mask))
		for range 64 * len(mask) {
			if mask[id>>6]>>(id&63)&1 == 1 {
				return id
			}
			if id++; id == 64*len(mask) {
				id = 0
			}
		}
	}
}
