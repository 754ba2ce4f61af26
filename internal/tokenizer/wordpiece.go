package tokenizer

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// wordpiece is the model of BERT. It takes the longest token from the beginning of a word, then the longest from what
// is left, and so on. A word that cannot be divided so is unknown as a whole.
type wordpiece struct {
	tokens  *trie
	rest    int32 // node of the prefix that tokens within a word have, or -1
	unk     int32
	longest int // characters of a word; longer ones are unknown
}

func (m *wordpiece) encode(out []int, text string, _ *scratch) ([]int, error) {
	if len(text) > m.longest && utf8.RuneCountInString(text) > m.longest {
		return append(out, int(m.unk)), nil
	}
	n := len(out)
	for at, from := 0, int32(0); at < len(text); from = m.rest {
		id, end := int32(-1), at
		for i, node := at, from; i < len(text) && node >= 0; i++ {
			if node = m.tokens.child(node, text[i]); node >= 0 && m.tokens.id[node] >= 0 {
				id, end = m.tokens.id[node], i+1
			}
		}
		if id < 0 {
			return append(out[:n], int(m.unk)), nil
		}
		out, at = append(out, int(id)), end
	}
	return out, nil
}

func readWordPiece(o *object, text []byte) (model, *vocabulary, error) {
	vocab, err := readVocab(text)
	if err != nil {
		return nil, nil, err
	}
	unk, prefix := o.str("unk_token", "[UNK]"), o.str("continuing_subword_prefix", "##")
	m := &wordpiece{longest: o.integer("max_input_chars_per_word", 100, math.MaxInt32)}
	if err := o.done(); err != nil {
		return nil, nil, err
	}
	for token := range vocab {
		if len(token) > maxPiece {
			return nil, nil, fmt.Errorf("vocab has a token of %d bytes; at most %d are allowed", len(token), maxPiece)
		}
	}
	if m.unk, err = unkID(vocab, unk); err != nil {
		return nil, nil, err
	}
	m.tokens = newTrie(vocab)
	m.rest = m.tokens.walk(prefix)
	return m, &vocabulary{ids: vocab, size: len(vocab)}, nil
}

// joinWordPieces removes prefix from all tokens but the first, and puts a space in front of tokens without prefix. With
// cleanup it also removes spaces that English does not have, as before a comma.
func joinWordPieces(prefix string, cleanup bool) decoderSpec {
	return mapTokens(func(n int, token string) string {
		if n > 0 {
			part, ok := strings.CutPrefix(token, prefix)
			if !ok {
				part = " " + token
			}
			token = part
		}
		if cleanup {
			for _, r := range cleanups {
				token = strings.ReplaceAll(token, r[0], r[1])
			}
		}
		return token
	})
}

// cleanups are applied one after the other.
var cleanups = [][2]string{
	{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
	{" do not", " don't"},
	{" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
}
