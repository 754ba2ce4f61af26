package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/npy"
	"github.com/rlx-go/rlx/internal/safetensors"
	"github.com/rlx-go/rlx/text"
)

// embedFlags are the flags of `rlxrun embed`.
type embedFlags struct {
	texts   cli.List
	file    string
	pooling cli.Choice
	raw     bool
	output  string
	host    hostFlags
}

// embedName is the name of the vectors in .npz and .safetensors files.
const embedName = "embeddings"

func embedCommand() *cli.Command {
	return &cli.Command{
		Name: "embed", Args: "MODEL.rlx [flags]", Short: "turn texts into vectors",
		Long: `Computes a vector for each text with a language model, as /v1/embeddings of rlxrun serve does: from what the last layer computes
from, the mean of all tokens or one of them. Vectors have length 1, so that the product of two is their cosine. Without -o, a line of
JSON is printed for each text as soon as it is computed.`,
		Examples: []cli.Example{
			{About: "a vector as JSON", Line: "rlxrun embed llama.rlx --text \"The king\""},
			{About: "a matrix with a row for each line of a file",
				Line: "rlxrun embed llama.rlx --lines sentences.txt --pooling last -o vectors.npy"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f embedFlags
			fs.Group("What is embedded")
			fs.ListVarP(&f.texts, "text", "", "`TEXT` a text (repeatable)")
			fs.StringVar(&f.file, "lines", "", "`FILE` a UTF-8 file in which each line is a text; - is stdin")
			fs.ChoiceVar(&f.pooling, "pooling", "the mean of all tokens, or the vector of the last or the first one",
				string(text.PoolMean), string(text.PoolLast), string(text.PoolCLS))
			fs.BoolVar(&f.raw, "raw", false, "leave the lengths of the vectors as they are")
			fs.Group("Results")
			fs.StringVarP(&f.output, "output", "o", "",
				"`FILE` write the vectors, f32[texts,width], to a .npy, .npz or .safetensors file (there called "+embedName+")")
			f.host.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				ext := strings.ToLower(filepath.Ext(f.output))
				switch {
				case len(f.texts.Values) == 0 && f.file == "":
					return cli.Usagef("--text", "is missing; give texts with --text or --lines")
				case len(f.texts.Values) > 0 && f.file != "":
					return cli.Usagef("--text", "cannot be combined with --lines")
				case fs.Changed("output") && !slices.Contains([]string{".npy", ".npz", ".safetensors"}, ext):
					return cli.Usagef("-o "+f.output, "vectors are written to .npy, .npz and .safetensors files")
				}
				return inSession(ctx, env, args, &f.host, new(debugFlags), func(ctx context.Context, s *session) error {
					return s.embed(ctx, &f)
				})
			}
		},
	}
}

// embedLine is the result for a text as JSON.
type embedLine struct {
	Index  int       `json:"index"`
	Tokens int       `json:"tokens"`
	Vector []float32 `json:"embedding"`
}

func (s *session) embed(ctx context.Context, f *embedFlags) error {
	prompts, err := s.embedPrompts(ctx, f)
	if err != nil {
		return err
	}
	var inputs []string
	if f.file != "" && f.file != "-" {
		inputs = append(inputs, f.file)
	}
	if f.output != "" {
		s.outputs = append(s.outputs, f.output)
	}
	if err := s.ready(ctx, nil, inputs); err != nil {
		return err
	}
	g, err := text.NewGenerator(ctx, s.host)
	if err != nil {
		return err
	}
	defer g.Close()
	var bar *cli.Progress
	defer func() { bar.Clear() }()
	if f.output != "" {
		bar = s.env.Progress("embedding", int64(len(prompts)))
	}
	o := text.EmbedOptions{Pooling: text.Pooling(f.pooling.Value), Raw: f.raw}
	var all []float32
	for i, ids := range prompts {
		v, err := g.Embed(ctx, ids, o)
		if err != nil {
			return err
		}
		bar.Set(int64(i + 1))
		if f.output != "" {
			if i == 0 {
				if err := s.need("vectors", 4*int64(len(v))*int64(len(prompts))); err != nil {
					return err
				}
				all = make([]float32, 0, len(v)*len(prompts))
			}
			all = append(all, v...)
			continue
		}
		b, err := json.Marshal(embedLine{i, len(ids), v})
		if err != nil {
			return err
		}
		if _, err := s.env.Stdout.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	if f.output == "" {
		return nil
	}
	return writeEmbeddings(ctx, f.output, tensor.Tensor{DType: dtype.F32,
		Shape: []int{len(prompts), len(all) / len(prompts)}, Data: tensor.Bytes(all)})
}

// embedPrompts returns the tokens of each text.
func (s *session) embedPrompts(ctx context.Context, f *embedFlags) (out [][]int, err error) {
	facts, err := text.FactsOf(s.model)
	if err != nil {
		return nil, err
	}
	t, err := text.NewTokenizer(s.model)
	if err != nil {
		return nil, err
	}
	texts, what := f.texts.Values, "text"
	if f.file != "" {
		all, err := readText(ctx, f.file, s.env.Stdin, maxText)
		if err != nil {
			return nil, err
		}
		texts, what = strings.Split(strings.TrimSuffix(all, "\n"), "\n"), "line"
	}
	for i, one := range texts {
		name := fmt.Sprintf("%s %d", what, i+1)
		ids, err := t.Encode(strings.TrimSuffix(one, "\r"), true)
		if err == nil {
			err = facts.CheckPrompt(ids)
		}
		if err != nil {
			return nil, subject(err, name)
		}
		out = append(out, ids)
	}
	return out, nil
}

func writeEmbeddings(ctx context.Context, path string, t tensor.Tensor) error {
	var w files
	defer w.abort()
	err := w.add(ctx, path, func(to io.Writer) error {
		switch strings.ToLower(filepath.Ext(path)) {
		case ".npy":
			return npy.Write(to, t)
		case ".npz":
			return npy.WriteArchive(to, embedName, t)
		}
		return safetensors.Write(to, map[string]string{"format": "pt"}, []safetensors.Item{{Name: embedName,
			DType: "F32", Shape: t.Shape, Size: int64(len(t.Data)), Write: func(to io.Writer) error {
				_, err := to.Write(t.Data)
				return err
			}}})
	})
	if err != nil {
		return err
	}
	return w.commit()
}
