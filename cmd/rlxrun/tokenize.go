package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/tokenizer"
	"github.com/rlx-go/rlx/text"
)

// Bounds of files of text, in bytes. A larger one is a mistake, which should not fill the memory.
const (
	maxText    = 1 << 28
	maxGrammar = 1 << 24
)

func tokenizeCommand() *cli.Command {
	return &cli.Command{
		Name: "tokenize", Args: "MODEL.rlx|tokenizer.json [flags]", Short: "print the token ids of a text",
		Long: `Reads text from stdin and prints its token ids, with the special tokens that the tokenizer adds around a text. Special tokens
written in the text become their ids.`,
		Examples: []cli.Example{
			{About: "how many tokens a prompt has", Line: "rlxrun tokenize llama.rlx < prompt.txt | wc -w"}},
		Setup: func(fs *cli.FlagSet) cli.Run {
			plain := fs.Bool("plain", false, "add no special tokens")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("tokenize", "takes one file; found %d arguments", len(args)).WithHint(
						"the text comes from stdin: echo \"Hello\" | rlxrun tokenize llama.rlx")
				}
				t, err := openTokenizer(ctx, args[0])
				if err != nil {
					return err
				}
				in, err := readText(ctx, "-", env.Stdin, maxText)
				if err != nil {
					return err
				}
				ids, err := ctxio.Do(ctx, "tokenize", func() ([]int, error) { return t.Encode(in, !*plain) }, nil)
				if err != nil {
					return subject(err, "stdin")
				}
				if env.JSON {
					return env.WriteJSON(map[string][]int{"ids": ids})
				}
				line := fmt.Sprintln(ids)
				_, err = io.WriteString(env.Stdout, line[1:len(line)-2]+"\n")
				return err
			}
		},
	}
}

// readText reads a text file of at most limit bytes, or standard input if path is -.
func readText(ctx context.Context, path string, stdin io.Reader, limit int64) (string, error) {
	in, what := stdin, "stdin"
	if path != "-" {
		f, err := ctxio.Open(ctx, path)
		if err != nil {
			return "", diag.New(code.TokenizerText, path, "cannot be opened: %w", unpath(err))
		}
		defer f.Close()
		if st, err := f.Stat(); err == nil && st.Size() > limit { // 0 for what is no regular file
			return "", diag.New(code.TokenizerText, path, "has %d bytes; at most %d are allowed", st.Size(), limit)
		}
		in, what = f, path
	}
	b, err := io.ReadAll(io.LimitReader(ctxio.NewReader(ctx, in), limit+1))
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", diag.New(code.TokenizerText, what, "cannot be read: %w", unpath(err))
	case int64(len(b)) > limit:
		return "", diag.New(code.TokenizerText, what, "has more than %d bytes, the limit", limit)
	}
	return string(b), nil
}

func detokenizeCommand() *cli.Command {
	return &cli.Command{
		Name: "detokenize", Args: "MODEL.rlx|tokenizer.json [flags] ID...", Short: "print the text of token ids",
		Long: `Prints the text of the ids as UTF-8, without a final newline. Bytes that are not UTF-8 become U+FFFD.`,
		Examples: []cli.Example{
			{About: "the text of three tokens", Line: "rlxrun detokenize llama.rlx --skip-special 1 15043 3186"}},
		Setup: func(fs *cli.FlagSet) cli.Run {
			skip := fs.Bool("skip-special", false, "leave special tokens out")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) == 0 {
					return cli.Usagef("detokenize", "takes a file and ids; found no arguments")
				}
				t, err := openTokenizer(ctx, args[0])
				if err != nil {
					return err
				}
				var ids []int
				for _, arg := range args[1:] {
					id, err := strconv.Atoi(arg)
					if _, ok := t.Token(id); err != nil || !ok {
						return cli.Usagef("detokenize", "%.40q is not an id of the tokenizer; allowed are 0 to %d", arg,
							t.Size()-1)
					}
					ids = append(ids, id)
				}
				out := t.Decode(ids, *skip)
				if env.JSON {
					return env.WriteJSON(map[string]string{"text": out})
				}
				_, err = io.WriteString(env.Binary(), out)
				return err
			}
		},
	}
}

// openTokenizer opens a tokenizer.json, or the tokenizer of an artifact.
func openTokenizer(ctx context.Context, path string) (*text.Tokenizer, error) {
	if !strings.HasSuffix(path, ".json") {
		m, err := rlx.Open(ctx, path, rlx.OpenOptions{Lazy: true})
		if err != nil {
			return nil, err
		}
		return ctxio.Do(ctx, "tokenizer", func() (*text.Tokenizer, error) {
			defer m.Close()
			return text.NewTokenizer(m)
		}, nil)
	}
	return ctxio.Do(ctx, "tokenizer", func() (*text.Tokenizer, error) {
		doc, err := regular.ReadFile(path, tokenizer.MaxFile)
		if err != nil {
			return nil, diag.New(code.Tokenizer, path, "%w", err)
		}
		t, err := text.ParseTokenizer(doc)
		return t, subject(err, path)
	}, nil)
}

// subject sets the subject of an error if the package that made it could not know the subject.
func subject(err error, about string) error {
	var e *diag.Error
	if errors.As(err, &e) {
		e.Subject = about
	}
	return err
}
