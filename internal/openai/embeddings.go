package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/text"
)

type embeddingRequest struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Format     string          `json:"encoding_format"`
	Dimensions *int            `json:"dimensions"`
	Pooling    text.Pooling    `json:"pooling"` // as other servers have it
}

type embedding struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	Vector any    `json:"embedding"`
}

var poolings = []text.Pooling{text.PoolMean, text.PoolLast, text.PoolCLS}

// embed answers a request for embeddings.
func (s *Server) embed(w http.ResponseWriter, r *http.Request, in *embeddingRequest) {
	var err error
	switch {
	case in.Format != "" && in.Format != "float" && in.Format != "base64":
		err = refuse("encoding_format", "must be float or base64")
	case in.Pooling == "":
		in.Pooling = text.PoolMean
	case !slices.Contains(poolings, in.Pooling):
		err = refuse("pooling", fmt.Sprintf("must be one of %q", poolings))
	}
	var inputs [][]int
	if err == nil {
		var t *text.Tokenizer
		if t, err = text.NewTokenizer(s.model); err == nil {
			inputs, err = prompts(in.Input, t, "input", maxInputs)
		}
	}
	about := recordOf(r.Context())
	var out []embedding
	for i := 0; err == nil && i < len(inputs); i++ {
		var v []float32
		client := Client{Name: about.Client, Begun: i > 0}
		v, err = s.engine.Embed(r.Context(), client, inputs[i], in.Pooling)
		if d := in.Dimensions; err == nil && d != nil && *d != len(v) {
			err = refuse("dimensions", fmt.Sprintf("is %d; the vectors of this model have %d numbers", *d, len(v)))
		}
		if err == nil {
			out = append(out, embedding{"embedding", i, encoded(v, in.Format)})
			about.Prompt += len(inputs[i])
		}
	}
	if err != nil {
		failed(r.Context(), w, failureFor(err, "input"))
		return
	}
	answer(w, map[string]any{"object": "list", "data": out, "model": s.name,
		"usage": map[string]int{"prompt_tokens": about.Prompt, "total_tokens": about.Prompt}})
}

// encoded returns a vector in a format of the API.
func encoded(v []float32, format string) any {
	if format != "base64" {
		return v
	}
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// Embed returns a vector for tokens. It waits for a place like Generate.
func (e *Engine) Embed(ctx context.Context, client Client, ids []int, p text.Pooling) ([]float32, error) {
	ctx, span := api.Span(ctx, "embedding", trace.WithAttributes(attribute.Int("rlx.prompt_tokens", len(ids))))
	defer span.End()
	leave, err := e.enter(ctx, client)
	if err != nil {
		return nil, err
	}
	defer leave()
	for try := 1; ; try++ {
		v, err := e.embed(ctx, ids, p)
		if errors.Is(err, rlx.ErrLost) && ctx.Err() == nil && try < maxTries {
			e.metrics.repeated.Inc()
			continue
		}
		if err == nil {
			e.limits.Tokens.spend(client.Name, len(ids))
			e.metrics.prompt.Add(float64(len(ids)))
		}
		return v, err
	}
}

func (e *Engine) embed(ctx context.Context, ids []int, p text.Pooling) ([]float32, error) {
	s, done, err := e.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	e.embedding.Lock()
	defer e.embedding.Unlock()
	if e.embedder == nil || e.embedderOf != s {
		if e.embedder, err = text.NewGenerator(ctx, s); err != nil {
			e.embedder = nil
			return nil, err
		}
		e.embedderOf = s
	}
	return e.embedder.Embed(ctx, ids, text.EmbedOptions{Pooling: p})
}
