package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/text"
)

// grammarFlags restrict the generated text.
type grammarFlags struct {
	fs              *cli.FlagSet
	schema, grammar string // files
}

func (f *grammarFlags) declare(fs *cli.FlagSet) {
	f.fs = fs
	fs.StringVar(&f.schema, "json-schema", "",
		"`FILE` generate only JSON that fits the JSON schema in a file; - is stdin. Exit status 1 if the text ends early")
	fs.StringVar(&f.grammar, "grammar", "",
		"`FILE` generate only what the grammar in a file describes, in llama.cpp's GBNF; - is stdin")
}

func (f *grammarFlags) settle() error {
	for _, name := range []string{"json-schema", "grammar"} {
		if f.fs.Changed(name) && f.fs.Lookup(name).Value.String() == "" {
			return cli.Usagef("--"+name, "the file's name is missing")
		}
	}
	if f.schema != "" && f.grammar != "" {
		return cli.Usagef("--json-schema", "cannot be combined with --grammar")
	}
	return nil
}

// files lists the files that are read.
func (f *grammarFlags) files() (out []string) {
	for _, path := range []string{f.schema, f.grammar} {
		if path != "" && path != "-" {
			out = append(out, path)
		}
	}
	return out
}

// read returns the grammar, or nil if no flag sets one.
func (f *grammarFlags) read(ctx context.Context, env *cli.Env) (g *text.Grammar, err error) {
	path := f.schema + f.grammar
	if path == "" {
		return nil, nil
	}
	source, err := readText(ctx, path, env.Stdin, maxGrammar)
	if err != nil {
		return nil, err
	}
	if f.schema != "" {
		g, err = text.ParseSchema([]byte(source))
	} else {
		g, err = text.ParseGrammar(source)
	}
	if path == "-" {
		path = "stdin"
	}
	return g, subject(err, path)
}

// unfinished returns the error for texts that ended within their grammar.
func unfinished(texts ...*text.Result) error {
	var list []string
	stop := text.StopLength
	for i, t := range texts {
		if t.Unfinished {
			list, stop = append(list, fmt.Sprint(i+1)), t.Stop
		}
	}
	if len(list) == 0 {
		return nil
	}
	what := "text"
	if len(texts) > 1 {
		what += " " + strings.Join(list, ", ")
	}
	return diag.New(code.TextUnfinished, what, "ended by %s within its grammar, so it does not parse", stop).WithHint(
		"allow more tokens with -n, or set limits such as maxLength and maxItems")
}
