package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/text"
)

// readPrompt returns the prompt with its images.
func (f *textFlags) readPrompt(ctx context.Context, s *session) (p text.Prompt, err error) {
	images, err := f.readImages(ctx, s)
	if err != nil {
		return p, err
	}
	if f.fs.Changed("ids") {
		var ids []int
		for _, v := range strings.Split(f.ids, ",") {
			id, err := strconv.Atoi(strings.TrimSpace(v))
			if err != nil {
				return p, cli.Usagef("--ids", "%q is not a token id; want whole numbers such as 5,7,9", v)
			}
			ids = append(ids, id)
		}
		return text.PlaceImages(s.model, ids, images)
	}
	var prompt, path string
	switch {
	case len(f.file.Values) > 0:
		path = f.file.Values[0]
	case len(f.prompt.Values) == 0 && s.files.from != "" && len(images) == 0:
		return p, nil // the saved text is continued without a prompt
	case len(f.prompt.Values) == 0:
		return p, cli.Usagef("--prompt", "is missing").WithHint("for example --prompt \"Once upon a time\"")
	case f.prompt.Values[0] == "-":
		path = "-"
	default:
		prompt = f.prompt.Values[0]
	}
	t, err := text.NewTokenizer(s.model)
	if err != nil {
		return p, err
	}
	if path != "" {
		if prompt, err = readText(ctx, path, s.env.Stdin, maxText); err != nil {
			return p, err
		}
	}
	if len(images) == 0 {
		ids, err := f.encode(s, t, "prompt", prompt)
		if err != nil {
			return p, err
		}
		return text.PlaceImages(s.model, ids, nil)
	}
	return f.encodeImages(s, t, prompt, images)
}

// encode converts a prompt to tokens, with --chat in the model's chat template. Errors refer to the prompt as name.
func (f *textFlags) encode(s *session, t *text.Tokenizer, name, prompt string) (ids []int, err error) {
	special := s.files.from == ""
	if f.chat {
		var messages []text.Message
		if f.fs.Changed("system") {
			messages = append(messages, text.Message{Role: "system", Content: f.system})
		}
		if prompt, err = text.ChatPrompt(
			s.model, append(messages, text.Message{Role: "user", Content: prompt})); err != nil {
			return nil, err
		}
		special = false // the template contains the special tokens
	}
	ids, err = t.Encode(prompt, special)
	return ids, subject(err, name)
}
