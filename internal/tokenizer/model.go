package tokenizer

import (
	"fmt"
	"hash/maphash"

	"github.com/rlx-go/rlx/internal/strictjson"
)

// A model turns pieces of text into ids. It may be used by several goroutines, each with its own scratch.
type model interface {
	// encode appends the ids of a piece, which is not empty, to out.
	encode(out []int, text string, s *scratch) ([]int, error)
}

// A vocabulary has the tokens of a model.
type vocabulary struct {
	ids     map[string]int32
	size    int              // number of entries; the first added token outside the vocabulary gets it as its id
	repeats map[int32]string // tokens that occur again with a higher id, which is the one in ids
}

// scratch holds memory that is reused for all pieces of a text.
type scratch struct {
	// bpe
	ids   []int32
	syms  []symbol
	queue queue

	// unigram
	paths []path
	runs  []run
}

// The kinds of models.
const (
	kindBPE       = "BPE"
	kindUnigram   = "Unigram"
	kindWordPiece = "WordPiece"
)

func readModel(r *strictjson.Reader) (model, *vocabulary, error) {
	fields := map[string]any{}
	var vocab, merges []byte
	err := r.Object("model", func(key string) (err error) {
		switch key {
		case "vocab":
			vocab, err = r.Raw()
		case "merges":
			merges, err = r.Raw()
		default:
			fields[key], err = r.Value(key, maxValues)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	o := &object{what: "model", fields: fields, used: map[string]bool{}}
	otherwise := kindBPE // old files do not name the type
	if _, ok := fields["max_input_chars_per_word"]; ok && merges == nil {
		otherwise = kindWordPiece
	}
	kind := o.str("type", otherwise)
	switch {
	case o.err != nil:
		return nil, nil, o.err
	case kind == kindBPE:
		return readBPE(o, vocab, merges)
	case kind != kindUnigram && kind != kindWordPiece:
		return nil, nil, unsupported("model has the type %.40q; supported are %s, %s and %s", kind, kindBPE,
			kindUnigram, kindWordPiece)
	case vocab == nil:
		return nil, nil, fmt.Errorf("model has no vocab")
	case merges != nil:
		return nil, nil, unsupported("model has merges, which a model of the type %s does not use", kind)
	case kind == kindUnigram:
		return readUnigram(o, vocab)
	}
	return readWordPiece(o, vocab)
}

func readBPE(o *object, rawVocab, rawMerges []byte) (model, *vocabulary, error) {
	m := &bpe{unk: -1, seed: maphash.MakeSeed()}
	var merges [][2]string
	var err error
	if rawVocab != nil {
		if m.vocab, err = readVocab(rawVocab); err != nil {
			return nil, nil, err
		}
	}
	if rawMerges != nil {
		if merges, err = readMerges(rawMerges); err != nil {
			return nil, nil, err
		}
	}
	unk := o.str("unk_token", "")
	m.prefix, m.suffix = o.str("continuing_subword_prefix", ""), o.str("end_of_word_suffix", "")
	m.fuseUnk, m.byteFallback, m.whole = o.boolean("fuse_unk", false), o.boolean("byte_fallback", false),
		o.boolean("ignore_merges", false)
	if d, ok := o.take("dropout"); ok && d != nil && fmt.Sprint(d) != "0" && fmt.Sprint(d) != "0.0" {
		return nil, nil, unsupported("model has a dropout of %.40v, which makes ids random", d)
	}
	if err := o.done(); err != nil {
		return nil, nil, err
	}
	if len(m.prefix) > maxAdded || len(m.suffix) > maxAdded {
		return nil, nil, fmt.Errorf("model: continuing_subword_prefix or end_of_word_suffix has more than %d bytes",
			maxAdded)
	}
	if unk != "" {
		if m.unk, err = unkID(m.vocab, unk); err != nil {
			return nil, nil, err
		}
	}
	m.bytes = byteIDs(m.vocab)
	return m, &vocabulary{ids: m.vocab, size: len(m.vocab)}, m.addMerges(merges)
}

func unkID(vocab map[string]int32, unk string) (int32, error) {
	id, ok := vocab[unk]
	if !ok {
		return 0, fmt.Errorf("model: the unk_token %.40q is not in the vocabulary", unk)
	}
	return id, nil
}

// byteIDs returns the ids of the tokens for byte fallback. A byte without a token has -1.
func byteIDs(vocab map[string]int32) (ids [256]int32) {
	for b := range ids {
		ids[b] = -1
		if id, ok := vocab[byteToken(byte(b))]; ok {
			ids[b] = id
		}
	}
	return ids
}

func (m *bpe) addMerges(merges [][2]string) error {
	m.merges = make(map[pair]merge, len(merges))
	for rank, p := range merges {
		a, okA := m.vocab[p[0]]
		b, okB := m.vocab[p[1]]
		if len(p[1]) < len(m.prefix) {
			return fmt.Errorf("merge %d: %.40q is shorter than the prefix of words' parts", rank, p[1])
		}
		to, ok := m.vocab[p[0]+p[1][len(m.prefix):]]
		if !okA || !okB || !ok {
			return fmt.Errorf("merge %d joins %.40q and %.40q; both and their result must be in the vocabulary", rank,
				p[0], p[1])
		}
		m.merges[pair{a, b}] = merge{int32(rank), to}
	}
	return nil
}
