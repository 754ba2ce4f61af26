package openai

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/text"
)

// traceText completes the span of a text that has ended: how many tokens it has, and the times of its prompt and of its
// tokens. t may be nil.
func traceText(ctx context.Context, t *text.Result, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	if isFailure(err) {
		span.RecordError(err)
	}
	if t == nil {
		return
	}
	span.SetAttributes(attribute.Int("rlx.prompt_tokens", t.Prompt), attribute.Int("rlx.cached_tokens", t.Cached),
		attribute.Int("rlx.completion_tokens", len(t.Tokens)), attribute.String("rlx.stop", string(t.Stop)))
	if len(t.Tokens) == 0 {
		return
	}
	first := t.Start.Add(t.Prefill)
	for _, part := range []struct {
		name       string
		start, end time.Time
	}{{"prompt", t.Start, first}, {"tokens", first, t.Start.Add(t.Duration)}} {
		_, span := api.Span(ctx, part.name, trace.WithTimestamp(part.start))
		span.End(trace.WithTimestamp(part.end))
	}
}

// traceStep makes the span of a step that texts share. It is part of the first one that is traced, and linked to the
// others.
func traceStep(members []*member, start time.Time, err error) {
	var first context.Context
	var links []trace.Link
	n := 0
	for _, m := range members {
		if m.text == nil {
			continue
		}
		n++
		switch c := trace.SpanFromContext(m.ctx); {
		case !c.IsRecording():
		case first == nil:
			first = m.ctx
		default:
			links = append(links, trace.Link{SpanContext: c.SpanContext()})
		}
	}
	if first == nil {
		return
	}
	_, span := api.Span(first, "step", trace.WithTimestamp(start), trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("rlx.texts", n)))
	api.EndSpan(span, err)
}

// A tracedRunner makes a span of each run.
type tracedRunner struct{ rlx.Runner }

// Run executes a method.
func (r tracedRunner) Run(ctx context.Context, q rlx.Request) (*rlx.Result, error) {
	_, span := api.Span(ctx, "step", trace.WithAttributes(attribute.Int("rlx.texts", 1)))
	out, err := r.Runner.Run(ctx, q)
	api.EndSpan(span, err)
	return out, err
}
