package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// An added token is found in the text before the model encodes the rest.
type added struct {
	id                         int32
	content                    string
	singleWord, lstrip, rstrip bool
	normalized, special        bool
}

// A matcher finds added tokens, at each position the longest. Tokens have at most maxAdded bytes, which bounds the time
// per position.
type matcher struct {
	first  [256]int32 // node for each first byte; 0 if no token begins with it
	next   map[uint64]int32
	ends   []int32 // for each node: index into tokens plus one, or 0 if no token ends there
	tokens []added
}

const maxAdded = 512

func (m *matcher) add(pattern string, a added) {
	if pattern == "" {
		return
	}
	if m.next == nil {
		m.next, m.ends = map[uint64]int32{}, []int32{0}
	}
	at := int32(0)
	for i := range len(pattern) {
		slot := uint64(at)<<8 | uint64(pattern[i])
		to := m.next[slot]
		if to == 0 {
			to = int32(len(m.ends))
			m.ends = append(m.ends, 0)
			m.next[slot] = to
			if i == 0 {
				m.first[pattern[0]] = to
			}
		}
		at = to
	}
	if m.ends[at] == 0 {
		m.tokens = append(m.tokens, a)
		m.ends[at] = int32(len(m.tokens))
	}
}

// find returns the first added token at or after start, and the longest of several that begin there.
func (m *matcher) find(text string, start int) (token *added, from, to int) {
	for from = start; from < len(text); from++ {
		at := m.first[text[from]]
		for i := from + 1; at != 0; i++ {
			if k := m.ends[at]; k != 0 {
				token, to = &m.tokens[k-1], i
			}
			if i == len(text) {
				break
			}
			at = m.next[uint64(at)<<8|uint64(text[i])]
		}
		if token != nil {
			return token, from, to
		}
	}
	return nil, 0, 0
}

// split calls token for every added token of the text, and part for the text between them with its offset. The white
// space beside a token that strips it is dropped.
func (m *matcher) split(text string, token func(id int32), part func(start int, text string) error) error {
	done, runEnd := 0, 0
	for at := 0; len(m.tokens) > 0; {
		a, from, to := m.find(text, at)
		if a == nil {
			break
		}
		at = to
		if a.singleWord && (endsWithWord(text[:from]) || startsWithWord(text[to:])) {
			continue
		}
		if a.lstrip {
			if from <= done && to <= done {
				continue // white space that the token before has stripped
			}
			from = done + len(strings.TrimRightFunc(text[done:max(from, done)], unicode.IsSpace))
		}
		if a.rstrip {
			if to >= runEnd { // measures each run of white space once
				runEnd = len(text) - len(strings.TrimLeftFunc(text[to:], unicode.IsSpace))
			}
			to = max(to, runEnd)
		}
		if done < from {
			if err := part(done, text[done:from]); err != nil {
				return err
			}
		}
		token(a.id)
		done = to
	}
	if done < len(text) {
		return part(done, text[done:])
	}
	return nil
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord reports whether r matches \w as defined by Unicode Technical Standard 18, annex C.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc,
		unicode.Join_Control)
}
