package tokenizer

import (
	"cmp"
	"slices"
)

// A trie finds the tokens that begin at a position of a text. Node 0 is the root. The children of node n are the nodes
// first[n] to first[n+1]-1, in the order of their labels.
type trie struct {
	first []int32
	label []byte
	id    []int32    // of the token that ends at a node, or -1
	root  [256]int32 // the root's child for each byte, or -1
}

// maxPiece is the maximum length in bytes of a token that a trie holds, which bounds the time per position.
// SentencePiece allows 512 characters.
const maxPiece = 2048

type entry struct {
	token string
	id    int32
}

func newTrie(vocab map[string]int32) *trie {
	entries := make([]entry, 0, len(vocab))
	for token, id := range vocab {
		entries = append(entries, entry{token, id})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.token, b.token) })
	t := &trie{label: []byte{0}}
	// Each node stands for the tokens from lo to hi-1, which have their first depth bytes in common.
	type node struct{ lo, hi, depth int32 }
	nodes := []node{{0, int32(len(entries)), 0}}
	for i := 0; i < len(nodes); i++ {
		n := nodes[i]
		t.first = append(t.first, int32(len(nodes)))
		id := int32(-1)
		if n.lo < n.hi && len(entries[n.lo].token) == int(n.depth) {
			id = entries[n.lo].id
			n.lo++
		}
		t.id = append(t.id, id)
		for n.lo < n.hi {
			c, end := entries[n.lo].token[n.depth], n.lo+1
			for end < n.hi && entries[end].token[n.depth] == c {
				end++
			}
			t.label = append(t.label, c)
			nodes = append(nodes, node{n.lo, end, n.depth + 1})
			n.lo = end
		}
	}
	t.first = append(t.first, int32(len(nodes)))
	for i := range t.root {
		t.root[i] = -1
	}
	for i := t.first[0]; i < t.first[1]; i++ {
		t.root[t.label[i]] = i
	}
	return t
}

// child returns the child of a node for byte c, or -1.
func (t *trie) child(node int32, c byte) int32 {
	if node == 0 {
		return t.root[c]
	}
	lo, end := t.first[node], t.first[node+1]
	for hi := end; lo < hi; {
		if mid := (lo + hi) / 2; t.label[mid] < c {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < end && t.label[lo] == c {
		return lo
	}
	return -1
}

// walk returns the node that a string leads to, or -1.
func (t *trie) walk(s string) int32 {
	node := int32(0)
	for i := 0; i < len(s) && node >= 0; i++ {
		node = t.child(node, s[i])
	}
	return node
}
