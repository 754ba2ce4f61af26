package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A splitter divides a piece into smaller ones for the model. It emits no empty piece.
type splitter func(p piece, l *limit, emit func(piece) error) error

func whole(p piece, _ *limit, emit func(piece) error) error {
	if p.text == "" {
		return nil
	}
	return emit(p)
}

func chain(list []splitter) splitter {
	if len(list) == 0 {
		return whole
	}
	rest := chain(list[1:])
	return func(p piece, l *limit, emit func(piece) error) error {
		return list[0](p, l, func(q piece) error { return rest(q, l, emit) })
	}
}

// A pattern divides text into matches and the text between them, in order and without gaps. Spans may be empty.
type pattern interface {
	spans(text string, l *limit, each func(start, end int, match bool) error) error
}

// A literal is a pattern that matches one string.
type literal string

func (p literal) spans(text string, _ *limit, each func(start, end int, match bool) error) error {
	done := 0
	for p != "" {
		i := strings.Index(text[done:], string(p))
		if i < 0 {
			break
		}
		if i > 0 {
			if err := each(done, done+i, false); err != nil {
				return err
			}
		}
		done += i + len(p)
		if err := each(done-len(p), done, true); err != nil {
			return err
		}
	}
	if done < len(text) {
		return each(done, len(text), false)
	}
	return nil
}

// chars is a pattern that matches each character of a class.
type chars func(rune) bool

func (is chars) spans(text string, _ *limit, each func(start, end int, match bool) error) error {
	done := 0
	for i, r := range text {
		if !is(r) {
			continue
		}
		if done < i {
			if err := each(done, i, false); err != nil {
				return err
			}
		}
		done = i + utf8.RuneLen(r)
		if err := each(i, done, true); err != nil {
			return err
		}
	}
	if done < len(text) {
		return each(done, len(text), false)
	}
	return nil
}

// words matches \w+|[^\w\s]+. The rest is white space.
type words struct{}

func (words) spans(text string, _ *limit, each func(start, end int, match bool) error) error {
	class := func(r rune) int {
		switch {
		case isWord(r):
			return 1
		case unicode.IsSpace(r):
			return 0
		}
		return 2
	}
	start, was := 0, -1
	for i, r := range text {
		c := class(r)
		if was >= 0 && c != was {
			if err := each(start, i, was != 0); err != nil {
				return err
			}
			start = i
		}
		was = c
	}
	if was < 0 {
		return nil
	}
	return each(start, len(text), was != 0)
}

// A behaviour tells what happens to the matches of a Split.
type behaviour int

const (
	isolated behaviour = iota
	removed
	mergedWithPrevious
	mergedWithNext
	contiguous
)

var behaviours = map[string]behaviour{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext": mergedWithNext, "Contiguous": contiguous,
}

type span struct {
	start, end int
	match      bool
}

// splitBy returns a splitter that divides at the matches of pat, or between them with invert.
func splitBy(pat pattern, b behaviour, invert bool) splitter {
	return func(p piece, l *limit, emit func(piece) error) error {
		var held span // the last span, which the next may extend
		some := false
		was := false // whether the last span was a match
		out := func(s span) error {
			if s.start == s.end {
				return nil
			}
			return emit(p.from(s.start, s.end))
		}
		err := pat.spans(p.text, l, func(start, end int, match bool) error {
			s := span{start, end, match != invert}
			switch b {
			case isolated:
				return out(s)
			case removed:
				if s.match {
					return nil
				}
				return out(s)
			}
			joins := b == mergedWithPrevious && s.match && !was || b == contiguous && s.match == was ||
				b == mergedWithNext && held.match && !s.match
			was = s.match
			if some && joins {
				held.end, held.match = s.end, s.match
				return nil
			}
			last, any := held, some
			held, some = s, true
			if !any {
				return nil
			}
			return out(last)
		})
		if err != nil || !some {
			return err
		}
		return out(held)
	}
}

// gpt2 is the regular expression of the pre-tokenizer ByteLevel.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// byteLevelSplit divides text by pat, unless it is nil, and maps bytes to characters as byteLevel does.
func byteLevelSplit(pat pattern, addSpace bool) splitter {
	encode := func(p piece, emit func(piece) error) error {
		b := appendByteLevel(make([]byte, 0, 2*len(p.text)), p.text)
		if p.lead > 0 {
			p.lead = len(appendByteLevel(nil, p.text[:p.lead]))
		}
		p.text = string(b)
		return emit(p)
	}
	parts := whole
	if pat != nil {
		parts = splitBy(pat, isolated, false)
	}
	return func(p piece, l *limit, emit func(piece) error) error {
		if addSpace && !strings.HasPrefix(p.text, " ") {
			p = p.prepend(" ")
		}
		return parts(p, l, func(q piece) error { return encode(q, emit) })
	}
}

// metaspace replaces spaces by mark, which usually is "▁". scheme says when a mark is put in front: "always", "never",
// or "first", which means only at the beginning of the whole text.
func metaspace(mark, scheme string, split bool) splitter {
	parts := whole
	if split {
		parts = splitBy(literal(mark), mergedWithNext, false)
	}
	return func(p piece, l *limit, emit func(piece) error) error {
		p.text, p.lead = strings.ReplaceAll(p.text, " ", mark), len(strings.ReplaceAll(p.text[:p.lead], " ", mark))
		if (scheme == "always" || scheme == "first" && p.lead > 0) && !strings.HasPrefix(p.text, mark) {
			p = p.prepend(mark)
		}
		return parts(p, l, emit)
	}
}
