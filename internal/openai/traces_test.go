package openai

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/otlp"
	"github.com/rlx-go/rlx/internal/otlp/otlptest"
)

// TestTraces: a collector gets the spans of requests and of their parts, which belong to the trace that the client
// names; the log names it, too.
func TestTraces(t *testing.T) { bothWays(t, testTraces) }

func testTraces(t *testing.T, model string) {
	r := otlptest.New(t, "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	var log bytes.Buffer
	traces, end, err := otlp.Start(t.Context(), "test", "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, model, Limits{Parallel: 2}, api.Options{Traces: traces,
		Log: slog.New(slog.NewJSONHandler(&log, nil))})
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	q, err := http.NewRequest("POST", f.URL+"/v1/completions",
		strings.NewReader(`{"prompt": [1, 2, 3], "max_tokens": 5, "temperature": 0, "ignore_eos": true, "n": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("traceparent", "00-"+trace+"-"+parent+"-01")
	resp, err := http.DefaultClient.Do(q)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	f.post(t, "/v1/completions", "{")
	http.Get(f.URL + "/livez")
	f.Close()
	end()
	requests := r.Named("POST /v1/completions")
	if len(requests) != 2 || otlptest.ID(requests[0]) != trace || otlptest.ID(requests[1]) == trace ||
		otlptest.Number(requests[0], "http.response.status_code") != 200 ||
		otlptest.Number(requests[1], "http.response.status_code") != 400 || len(r.Named("GET /livez")) > 0 {
		t.Fatalf("requests: %v", requests)
	}
	texts := r.Named("text")
	if len(texts) != 2 || otlptest.Number(texts[0], "rlx.prompt_tokens") != 3 ||
		otlptest.Number(texts[0], "rlx.completion_tokens") != 5 {
		t.Errorf("texts: %v", texts)
	}
	for _, name := range []string{"queue", "prompt", "tokens"} {
		parts := r.Named(name)
		if len(parts) != 2 {
			t.Errorf("%d spans of %s", len(parts), name)
		}
		for _, s := range parts {
			if otlptest.ID(s) != trace || s.EndTimeUnixNano < s.StartTimeUnixNano ||
				!bytes.Equal(s.ParentSpanId, texts[0].SpanId) && !bytes.Equal(s.ParentSpanId, texts[1].SpanId) {
				t.Errorf("%s: %v", name, s)
			}
		}
	}
	shared := 0
	steps := r.Named("step")
	for _, s := range steps {
		shared += len(s.Links)
	}
	together := model != chatModel()
	// the run of a prompt gives the first token, and the two texts may share all steps for the other four
	if len(steps) < 4 || together && len(steps) > 10 || shared > 0 && !together {
		t.Errorf("%d steps with %d links", len(steps), shared)
	}
	var line struct {
		Trace string `json:"trace_id"`
		Span  string `json:"span_id"`
	}
	if err := json.NewDecoder(&log).Decode(&line); err != nil || line.Trace != trace || len(line.Span) != 16 {
		t.Errorf("the log names %+v, %v", line, err)
	}
}

// TestNoTraces: without a collector, the log still names the trace of a request.
func TestNoTraces(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	f := serve(t, chatModel(), Limits{}, api.Options{Log: slog.New(slog.NewTextHandler(locked{&mu, &log}, nil))})
	for _, header := range []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "", "00-x-y-01"} {
		q, err := http.NewRequest("GET", f.URL+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("traceparent", header)
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	f.Close()
	lines := slices.Collect(strings.Lines(log.String()))
	const want = "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7"
	if len(lines) != 3 || !strings.Contains(lines[0], want) ||
		strings.Contains(lines[1]+lines[2], "trace_id") {
		t.Errorf("the log has %q", lines)
	}
}

type locked struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
