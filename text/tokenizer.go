package text

import (
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/grammar"
	"github.com/rlx-go/rlx/internal/tokenizer"
)

// A Tokenizer turns text into tokens and back. It is safe for concurrent use.
type Tokenizer struct {
	t          *tokenizer.Tokenizer
	vocabulary func() *grammar.Vocabulary // is made when the first grammar needs it
}

// tokenizerKey is the key of the Tokenizer of a model.
type tokenizerKey struct{}

// NewTokenizer returns the tokenizer of a model. It is parsed once for each model. The error matches ErrPrompt if the
// artifact has none, rlx.ErrArtifact if it is damaged, or rlx.ErrUsage if the model does not declare the task "text".
func NewTokenizer(m *rlx.Model) (*Tokenizer, error) {
	t, err := specOf(m)
	if err != nil {
		return nil, err
	}
	if t.Tokenizer == "" {
		return nil, diag.New(code.TextPrompt, m.Path(), "has no tokenizer, so it takes no text").WithHint(
			"give token ids")
	}
	return tokenizerOf(m, t)
}

// ParseTokenizer parses a tokenizer.json of the Hugging Face library tokenizers. It fails (RLX3080, RLX3081) if the
// file is damaged or uses a feature that is not supported.
func ParseTokenizer(json []byte) (*Tokenizer, error) {
	t, err := tokenizer.Parse(json)
	if err != nil {
		return nil, err
	}
	return &Tokenizer{t, sync.OnceValue(func() *grammar.Vocabulary {
		return grammar.NewVocabulary(t.Size(), t.Bytes())
	})}, nil
}

// tokenizerOf returns the tokenizer of a model, or nil if it has none.
func tokenizerOf(m *rlx.Model, t *spec) (*Tokenizer, error) {
	if t.Tokenizer == "" {
		return nil, nil
	}
	v, err := m.Once(tokenizerKey{}, func() (any, error) {
		b, err := m.Attachment(t.Tokenizer, tokenizer.MaxFile)
		if err != nil {
			return nil, err
		}
		x, err := ParseTokenizer(b)
		if e, ok := err.(*diag.Error); ok && e.Subject == "" {
			e.Subject = m.Path()
		}
		return x, err
	})
	if err != nil {
		return nil, err
	}
	return v.(*Tokenizer), nil
}

// Encode returns the ids of a text. With special it adds the tokens that belong around a text, such as a begin token.
// Special tokens that occur in the text are always converted to their ids. The error matches ErrText if the text cannot
// be tokenized, for example because it is not valid UTF-8.
func (t *Tokenizer) Encode(text string, special bool) ([]int, error) {
	return t.t.Encode(text, special)
}

// Decode returns the text of ids. skipSpecial leaves out special tokens. Ids without a token are left out, too. Invalid
// bytes become U+FFFD.
func (t *Tokenizer) Decode(ids []int, skipSpecial bool) string {
	return string(t.t.Decode(ids, skipSpecial))
}

// Token returns the token with an id, as it is written in the vocabulary. ok is false if no token has the id.
func (t *Tokenizer) Token(id int) (token string, ok bool) { return t.t.Token(id) }

// Size returns the largest id plus one.
func (t *Tokenizer) Size() int { return t.t.Size() }
