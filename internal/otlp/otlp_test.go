package otlp_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/otlp"
	"github.com/rlx-go/rlx/internal/otlp/otlptest"
)

// TestStart: traces reach a collector by both protocols, and none are made unless a variable asks for them.
func TestStart(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			r := otlptest.New(t, protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment=test")
			p, end, err := otlp.Start(t.Context(), "program", "1.2", log)
			if err != nil {
				t.Fatal(err)
			}
			_, span := p.Tracer("test").Start(t.Context(), "a span")
			span.End()
			end()
			if n := len(r.Named("a span")); n != 1 {
				t.Errorf("%d spans arrived", n)
			}
			for key, want := range map[string]string{"service.name": "program", "service.version": "1.2",
				"deployment": "test"} {
				if got := r.Resource(key); got != want {
					t.Errorf("%s is %q; want %q", key, got, want)
				}
			}
		})
	}
	for _, c := range []struct {
		env map[string]string
		bad bool
	}{
		{env: nil},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		{env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, bad: true},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, bad: true},
	} {
		func() {
			for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED",
				"OTEL_EXPORTER_OTLP_PROTOCOL"} {
				t.Setenv(name, c.env[name])
			}
			p, _, err := otlp.Start(t.Context(), "program", "1", log)
			var e *diag.Error
			if p != nil || (err != nil) != c.bad || c.bad && (!errors.As(err, &e) || e.Code != diag.Usage) {
				t.Errorf("%v: %v, %v", c.env, p, err)
			}
		}()
	}
}
