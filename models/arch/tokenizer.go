package arch

import (
	"errors"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/tokenizer"
)

// TokenizerFile is the name of the file in which checkpoints have their tokenizer, and of the attachment.
const TokenizerFile = "tokenizer.json"

// Tokenizer reads the tokenizer beside the checkpoint and checks its ids against the vocabulary, which may have rows
// without a token. data is empty if there is none.
func (c Config) Tokenizer(vocabulary int64) (data []byte, err error) {
	data, ok, err := c.File(TokenizerFile, tokenizer.MaxFile)
	if err != nil || !ok || len(data) == 0 {
		return nil, err
	}
	tok, err := tokenizer.Parse(data)
	if e, ok := errors.AsType[*diag.Error](err); ok {
		e.Subject = TokenizerFile
	}
	if err == nil && int64(tok.Size()) > vocabulary {
		err = diag.New(ErrConfig, TokenizerFile,
			"has tokens up to %d; the vocabulary of the checkpoint has 0 to %d", tok.Size()-1, vocabulary-1).
			WithHint("it belongs to another checkpoint")
	}
	return data, err
}
