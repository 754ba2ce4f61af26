package grammar

import (
	"bytes"
	"slices"
)

// A Vocabulary holds the bytes of tokens. It is safe for concurrent use.
type Vocabulary struct {
	size  int
	tries [2]*trie // of the bytes that tokens add to a text, and of the bytes with which they begin a text
	bytes [2][][]byte
}

// NewVocabulary returns the vocabulary of size tokens. of returns the bytes that a token adds to a text. With some
// tokenizers, these differ for the first token. A token that adds no bytes never fits a grammar.
func NewVocabulary(size int, of func(id int, first bool) []byte) *Vocabulary {
	v := &Vocabulary{size: size}
	same := true
	for i := range v.bytes {
		v.bytes[i] = make([][]byte, size)
		for id := range size {
			v.bytes[i][id] = of(id, i == 1)
			same = same && bytes.Equal(v.bytes[0][id], v.bytes[i][id])
		}
	}
	v.tries[0] = newTrie(v.bytes[0])
	v.tries[1] = v.tries[0]
	if same {
		v.bytes[1] = v.bytes[0]
	} else {
		v.tries[1] = newTrie(v.bytes[1])
	}
	return v
}

// A trie has a node for each beginning of a token, in depth-first order. Node 0 is the root.
type trie struct {
	label []byte
	depth []int32
	skip  []int32 // the node after all nodes that begin like this one
	first []int32 // the tokens that end at node n are ids[first[n]:first[n+1]]
	ids   []int32
	deep  int // the largest depth
}

func newTrie(tokens [][]byte) *trie {
	var order []int32
	for id, b := range tokens {
		if len(b) > 0 {
			order = append(order, int32(id))
		}
	}
	slices.SortFunc(order, func(i, j int32) int {
		if c := bytes.Compare(tokens[i], tokens[j]); c != 0 {
			return c
		}
		return int(i - j)
	})
	t := &trie{label: []byte{0}, depth: []int32{0}, first: []int32{0}, skip: []int32{0}}
	path, last := []int32{0}, []byte(nil) // nodes of the last token
	for _, id := range order {
		b := tokens[id]
		n := 0
		for n < len(b) && n < len(last) && b[n] == last[n] {
			n++
		}
		for _, node := range path[n+1:] {
			t.skip[node] = int32(len(t.label))
		}
		path = path[:n+1]
		for ; n < len(b); n++ {
			path = append(path, int32(len(t.label)))
			t.label, t.depth = append(t.label, b[n]), append(t.depth, int32(n+1))
			t.first, t.skip = append(t.first, int32(len(t.ids))), append(t.skip, 0)
		}
		t.ids = append(t.ids, id)
		last, t.deep = b, max(t.deep, len(b))
	}
	for _, node := range path {
		t.skip[node] = int32(len(t.label))
	}
	t.first = append(t.first, int32(len(t.ids)))
	return t
}
