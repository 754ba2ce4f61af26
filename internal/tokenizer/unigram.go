package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// unigram is the unigram language model of SentencePiece: of all ways to divide a text into pieces it takes one with
// the largest sum of scores.
type unigram struct {
	ids          map[string]int32
	pieces       *trie
	scores       []float64 // by id
	unk          int32     // -1 if the model has no such token
	unkScore     float64   // of a character that is not a piece
	byteFallback bool
	bytes        [256]int32
}

// unkPenalty is how much worse an unknown character is than the worst piece.
const unkPenalty = 10

// A path is the best way to divide a text up to a position. size is the length of its last piece, or 0 if no path is
// known.
type path struct {
	score float64
	size  int32
	id    int32
}

// A run is a piece of the best path, or several unknown ones in a row.
type run struct {
	start, end int
	id         int32
}

// encode implements model. The library compares sums in this order, keeps the first of equal ones, and joins unknown
// pieces.
func (m *unigram) encode(out []int, text string, s *scratch) ([]int, error) {
	s.paths = slices.Grow(s.paths[:0], len(text)+1)[:len(text)+1]
	paths := s.paths
	clear(paths)
	for at := 0; at < len(text); {
		_, char := utf8.DecodeRuneInString(text[at:])
		here, known := paths[at].score, false
		node := int32(0)
		for i := at; i < len(text); i++ {
			if node = m.pieces.child(node, text[i]); node < 0 {
				break
			}
			id := m.pieces.id[node]
			if id < 0 {
				continue
			}
			size := i + 1 - at
			known = known || size == char
			if p, score := &paths[i+1], m.scores[id]+here; p.size == 0 || score > p.score {
				*p = path{score, int32(size), id}
			}
		}
		if p, score := &paths[at+char], m.unkScore+here; !known && (p.size == 0 || score > p.score) {
			if m.unk < 0 {
				return nil,
					diag.New(
						code.TokenizerText, "",
						"the text has the character %q, which is not in the vocabulary, and the tokenizer has no token for unknown characters",
						text[at:at+char])
			}
			*p = path{score, int32(char), m.unk}
		}
		at += char
	}
	runs := s.runs[:0]
	for end := len(text); end > 0; {
		p := paths[end]
		start := end - int(p.size)
		if n := len(runs); n > 0 && p.id == m.unk && runs[n-1].id == m.unk {
			runs[n-1].start = start
		} else {
			runs = append(runs, run{start, end, p.id})
		}
		end = start
	}
	s.runs = runs
	for _, r := range slices.Backward(runs) {
		if r.id == m.unk {
			out = m.unknown(out, text[r.start:r.end])
		} else {
			out = append(out, int(r.id))
		}
	}
	return out, nil
}

// unknown appends the ids of a run of unknown characters, which together may be a piece.
func (m *unigram) unknown(out []int, text string) []int {
	if id, ok := m.ids[text]; ok {
		return append(out, int(id))
	}
	if m.byteFallback {
		n := len(out)
		for _, b := range []byte(text) {
			if m.bytes[b] < 0 {
				return append(out[:n], int(m.unk))
			}
			out = append(out, int(m.bytes[b]))
		}
		return out
	}
	return append(out, int(m.unk))
}

func readUnigram(o *object, text []byte) (model, *vocabulary, error) {
	pieces, scores, err := readPieces(text)
	if err != nil {
		return nil, nil, err
	}
	m := &unigram{scores: scores, ids: make(map[string]int32, len(pieces)), unk: int32(o.integer("unk_id", -1, maxID)),
		byteFallback: o.boolean("byte_fallback", false)}
	if err := o.done(); err != nil {
		return nil, nil, err
	}
	if int(m.unk) >= len(pieces) {
		return nil, nil, fmt.Errorf("model: unk_id is %d; the vocabulary has %d pieces", m.unk, len(pieces))
	}
	v := &vocabulary{ids: m.ids, size: len(pieces), repeats: map[int32]string{}}
	least := math.Inf(1)
	for id, piece := range pieces {
		if before, twice := m.ids[piece]; twice {
			v.repeats[before] = piece
		}
		m.ids[piece] = int32(id)
		least = min(least, scores[id])
	}
	m.unkScore, m.bytes, m.pieces = least-unkPenalty, byteIDs(m.ids), newTrie(m.ids)
	return m, v, nil
}

// readPieces parses an array of ["piece", score].
func readPieces(text []byte) (pieces []string, scores []float64, err error) {
	f := &flat{text}
	if !f.take('[') {
		return nil, nil, fmt.Errorf(`vocab is not an array of ["piece", score]`)
	}
	for !f.take(']') {
		before := f.in
		if !f.take('[') {
			return nil, nil, fmt.Errorf(`vocab holds %.60s; allowed is ["piece", score]`, before)
		}
		piece, ok := f.string()
		c := f.skip()
		if !ok || c != '-' && (c < '0' || c > '9') {
			return nil, nil, fmt.Errorf(`vocab holds %.60s; allowed is ["piece", score]`, before)
		}
		n := f.number()
		if !f.take(']') {
			return nil, nil, fmt.Errorf(`vocab holds %.60s; allowed is ["piece", score]`, before)
		}
		score, ok := libraryFloat(n)
		switch {
		case !ok:
			return nil, nil, fmt.Errorf("vocab: the score %.40s of %.40q is out of range", n, piece)
		case len(piece) > maxPiece:
			return nil, nil, fmt.Errorf("vocab has a piece of %d bytes; at most %d are allowed", len(piece), maxPiece)
		case len(pieces) > maxID:
			return nil, nil, fmt.Errorf("vocab has more than %d pieces", maxID+1)
		}
		pieces, scores = append(pieces, piece), append(scores, score)
	}
	return pieces, scores, nil
}

// libraryFloat parses a number as the library does. Its JSON parser makes one integer of as many digits as fit in 64
// bits, and multiplies or divides it by a power of ten. The result may differ from the nearest float64 in the last bit,
// which can decide between two divisions of a text. ok is false if the result is infinite.
func libraryFloat(s string) (_ float64, ok bool) {
	i := 0
	negative := s[0] == '-'
	if negative {
		i++
	}
	var digits uint64
	exponent, fraction, full := 0, false, false
	for ; i < len(s) && s[i] != 'e' && s[i] != 'E'; i++ {
		if s[i] == '.' {
			fraction, full = true, full && digits > math.MaxUint64/10
			continue
		}
		d := uint64(s[i] - '0')
		full = full || digits > (math.MaxUint64-d)/10
		switch {
		case full && !fraction:
			exponent++
		case !full:
			digits = digits*10 + d
			if fraction {
				exponent--
			}
		}
	}
	if i < len(s) {
		e := 0
		sign := 1
		for _, c := range s[i+1:] {
			switch {
			case c == '-':
				sign = -1
			case c != '+':
				e = min(e*10+int(c-'0'), 1<<40)
			}
		}
		exponent += sign * e
	}
	v := float64(digits)
	for ; v != 0 && exponent < -308; exponent += 308 {
		v /= 1e308
	}
	switch {
	case v == 0:
	case exponent > 308:
		return 0, false
	case exponent >= 0:
		v *= powersOfTen[exponent]
	default:
		v /= powersOfTen[-exponent]
	}
	if negative {
		v = -v
	}
	return v, !math.IsInf(v, 0)
}

// powersOfTen has the nearest float64 of each power; math.Pow10 returns these.
var powersOfTen = func() (p [309]float64) {
	for i := range p {
		p[i] = math.Pow10(i)
	}
	return p
}()
