package text

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/internal/grammar"
	"github.com/rlx-go/rlx/task"
)

// TestRestrict checks that leaving out tokens that cannot be drawn changes no token: each is that of the op sample
// among all tokens that fit.
func TestRestrict(t *testing.T) {
	const size = 300
	v := grammar.NewVocabulary(size, func(id int, _ bool) []byte { return []byte{byte(id), byte(id >> 8)}[:1+id>>8] })
	g, err := grammar.Parse(`root ::= [\x00-\x7f]+`)
	if err != nil {
		t.Fatal(err)
	}
	e := grammar.NewEngine(g, v)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		m, err := e.Begin()
		if err != nil {
			t.Fatal(err)
		}
		x := &guide{m: m}
		s := task.Sampling{Temperature: []float64{0, 0.2, 1, 3}[i%4]}
		if rng.IntN(2) == 0 {
			s.TopK = rng.IntN(50)
		}
		if rng.IntN(2) == 0 {
			s.TopP = rng.Float64()
		}
		if rng.IntN(3) == 0 {
			s.MinP = rng.Float64() / 4
		}
		y, all := make([]float64, size), make([]float64, size)
		for id := range y {
			y[id] = math.Round(rng.NormFloat64()*40) / 4 // some are equal
			all[id] = y[id]
			if fits, err := x.fits(id); err != nil || !fits {
				all[id] = math.NaN()
			}
		}
		if err := x.restrict(y, s); err != nil {
			t.Fatal(err)
		}
		got, err := draw(y, s, 5, uint64(i))
		want, err2 := draw(all, s, 5, uint64(i))
		if err != nil || err2 != nil || got != want {
			t.Fatalf("%+v: token %d, %v; want %d, %v", s, got, err, want, err2)
		}
	}
}

// BenchmarkChoose draws a token again because the first does not fit, with the vocabulary of Llama 3.
func BenchmarkChoose(b *testing.B) {
	const size = 128256
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([][]byte, size)
	for i := range list {
		w := make([]byte, 1+rng.IntN(7))
		for k := range w {
			w[k] = byte(' ' + rng.IntN(95))
		}
		list[i] = w
		if i < 256 {
			list[i] = []byte{byte(i)}
		}
	}
	v := grammar.NewVocabulary(size, func(id int, _ bool) []byte { return list[id] })
	g, err := grammar.ParseSchema([]byte(`{"type": "object", "properties": {"name": {"type": "string"}},
		"required": ["name"]}`))
	if err != nil {
		b.Fatal(err)
	}
	e := grammar.NewEngine(g, v)
	logits := make([]float32, size)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	t := &spec{Vocabulary: size, Window: 64}
	for name, s := range map[string]task.Sampling{"greedy": {}, "top-p": {Temperature: 0.8, TopP: 0.95, TopK: 40},
		"drawn": {Temperature: 1}} {
		b.Run(name, func(b *testing.B) {
			o := &Options{Sampling: (*Sampling)(&s)}
			for b.Loop() {
				m, _ := e.Begin()
				o.guide = &guide{m: m}
				o.Grammar = &Grammar{}
				if _, err := t.choose(Token{ID: 'x'}, o, logits, []int{1}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+" in a text", func(b *testing.B) {
			o := &Options{Sampling: (*Sampling)(&s)}
			m, _ := e.Begin()
			for _, c := range `{"name":"` {
				m.Accept(int(c))
			}
			for b.Loop() {
				o.guide = &guide{m: m}
				o.Grammar = &Grammar{}
				if _, err := t.choose(Token{ID: 1}, o, logits, []int{1}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
