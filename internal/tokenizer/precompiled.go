package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// A charsmap is the normalizer that SentencePiece compiles into its models. It maps strings to strings with a
// double-array trie, as the library Darts-clone writes it.
type charsmap struct {
	units []uint32
	to    string // replacements, each ends with a zero byte
	ascii [utf8.RuneSelf]struct {
		to string
		ok bool
	}
}

// readCharsmap reads the charsmap: the size of the trie in bytes, the trie, and the replacements.
func readCharsmap(o *object) (*charsmap, error) {
	data, err := base64.StdEncoding.Strict().DecodeString(o.str("precompiled_charsmap", ""))
	switch {
	case o.err != nil:
		return nil, o.err
	case err != nil:
		return nil, fmt.Errorf("%s: precompiled_charsmap is not base64: %w", o.what, err)
	case len(data) < 4:
		return nil, fmt.Errorf("%s: precompiled_charsmap has %d bytes; at least 4 are needed", o.what, len(data))
	}
	size, data := int64(binary.LittleEndian.Uint32(data)), data[4:]
	if size < 4 || size > int64(len(data)) {
		return nil, fmt.Errorf("%s: precompiled_charsmap has a trie of %d bytes; allowed are 4 to %d", o.what, size,
			len(data))
	}
	m := &charsmap{units: make([]uint32, size/4)}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	if m.to = string(data[size&^3:]); !utf8.ValidString(m.to) {
		return nil, fmt.Errorf("%s: precompiled_charsmap has replacements that are not valid UTF-8", o.what)
	}
	for c := range m.ascii {
		m.ascii[c].to, m.ascii[c].ok = m.find(string(rune(c)))
	}
	return m, nil
}

// find returns the replacement of the shortest prefix of key that has one. A unit or replacement outside the table,
// where the library panics, counts as absent.
func (m *charsmap) find(key string) (to string, ok bool) {
	node := next(m.units[0])
	for i := 0; i < len(key) && key[i] != 0; i++ {
		node ^= uint32(key[i])
		if node >= uint32(len(m.units)) {
			return "", false
		}
		u := m.units[node]
		if u&(1<<31|0xff) != uint32(key[i]) {
			return "", false
		}
		node ^= next(u)
		if u>>8&1 == 0 {
			continue
		}
		if node >= uint32(len(m.units)) {
			return "", false
		}
		at := m.units[node] &^ (1 << 31)
		if at > uint32(len(m.to)) || at < uint32(len(m.to)) && !utf8.RuneStart(m.to[at]) {
			return "", false
		}
		to, _, _ = strings.Cut(m.to[at:], "\x00")
		return to, true
	}
	return "", false
}

// next returns the offset from a unit to its children.
func next(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// maxCluster is the length in bytes of the shortest grapheme cluster that is mapped character by character.
const maxCluster = 6

// normalize is a normalizer. It maps short grapheme clusters as a whole if their beginning is in the table.
func (m *charsmap) normalize(p piece, l *limit) (piece, error) {
	out := mapped{in: p}
	out.text.Grow(len(p.text))
	state := -1
	for rest := p.text; rest != ""; {
		if err := l.size(out.text.Len()); err != nil {
			return p, err
		}
		// a cluster of one byte
		if rest[0] < utf8.RuneSelf && (len(rest) == 1 || rest[1] < utf8.RuneSelf && rest[:2] != "\r\n") {
			out.char(rest[:1], m.ascii[rest[0]].to, m.ascii[rest[0]].ok)
			rest, state = rest[1:], -1
			continue
		}
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if len(cluster) < maxCluster {
			if to, ok := m.find(cluster); ok {
				out.replace(cluster, to)
				continue
			}
		}
		for i, r := range cluster {
			char := cluster[i : i+utf8.RuneLen(r)]
			to, ok := m.find(char)
			out.char(char, to, ok)
		}
	}
	out.end()
	return piece{out.text.String(), out.lead}, l.size(out.text.Len())
}

// mapped collects the result of a charsmap. It finds the characters that come from the first character of the text in
// the same way as the library. The library aligns the results to the characters in their order: each takes the next
// one, unless the mapping has added it.
type mapped struct {
	in   piece
	text strings.Builder
	lead int

	at   int  // how much of the input is used
	size int  // of the last character of the result; 0 if the result is empty
	used int  // characters of the input for which it stands; 0 if the mapping has added it
	past bool // the end of the first character is known
}

func (m *mapped) char(char, to string, ok bool) {
	if ok {
		m.replace(char, to)
		return
	}
	m.text.WriteString(char)
	if m.in.lead > 0 && !m.past {
		m.push(len(char), 1)
	}
}

func (m *mapped) replace(old, to string) {
	m.text.WriteString(to)
	if m.in.lead == 0 || m.past {
		return
	}
	was, is := utf8.RuneCountInString(old), utf8.RuneCountInString(to)
	for i, r := range to {
		used := 1
		if utf8.RuneCountInString(to[i:]) <= is-was {
			used = 0
		}
		m.push(utf8.RuneLen(r), used)
	}
	if is < was && m.size > 0 {
		m.used += was - is
	}
}

func (m *mapped) push(size, used int) {
	m.end()
	m.size, m.used = size, used
}

// end counts the last character.
func (m *mapped) end() {
	if m.size == 0 || m.past {
		return
	}
	if m.at < m.in.lead || m.at == m.in.lead && m.used == 0 {
		m.lead += m.size
	} else {
		m.past = true
		return
	}
	for ; m.used > 0; m.used-- {
		_, n := utf8.DecodeRuneInString(m.in.text[m.at:])
		m.at += n
	}
	m.size = 0
}
