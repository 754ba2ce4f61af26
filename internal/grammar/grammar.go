// Package grammar restricts generated text to a grammar: it reads GBNF, the grammars of llama.cpp, and JSON schemas,
// and tells after each token which tokens may follow.
//
// A grammar is a set of rules over bytes. It becomes a pushdown automaton (automaton.go) that the bytes of tokens run
// through. A set of stacks is a state; states and their transitions are kept, so most bytes cost a table lookup. The
// tokens of a vocabulary form a trie (vocabulary.go), and masks of allowed tokens are made by walking it (mask.go).
package grammar

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// Limits of a grammar.
const (
	MaxSource    = 1 << 20 // bytes of a grammar or schema
	maxRules     = 1 << 16
	maxPositions = 1 << 20
	maxRepeat    = 1 << 14 // times in {m,n}
	maxDepth     = 500     // of nested groups, or of a schema
)

type kind uint8

const (
	isLiteral kind = iota
	isClass
	isSeq
	isAlt
	isRepeat
	isRef
)

// An expr is a part of a rule.
type expr struct {
	kind     kind
	text     string  // of a literal: its bytes
	ranges   []rune  // of a class: pairs of the first and the last character, sorted, without overlaps
	list     []*expr // of a sequence or of alternatives, or the repeated expression
	min, max int     // of a repetition; max < 0 means any number
	rule     int     // of a reference
}

func literal(s string) *expr { return &expr{kind: isLiteral, text: s} }

func seq(list ...*expr) *expr {
	if len(list) == 1 {
		return list[0]
	}
	return &expr{kind: isSeq, list: list}
}

func alt(list ...*expr) *expr {
	if len(list) == 1 {
		return list[0]
	}
	return &expr{kind: isAlt, list: list}
}

func repeat(x *expr, least, most int) *expr {
	return &expr{kind: isRepeat, list: []*expr{x}, min: least, max: most}
}

func optional(x *expr) *expr { return repeat(x, 0, 1) }

func ref(rule int) *expr { return &expr{kind: isRef, rule: rule} }

// class returns the characters in pairs of first and last ones.
func class(pairs ...rune) *expr { return &expr{kind: isClass, ranges: merged(pairs)} }

// merged sorts ranges and joins those that touch.
func merged(pairs []rune) []rune {
	var all [][2]rune
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] <= pairs[i+1] {
			all = append(all, [2]rune{pairs[i], pairs[i+1]})
		}
	}
	slices.SortFunc(all, func(a, b [2]rune) int { return int(a[0]) - int(b[0]) })
	var out []rune
	for _, r := range all {
		if n := len(out); n > 0 && r[0] <= out[n-1]+1 {
			out[n-1] = max(out[n-1], r[1])
		} else {
			out = append(out, r[0], r[1])
		}
	}
	return out
}

const maxRune = 0x10FFFF

// inverted returns the characters that are not in ranges.
func inverted(ranges []rune) []rune {
	var out []rune
	next := rune(0)
	for i := 0; i < len(ranges); i += 2 {
		if next < ranges[i] {
			out = append(out, next, ranges[i]-1)
		}
		next = ranges[i+1] + 1
	}
	if next <= maxRune {
		out = append(out, next, maxRune)
	}
	return out
}

// A Grammar is a set of rules of which texts are made. It is safe for concurrent use.
type Grammar struct {
	names []string // of rules, for errors
	rules []*expr
	root  int

	positions []position
	start     []int32 // of each rule
}

// fail returns an error about a grammar.
func fail(format string, args ...any) *diag.Error {
	return diag.New(code.TextGrammar, "", format, args...)
}

// finish checks the rules and makes the automaton. where tells where a rule is defined, for errors.
func (g *Grammar) finish(where func(rule int) string) error {
	if len(g.rules) > maxRules {
		return fail("the grammar has %d rules; allowed are %d", len(g.rules), maxRules)
	}
	if err := g.prune(where); err != nil {
		return err
	}
	if err := g.checkLeft(where); err != nil {
		return err
	}
	return g.build()
}

// prune removes what leads to no finite text, such as a rule that always needs itself again.
func (g *Grammar) prune(where func(int) string) error {
	ends := make([]bool, len(g.rules))
	fixpoint(len(g.rules), func(i int) bool {
		if !ends[i] && g.rules[i].finite(ends) {
			ends[i] = true
			return true
		}
		return false
	})
	if !ends[g.root] {
		return fail("%s: no finite text fits; give it an alternative that ends", where(g.root))
	}
	for i, x := range g.rules {
		if g.rules[i] = x.pruned(ends); g.rules[i] == nil {
			g.rules[i] = alt() // nothing refers to it
		}
	}
	return nil
}

// fixpoint calls f for 0 to n-1 until it changes nothing any more.
func fixpoint(n int, f func(int) (changed bool)) {
	for changed := true; changed; {
		changed = false
		for i := n - 1; i >= 0; i-- { // rules refer to later ones most of the time
			changed = f(i) || changed
		}
	}
}

// finite reports whether a finite text fits, given the rules for which one does.
func (x *expr) finite(rules []bool) bool {
	is := func(y *expr) bool { return y.finite(rules) }
	switch x.kind {
	case isClass:
		return len(encodings(x.ranges)) > 0
	case isSeq:
		return !slices.ContainsFunc(x.list, func(y *expr) bool { return !is(y) })
	case isAlt:
		return slices.ContainsFunc(x.list, is)
	case isRepeat:
		return x.min == 0 || is(x.list[0])
	case isRef:
		return rules[x.rule]
	}
	return true
}

// pruned returns x without the parts that no finite text fits, or nil.
func (x *expr) pruned(rules []bool) *expr {
	if !x.finite(rules) {
		return nil
	}
	y := *x
	y.list = nil
	for _, part := range x.list {
		if part = part.pruned(rules); part != nil {
			y.list = append(y.list, part)
		}
	}
	if x.kind == isRepeat && len(y.list) == 0 {
		return literal("")
	}
	return &y
}

// empty reports whether the empty text fits, given the rules for which it does.
func (x *expr) empty(rules []bool) bool {
	is := func(y *expr) bool { return y.empty(rules) }
	switch x.kind {
	case isLiteral:
		return x.text == ""
	case isSeq:
		return !slices.ContainsFunc(x.list, func(y *expr) bool { return !is(y) })
	case isAlt:
		return slices.ContainsFunc(x.list, is)
	case isRepeat:
		return x.min == 0 || is(x.list[0])
	case isRef:
		return rules[x.rule]
	}
	return false
}

// lefts calls f with the rules that x may begin with.
func (x *expr) lefts(empty []bool, f func(rule int)) {
	switch x.kind {
	case isSeq:
		for _, y := range x.list {
			y.lefts(empty, f)
			if !y.empty(empty) {
				return
			}
		}
	case isAlt, isRepeat:
		if x.max != 0 || x.kind == isAlt {
			for _, y := range x.list {
				y.lefts(empty, f)
			}
		}
	case isRef:
		f(x.rule)
	}
}

// checkLeft refuses rules that begin with themselves, for which the automaton would push without end.
func (g *Grammar) checkLeft(where func(int) string) error {
	empty := make([]bool, len(g.rules))
	fixpoint(len(g.rules), func(i int) bool {
		if !empty[i] && g.rules[i].empty(empty) {
			empty[i] = true
			return true
		}
		return false
	})
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, len(g.rules))
	var visit func(i int) error
	visit = func(i int) (err error) {
		state[i] = open
		g.rules[i].lefts(empty, func(j int) {
			switch {
			case err != nil:
			case state[j] == open:
				err = fail("%s begins with itself (left recursion)", where(j)).WithHint(
					"write the recursion at the end, as in list ::= item list | item")
			case state[j] == unseen:
				err = visit(j)
			}
		})
		state[i] = done
		return err
	}
	for i := range g.rules {
		if state[i] == unseen {
			if err := visit(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// A position is a place in a rule.
type position struct {
	kind  posKind
	edges []edge  // atBytes: the bytes that may come
	outs  []int32 // atSplit: positions to continue at
	rule  int32   // atCall: a rule comes
	next  int32   // atCall: then this
}

type posKind uint8

const (
	atEnd posKind = iota
	atBytes
	atSplit
	atCall
)

// An edge leads to a position by a byte from lo to hi.
type edge struct {
	lo, hi byte
	to     int32
}

// build makes the positions of all rules.
func (g *Grammar) build() error {
	g.positions = []position{{kind: atEnd}}
	b := &builder{g: g}
	for i := 0; i < len(g.rules); i++ { // repetitions append rules
		at, err := b.expr(g.rules[i], 0)
		if err != nil {
			return err
		}
		g.start = append(g.start, at)
	}
	return nil
}

type builder struct{ g *Grammar }

func (b *builder) add(p position) (int32, error) {
	if len(b.g.positions) >= maxPositions {
		return 0, fail("the grammar is too large: it has more than %d positions", maxPositions).WithHint(
			"repetitions such as {0,1000} count as often as they may occur")
	}
	b.g.positions = append(b.g.positions, p)
	return int32(len(b.g.positions) - 1), nil
}

// expr returns the position from which x leads to next.
func (b *builder) expr(x *expr, next int32) (at int32, err error) {
	switch x.kind {
	case isLiteral:
		at = next
		for i := len(x.text) - 1; i >= 0 && err == nil; i-- {
			at, err = b.add(position{kind: atBytes, edges: []edge{{x.text[i], x.text[i], at}}})
		}
		return at, err
	case isClass:
		return b.sequences(encodings(x.ranges), next)
	case isSeq:
		at = next
		for i := len(x.list) - 1; i >= 0 && err == nil; i-- {
			at, err = b.expr(x.list[i], at)
		}
		return at, err
	case isAlt:
		return b.alternatives(x.list, next)
	case isRef:
		return b.add(position{kind: atCall, rule: int32(x.rule), next: next})
	}
	return b.repetition(x, next)
}

// sequences returns the position from which each sequence of byte ranges leads to next. Sequences share their ends.
func (b *builder) sequences(list [][]byteRange, next int32) (int32, error) {
	type rest struct {
		r  byteRange
		to int32
	}
	made := map[rest]int32{}
	var edges []edge
	for _, s := range list {
		at := next
		for i := len(s) - 1; i > 0; i-- {
			k := rest{s[i], at}
			p, ok := made[k]
			if !ok {
				var err error
				if p, err = b.add(position{kind: atBytes, edges: []edge{{s[i].lo, s[i].hi, at}}}); err != nil {
					return 0, err
				}
				made[k] = p
			}
			at = p
		}
		edges = append(edges, edge{s[0].lo, s[0].hi, at})
	}
	return b.add(position{kind: atBytes, edges: edges})
}

func (b *builder) alternatives(list []*expr, next int32) (int32, error) {
	p := position{kind: atSplit}
	var texts []string
	for _, x := range list {
		if x.kind == isLiteral {
			texts = append(texts, x.text)
			continue
		}
		at, err := b.expr(x, next)
		if err != nil {
			return 0, err
		}
		p.outs = append(p.outs, at)
	}
	if len(texts) > 0 { // as a trie, so that a long list of words does not become a long list of alternatives
		slices.Sort(texts)
		at, err := b.words(slices.Compact(texts), next)
		if err != nil {
			return 0, err
		}
		p.outs = append(p.outs, at)
	}
	if len(p.outs) == 1 {
		return p.outs[0], nil
	}
	return b.add(p)
}

// words returns the position of sorted texts, all different.
func (b *builder) words(texts []string, next int32) (int32, error) {
	ends := texts[0] == ""
	if ends {
		texts = texts[1:]
	}
	if len(texts) == 0 {
		return next, nil
	}
	if len(texts) == 1 && !ends {
		return b.expr(literal(texts[0]), next)
	}
	p := position{kind: atBytes}
	for len(texts) > 0 {
		c, n := texts[0][0], 0
		var rests []string
		for n < len(texts) && texts[n][0] == c {
			rests = append(rests, texts[n][1:])
			n++
		}
		at, err := b.words(rests, next)
		if err != nil {
			return 0, err
		}
		p.edges = append(p.edges, edge{c, c, at})
		texts = texts[n:]
	}
	at, err := b.add(p)
	if err != nil || !ends {
		return at, err
	}
	return b.add(position{kind: atSplit, outs: []int32{at, next}})
}

// repetition returns the position of x, repeated. An expression that is repeated more than once becomes a rule, so that
// each repetition costs one position.
func (b *builder) repetition(x *expr, next int32) (at int32, err error) {
	y := x.list[0]
	copies := max(x.min, x.max)
	if x.max < 0 {
		copies++
	}
	small := y.kind == isRef || y.kind == isClass && y.ranges[len(y.ranges)-1] < 0x80
	if copies > 1 && !small {
		b.g.rules, b.g.names = append(b.g.rules, y), append(b.g.names, "")
		y = ref(len(b.g.rules) - 1)
	}
	at = next
	if x.max < 0 {
		if at, err = b.add(position{kind: atSplit}); err != nil {
			return 0, err
		}
		body, err := b.expr(y, at)
		if err != nil {
			return 0, err
		}
		b.g.positions[at].outs = []int32{body, next}
	}
	for range max(0, x.max-x.min) {
		if at, err = b.expr(y, at); err == nil {
			at, err = b.add(position{kind: atSplit, outs: []int32{at, next}})
		}
		if err != nil {
			return 0, err
		}
	}
	for range x.min {
		if at, err = b.expr(y, at); err != nil {
			return 0, err
		}
	}
	return at, nil
}

func ruleName(name string) string { return fmt.Sprintf("the rule %q", name) }
