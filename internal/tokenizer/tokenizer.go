// Package tokenizer converts text to token ids and back, as described by a tokenizer.json of the Hugging Face library
// "tokenizers". It implements byte pair encoding over bytes (Llama 3, Qwen, GPT-2) and over characters with byte
// fallback (Llama 2, Mistral, Gemma), the unigram language model of SentencePiece (T5, ALBERT, XLM-RoBERTa) and
// WordPiece (BERT).
//
// Ids and text equal those of version 0.23 of the library, with two exceptions. Regular expressions, lower case and
// grapheme clusters treat characters that are newer than Go's package unicode as unassigned. When decoding leaves out
// special tokens, it also leaves out those that were matched in normalised text; the library keeps the ones that its
// normalizer changes. Like the library, this package gives an added token its id in the vocabulary or the next free id,
// whatever id the file says.
//
// Parse refuses a feature that this package does not implement; it never ignores one.
package tokenizer

import (
	"strings"
	"unicode/utf8"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// A Tokenizer is safe for concurrent use.
type Tokenizer struct {
	raw       matcher // added tokens that are matched in the text itself
	cooked    matcher // added tokens that are matched in the normalised text
	normalize normalizer
	split     splitter
	model     model
	vocab     *vocabulary
	post      []template
	decoders  []decoderSpec

	tokens  []string // by id
	known   []bool
	special []bool
	ids     map[string]int32 // of added tokens; the model has the others
	cooking map[int]string   // normalised text of added tokens that decode to it
}

// Size returns the number of rows that an embedding needs for all tokens: the largest id plus one.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// ID returns the id of a token as it is written in the vocabulary, for example "</s>".
func (t *Tokenizer) ID(token string) (id int, ok bool) {
	v, ok := t.ids[token]
	if !ok {
		v, ok = t.vocab.ids[token]
	}
	return int(v), ok
}

// Token returns the token with an id, as it is written in the vocabulary. ok is false if no token has the id.
func (t *Tokenizer) Token(id int) (token string, ok bool) {
	if id < 0 || id >= len(t.tokens) || !t.known[id] {
		return "", false
	}
	return t.tokens[id], true
}

// Special reports whether an id belongs to a special token, such as an end token. Decoding can leave these out.
func (t *Tokenizer) Special(id int) bool { return id >= 0 && id < len(t.special) && t.special[id] }

// Encode returns the ids of a text. With special it adds the tokens that the post-processor puts around a text, such as
// a begin token. Special tokens that occur in the text are always converted to their ids. An error is a *diag.Error
// with code.TokenizerText.
func (t *Tokenizer) Encode(text string, special bool) ([]int, error) {
	if i := invalid(text); i >= 0 {
		return nil, diag.New(code.TokenizerText, "", "the text is not valid UTF-8 at byte %d", i).WithHint(
			"convert it to UTF-8 first")
	}
	e := &encoder{t: t, limit: newLimit(len(text))}
	if err := e.text(text); err != nil {
		return nil, err
	}
	if special {
		for _, p := range t.post {
			e.ids = p.apply(e.ids)
		}
	}
	return e.ids, nil
}

func invalid(text string) int {
	if utf8.ValidString(text) {
		return -1
	}
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

// An encoder holds the state of one call of Encode.
type encoder struct {
	t     *Tokenizer
	limit *limit
	ids   []int
	word  scratch
}

// text finds the added tokens in the text, and then in the normalised text between them.
func (e *encoder) text(text string) error {
	e.ids = make([]int, 0, len(text)/3+8)
	return e.t.raw.split(text, e.token, func(start int, part string) error {
		p := piece{text: part}
		if start == 0 {
			_, p.lead = utf8.DecodeRuneInString(part)
		}
		if n := e.t.normalize; n != nil {
			var err error
			if p, err = n(p, e.limit); err != nil {
				return err
			}
		}
		return e.t.cooked.split(p.text, e.token, func(start int, part string) error {
			return e.t.split(p.from(start, start+len(part)), e.limit, e.piece)
		})
	})
}

func (e *encoder) token(id int32) { e.ids = append(e.ids, int(id)) }

func (e *encoder) piece(p piece) error {
	ids, err := e.t.model.encode(e.ids, p.text, &e.word)
	if err != nil {
		return err
	}
	e.ids = ids
	return nil
}

// Decode returns the text of ids. skipSpecial leaves out special tokens. Ids without a token are left out, too. The
// result is valid UTF-8: invalid bytes become U+FFFD.
func (t *Tokenizer) Decode(ids []int, skipSpecial bool) []byte {
	var out strings.Builder
	d := t.decoder(skipSpecial, together, func(s string) { out.WriteString(s) })
	for _, id := range ids {
		d.push(id)
	}
	d.flush()
	return []byte(out.String())
}

// Bytes returns a function that returns the bytes that a token adds to a text. With first, it returns the bytes with
// which the token begins a text; with some tokenizers these lack a leading space. Special tokens add no bytes. The
// bytes of several tokens together are UTF-8, but those of one token may be a part of a character. The function is not
// safe for concurrent use.
func (t *Tokenizer) Bytes() func(id int, first bool) []byte {
	before := -1 // a token that comes before, so that the next is not the first
	for id := range t.tokens {
		if t.known[id] && !t.special[id] && t.tokens[id] == "a" {
			before = id
		}
	}
	for id := 0; before < 0 && id < len(t.tokens); id++ {
		if t.known[id] && !t.special[id] && len(t.decodeRaw(id)) > 0 {
			before = id
		}
	}
	return func(id int, first bool) []byte {
		if first || before < 0 {
			return t.decodeRaw(id)
		}
		return t.decodeRaw(before, id)[len(t.decodeRaw(before)):]
	}
}

// decodeRaw returns the bytes of tokens that are not special.
func (t *Tokenizer) decodeRaw(ids ...int) []byte {
	var out []byte
	d := t.decoder(true, rawly, func(s string) { out = append(out, s...) })
	for _, id := range ids {
		d.push(id)
	}
	d.flush()
	return out
}
