package api

import (
	"context"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope names the spans of the servers.
const scope = "github.com/rlx-go/rlx"

func tracerOf(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return p.Tracer(scope)
}

// Begin returns a context with the span of a request. headers are those of its traceparent. Done ends the span.
func (s *Server) Begin(ctx context.Context, headers propagation.TextMapCarrier, name string) context.Context {
	ctx = propagation.TraceContext{}.Extract(ctx, headers)
	ctx, _ = s.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx
}

// Span starts the span of a part of what ctx is for. The caller ends it. It costs next to nothing if that has no span.
func Span(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noop.Span{}
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name, o...)
}

// EndSpan ends a span, with the error of what it is for, if it has one.
func EndSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// endTrace ends the span of a request, and returns what its line of the log tells about it.
func endTrace(ctx context.Context, method, path, pattern string, status int, about *Record) []slog.Attr {
	span := trace.SpanFromContext(ctx)
	c := span.SpanContext()
	if !c.IsValid() {
		return nil
	}
	if span.IsRecording() {
		if pattern != "" {
			span.SetName(pattern)
		}
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("url.path", path),
			attribute.String("http.route", pattern), attribute.Int("http.response.status_code", status),
			attribute.String("enduser.id", about.Client))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, about.Err)
		}
		span.End()
	}
	return []slog.Attr{slog.String("trace_id", c.TraceID().String()), slog.String("span_id", c.SpanID().String())}
}
