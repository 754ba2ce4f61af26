package text

import (
	"bytes"
	"math"
	"slices"
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/grammar"
	"github.com/rlx-go/rlx/task"
)

// A Grammar describes texts. With Options.Grammar, a model generates only such texts: a token is drawn among all tokens
// and, if it does not fit, again among those that fit. The text may end only where the grammar allows it. A text that
// is cut off earlier, for example by Options.Tokens, is marked by Result.Unfinished.
//
// A Grammar is safe for concurrent use, by several models at a time. Use the same Grammar for further texts: it keeps
// what it has computed about the vocabulary.
type Grammar struct {
	g *grammar.Grammar

	mu      sync.Mutex
	engines map[*Tokenizer]*grammar.Engine
}

// ParseGrammar reads a grammar in GBNF, the form of llama.cpp
// (https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md). Its rule root describes a text. It has
// literals, [classes], groups, alternatives, the repetitions * + ? {m} {m,} {m,n}, the character . and comments. Tokens
// in < > are not supported, and no rule may begin with itself. The error matches ErrGrammar and has line and column.
func ParseGrammar(source string) (*Grammar, error) { return newGrammar(grammar.Parse(source)) }

// ParseSchema returns the grammar of JSON texts that fit a JSON schema of draft 2020-12. It allows no text that is not
// valid. Of the valid texts, it allows those with the properties in the order of the schema, and without other
// properties unless additionalProperties is given. The error matches ErrGrammar, and names a keyword that is not
// supported with its place.
func ParseSchema(json []byte) (*Grammar, error) { return newGrammar(grammar.ParseSchema(json)) }

// A Tool is a function that a model may call.
type Tool struct {
	Name       string
	Parameters []byte // JSON schema of its arguments; empty if it has no arguments
}

// CallGrammar returns the grammar of a call of one of the tools, in the form that the model's chat template teaches:
// that of Hermes and Qwen, of Mistral, or otherwise of Llama 3. Errors are those of ParseSchema, or match ErrPrompt if
// the artifact has no chat template.
func CallGrammar(m *rlx.Model, tools []Tool) (*Grammar, error) {
	source, err := templateOf(m)
	if err != nil {
		return nil, err
	}
	var list []grammar.Tool
	for _, t := range tools {
		list = append(list, grammar.Tool(t))
	}
	switch {
	case bytes.Contains(source, []byte("<tool_call>")):
		return newGrammar(grammar.Calls("<tool_call>\n", "arguments", "\n</tool_call>", list))
	case bytes.Contains(source, []byte("[TOOL_CALLS]")):
		return newGrammar(grammar.Calls("[TOOL_CALLS][", "arguments", "]", list))
	}
	return newGrammar(grammar.Calls("", "parameters", "", list))
}

func newGrammar(g *grammar.Grammar, err error) (*Grammar, error) {
	if err != nil {
		return nil, err
	}
	return &Grammar{g: g, engines: map[*Tokenizer]*grammar.Engine{}}, nil
}

func (g *Grammar) engine(t *Tokenizer) *grammar.Engine {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.engines[t]
	if e == nil {
		e = grammar.NewEngine(g.g, t.vocabulary())
		g.engines[t] = e
	}
	return e
}

// A guide follows the text of a grammar.
type guide struct {
	m     grammar.Matcher
	end   []int // ids that end the text
	ended bool  // by one of them
}

// begin sets the guide of a text that begins.
func (o *Options) begin(t *spec, tok *Tokenizer) error {
	o.guide = nil
	if o.Grammar == nil {
		return nil
	}
	if tok == nil {
		return diag.New(code.TextGrammar, "Options.Grammar", "is set; the model has no tokenizer, so it gives no text")
	}
	m, err := o.Grammar.engine(tok).Begin()
	if err != nil {
		return err
	}
	o.guide = &guide{m: m}
	if !o.IgnoreEnd {
		o.guide.end = t.End
	}
	return nil
}

// fits reports whether a token may follow.
func (g *guide) fits(id int) (bool, error) {
	if g.ended {
		return false, nil
	}
	if slices.Contains(g.end, id) {
		may, _ := g.m.Ends()
		return may, nil
	}
	return g.m.Fits(id)
}

// accept continues the text. over reports that nothing may follow.
func (g *guide) accept(id int) (over bool, err error) {
	ok, err := g.m.Accept(id)
	if err != nil {
		return false, err
	}
	if !ok {
		panic("BUG: a token was chosen that does not fit the grammar")
	}
	_, over = g.m.Ends()
	return over, nil
}

// unfinished reports whether the text may not end here.
func (g *guide) unfinished() bool {
	if g == nil {
		return false
	}
	may, _ := g.m.Ends()
	return !may
}

// restrict makes the logits of tokens that do not fit NaN, and those of tokens that are not drawn anyway: drawing one
// of few is quick.
func (g *guide) restrict(y []float64, s task.Sampling) error {
	mask, err := g.m.Mask()
	if err != nil {
		return err
	}
	may, _ := g.m.Ends()
	most, any := math.Inf(-1), false
	for id := range y {
		fits := id < 64*len(mask) && mask[id>>6]>>(id&63)&1 == 1
		if may && slices.Contains(g.end, id) {
			fits = true
		}
		if !fits {
			y[id] = math.NaN()
		} else if y[id] == y[id] {
			most, any = max(most, y[id]), true
		}
	}
	if !any {
		return diag.New(code.TextGrammar, "grammar", "no token of the model continues the text").WithHint(
			"the tokenizer cannot spell what must follow; allow other characters")
	}
	// The noise of the op sample spans 21. With limits, tokens further below count in sums of probabilities, but those
	// below e^-40 do not change such a sum in f32.
	negligible := 21.0
	if s.TopK > 0 || s.TopP > 0 && s.TopP < 1 || s.MinP > 0 {
		negligible = 40
	}
	for id, v := range y {
		if below := most - v; below > negligible*s.Temperature && below > 0 {
			y[id] = math.NaN()
		}
	}
	if s.TopK > 0 && s.TopK <= 1000 {
		keepLargest(y, s.TopK)
	}
	return nil
}

// keepLargest makes all but the n largest numbers NaN, of equal ones the later.
func keepLargest(y []float64, n int) {
	var best []int // from the largest on
	for id, v := range y {
		if v != v || len(best) == n && v <= y[best[n-1]] {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, v, func(k int, v float64) int {
			if y[k] >= v {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, id)
		best = best[:min(len(best), n)]
	}
	kept := make([]float64, len(best))
	for i, id := range best {
		kept[i] = y[id]
	}
	for id := range y {
		y[id] = math.NaN()
	}
	for i, id := range best {
		y[id] = kept[i]
	}
}

// ahead returns a guide for tokens that may follow, or nil if there is no grammar.
func (g *guide) ahead() *guide {
	if g == nil {
		return nil
	}
	next := *g
	return &next
}

// over reports whether nothing may follow.
func (g *guide) over() bool {
	if g == nil {
		return false
	}
	_, must := g.m.Ends()
	return must || g.ended
}

// takes continues the text with a token if it fits. Nothing fits after a token that ends the text.
func (g *guide) takes(id int) (bool, error) {
	switch {
	case g == nil:
		return true, nil
	case g.ended:
		return false, nil
	case slices.Contains(g.end, id):
		may, _ := g.m.Ends()
		g.ended = may
		return may, nil
	}
	return g.m.Accept(id)
}
