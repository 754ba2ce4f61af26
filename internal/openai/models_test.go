package openai

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/rlxtest"
)

// another returns an engine of a model with a session of its own.
func another(t *testing.T, m *rlx.Model, l Limits) *Engine {
	t.Helper()
	e, err := NewEngine(m, func(ctx context.Context) (*rlx.Session, error) {
		s, err := m.NewSession(ctx, rlx.Options{Backend: rlxtest.CPU("cpu")})
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		return s, err
	}, l)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestModels: requests choose among the models of a server, and a name that it has not is refused.
func TestModels(t *testing.T) {
	f := serve(t, batchModel(), Limits{Label: "demo"}, api.Options{})
	m := rlxtest.Open(t, chatModel())
	f.models.Put("second", m, another(t, m, Limits{Label: "second"}), nil)
	ask := request{"prompt": []int{1, 2, 3}, "max_tokens": 5, "temperature": 0}
	for _, name := range []string{"demo", "second", "second"} {
		status, got := f.post(t, "/v1/completions", ask.with(request{"model": name}))
		if status != http.StatusOK || at(got, "model") != name {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	for path, r := range map[string]request{"/v1/completions": ask, "/v1/embeddings": {"input": "a"},
		"/v1/chat/completions": {"messages": []any{request{"role": "user", "content": "a"}}}} {
		for name, want := range map[string]struct {
			status int
			code   string
		}{"third": {404, "model_not_found"}, "": {400, "invalid_value"}} {
			status, got := f.post(t, path, r.with(request{"model": name}))
			if status != want.status || at(got, "error", "code") != want.code || at(got, "error", "param") != "model" ||
				at(got, "error", "type") != "invalid_request_error" {
				t.Errorf("%s of model %q: %d %v", path, name, status, got)
			}
		}
	}
	resp, err := http.Get(f.URL + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); !strings.Contains(string(b), `"id":"demo"`) ||
		!strings.Contains(string(b), `"id":"second"`) {
		t.Errorf("the list is %s", b)
	}
	numbers, err := http.Get(f.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer numbers.Body.Close()
	if b, _ := io.ReadAll(numbers.Body); !strings.Contains(string(b), `rlx_generated_tokens_total{model="demo"} 5`) ||
		!strings.Contains(string(b), `rlx_generated_tokens_total{model="second"} 10`) {
		t.Errorf("the numbers are %s", b)
	}
}

// TestReplaced: a text in progress ends with the model with which it began, and only then the model may be closed.
func TestReplaced(t *testing.T) { bothWays(t, testReplaced) }

func testReplaced(t *testing.T, path string) {
	f := serve(t, path, Limits{}, api.Options{})
	ended := make(chan struct{})
	put := func(end func()) {
		m := rlxtest.Open(t, path)
		f.models.Put("demo", m, another(t, m, Limits{}), end)
	}
	put(func() { close(ended) })
	const body = `{"prompt": [1, 2, 3], "max_tokens": 100, "temperature": 0, "ignore_eos": true, "stream": true}`
	begin := func() io.ReadCloser {
		r, err := http.Post(f.URL+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return r.Body
	}
	want, err := io.ReadAll(begin())
	if err != nil {
		t.Fatal(err)
	}
	text := begin()
	first := make([]byte, 1)
	if _, err := text.Read(first); err != nil {
		t.Fatal(err)
	}
	put(nil)
	select {
	case <-ended:
		t.Log("the text ended before the model was replaced")
	default:
	}
	got, err := io.ReadAll(text)
	if err != nil || textsOf(t, string(first)+string(got)) != textsOf(t, string(want)) {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	<-ended
	status, _ := f.post(t, "/v1/completions", request{"prompt": []int{1, 2, 3}, "max_tokens": 5})
	if status != http.StatusOK {
		t.Errorf("afterwards: %d", status)
	}
}

// textsOf returns the texts of the events of a stream, which must be complete.
func textsOf(t *testing.T, stream string) string {
	t.Helper()
	if !strings.HasSuffix(stream, "data: [DONE]\n\n") {
		t.Errorf("the stream ends with %q", stream[max(0, len(stream)-100):])
	}
	var out strings.Builder
	for line := range strings.Lines(stream) {
		if _, s, ok := strings.Cut(line, `"text":`); ok {
			s, _, _ = strings.Cut(s, `,"logprobs"`)
			out.WriteString(s)
		}
	}
	return out.String()
}
