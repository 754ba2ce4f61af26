package openai

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// TestMain also acts as the backend.
func TestMain(m *testing.M) { rlxtest.Main(m, nil) }

// chatModel returns the artifact of the demo model with a chat template.
var chatModel = sync.OnceValue(func() string { return compileChat("chat") })

// batchModel is chatModel for four sequences at a time.
var batchModel = sync.OnceValue(func() string { return compileChat("batch", "--batch", "4") })

func compileChat(name string, flags ...string) string {
	dir, out := rlxtest.Scratch(name), rlxtest.Scratch(name+".rlx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		panic(err)
	}
	files, err := filepath.Glob("../../demo/llama/*")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			panic(err)
		}
		if filepath.Base(f) == "tokenizer_config.json" {
			var config map[string]any
			if err := json.Unmarshal(b, &config); err != nil {
				panic(err)
			}
			config["chat_template"] = "{% for m in messages %}{{ m.role|upper }}:\n{{ m.content }}\n\n{% endfor %}" +
				"{% if add_generation_prompt %}ASSISTANT:\n{% endif %}"
			b, _ = json.Marshal(config)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o644); err != nil {
			panic(err)
		}
	}
	rlxtest.Compile(out, dir, append([]string{"--target", "cpu", "--context", "256"}, flags...)...)
	return out
}

// pagedModel is batchModel with keys and values in pages, too few for four whole contexts.
var pagedModel = sync.OnceValue(func() string { return compileChat("pages", "--batch", "4", "--cache", "512") })

// bothWays runs a test for texts that take turns and for texts that share runs, also in pages.
func bothWays(t *testing.T, test func(t *testing.T, model string)) {
	t.Run("turns", func(t *testing.T) { test(t, chatModel()) })
	t.Run("shared", func(t *testing.T) { test(t, batchModel()) })
	t.Run("pages", func(t *testing.T) { test(t, pagedModel()) })
}

// A fixture is a server of the demo model.
type fixture struct {
	*httptest.Server
	engine   *Engine
	models   Models
	sessions []*rlx.Session // that the engine has opened
}

func serve(t *testing.T, model string, l Limits, o api.Options) *fixture {
	t.Helper()
	m := rlxtest.Open(t, model)
	f := &fixture{}
	engine, err := NewEngine(m, func(ctx context.Context) (*rlx.Session, error) {
		s, err := m.NewSession(ctx, rlx.Options{Backend: rlxtest.CPU("cpu")})
		if err == nil {
			f.sessions = append(f.sessions, s)
			t.Cleanup(func() { s.Close() })
		}
		return s, err
	}, l)
	if err != nil {
		t.Fatal(err)
	}
	f.engine = engine
	server := api.New(o)
	f.models.Put("demo", m, engine, nil)
	f.models.Add(server)
	f.Server = httptest.NewServer(server)
	t.Cleanup(f.Close)
	return f
}

// post sends a request and returns the status and the answer.
func (f *fixture) post(t *testing.T, path string, request any) (int, map[string]any) {
	t.Helper()
	b, ok := request.(string)
	if !ok {
		j, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		b = string(j)
	}
	r, err := http.Post(f.URL+path, "application/json", strings.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, out
}

// at returns an element of an answer: at(x, "choices", 0, "text").
func at(v any, path ...any) any {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			l, _ := v.([]any)
			if k >= len(l) {
				return nil
			}
			v = l[k]
		}
	}
	return v
}

type request map[string]any

func (r request) with(more request) request {
	out := maps.Clone(r)
	maps.Copy(out, more)
	return out
}

var hello = request{"model": "x", "temperature": 0, "max_tokens": 12,
	"messages": []any{request{"role": "system", "content": "Be brief."}, request{"role": "user", "content": "Hello"}}}

// TestChat: the answer is the text that the generator gives, whole or in parts, and the next turn of the conversation
// computes only what is new.
func TestChat(t *testing.T) { bothWays(t, testChat) }

func testChat(t *testing.T, model string) {
	f := serve(t, model, Limits{Parallel: 2, Waiting: 2}, api.Options{})
	status, got := f.post(t, "/v1/chat/completions", hello.with(request{"logprobs": true}))
	content, _ := at(got, "choices", 0, "message", "content").(string)
	if status != 200 || content != reference(t) || at(got, "choices", 0, "finish_reason") != "length" ||
		at(got, "usage", "completion_tokens") != 12.0 || at(got, "object") != "chat.completion" {
		t.Fatalf("%d %v; want %q", status, got, reference(t))
	}
	if n, _ := at(got, "choices", 0, "logprobs", "content").([]any); len(n) != 12 {
		t.Errorf("%d logprobs", len(n))
	}
	var parts strings.Builder
	events := f.stream(t, "/v1/chat/completions", hello.with(request{"stream": true,
		"stream_options": request{"include_usage": true}}))
	for _, e := range events {
		s, _ := at(e, "choices", 0, "delta", "content").(string)
		parts.WriteString(s)
	}
	n := len(events)
	if parts.String() != content || at(events[0], "choices", 0, "delta", "role") != "assistant" ||
		at(events[n-2], "choices", 0, "finish_reason") != "length" || at(events[n-1], "usage", "total_tokens") == nil ||
		at(events[0], "object") != "chat.completion.chunk" {
		t.Errorf("parts %q in %v; want %q", parts.String(), events, content)
	}
	longer := append(hello["messages"].([]any), request{"role": "assistant", "content": content},
		request{"role": "user", "content": []any{request{"type": "text", "text": "More"}}})
	_, got = f.post(t, "/v1/chat/completions", hello.with(request{"messages": longer}))
	prompt, _ := at(got, "usage", "prompt_tokens").(float64)
	cached, _ := at(got, "usage", "prompt_tokens_details", "cached_tokens").(float64)
	if cached < 20 || cached >= prompt {
		t.Errorf("%v of %v tokens were not computed again", cached, prompt)
	}
	fresh := serve(t, model, Limits{Parallel: 1, Waiting: 0}, api.Options{})
	_, want := fresh.post(t, "/v1/chat/completions", hello.with(request{"messages": longer}))
	if a, b := at(got, "choices", 0, "message", "content"), at(want, "choices", 0, "message", "content"); a != b {
		t.Errorf("after a kept sequence %q; alone %q", a, b)
	}
}

// reference returns the text for hello that a generator gives.
func reference(t *testing.T) string {
	t.Helper()
	m := rlxtest.Open(t, chatModel())
	g, err := text.NewGenerator(t.Context(), rlxtest.Session(t, m, rlx.Options{Backend: rlxtest.CPU("cpu")}))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := g.EncodeChat([]text.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hello"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Generate(t.Context(), ids, text.Options{Tokens: 12, Sampling: &text.Sampling{}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Text
}

// stream returns the events of a streamed answer, which must end with [DONE].
func (f *fixture) stream(t *testing.T, path string, r request) (events []map[string]any) {
	t.Helper()
	b, _ := json.Marshal(r)
	resp, err := http.Post(f.URL+path, "application/json", strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("type %q", resp.Header.Get("Content-Type"))
	}
	done := false
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		data, ok := strings.CutPrefix(s.Text(), "data: ")
		if done = done || data == "[DONE]"; !ok || done {
			continue
		}
		var e map[string]any
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if !done {
		t.Error("no [DONE]")
	}
	return events
}

// TestCompletions: several prompts, as texts and as ids; stop texts; probabilities.
func TestCompletions(t *testing.T) { bothWays(t, testCompletions) }

func testCompletions(t *testing.T, model string) {
	f := serve(t, model, Limits{Parallel: 2, Waiting: 2}, api.Options{})
	base := request{"prompt": "ROMEO:", "max_tokens": 10, "temperature": 0}
	_, one := f.post(t, "/v1/completions", base)
	want, _ := at(one, "choices", 0, "text").(string)
	if want == "" {
		t.Fatal(one)
	}
	m := rlxtest.Open(t, chatModel())
	tok, err := text.NewTokenizer(m)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tok.Encode("ROMEO:", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, prompt := range []any{[]string{"ROMEO:"}, ids, [][]int{ids, ids}, []string{"ROMEO:", "ROMEO:"}} {
		_, got := f.post(t, "/v1/completions", base.with(request{"prompt": prompt}))
		choices, _ := at(got, "choices").([]any)
		for i, c := range choices {
			if at(c, "text") != want || at(c, "index") != float64(i) {
				t.Errorf("%v: choice %v; want %q", prompt, c, want)
			}
		}
		if len(choices) == 0 {
			t.Errorf("%v: %v", prompt, got)
		}
	}
	word := strings.Fields(want)[2]
	_, got := f.post(t, "/v1/completions", base.with(request{"stop": word, "logprobs": 1}))
	short, _ := at(got, "choices", 0, "text").(string)
	if strings.Contains(short, word) || at(got, "choices", 0, "finish_reason") != "stop" {
		t.Errorf("stop %q: %v", word, got)
	}
	tokens, _ := at(got, "choices", 0, "logprobs", "tokens").([]any)
	if len(tokens) == 0 {
		t.Errorf("logprobs: %v", got)
	}
	var parts strings.Builder
	for _, e := range f.stream(t, "/v1/completions", base.with(request{"stream": true})) {
		s, _ := at(e, "choices", 0, "text").(string)
		parts.WriteString(s)
	}
	if parts.String() != want {
		t.Errorf("parts %q; want %q", parts.String(), want)
	}
	seeded := base.with(request{"temperature": 1, "seed": 5})
	_, a := f.post(t, "/v1/completions", seeded)
	_, b := f.post(t, "/v1/completions", seeded)
	if x := at(a, "choices", 0, "text"); x != at(b, "choices", 0, "text") || x == want {
		t.Errorf("the same seed gives %v and %v", a, b)
	}
}

// TestRefused: requests that are wrong or not supported have a status and a code, and the parameter where one is
// wrong.
func TestRefused(t *testing.T) {
	f := serve(t, chatModel(), Limits{Parallel: 1, Waiting: 0}, api.Options{})
	long := strings.Repeat("word ", 2000)
	for _, c := range []struct {
		path    string
		request any
		status  int
		code    string
		param   any
	}{
		{"/v1/chat/completions", hello.with(request{"n": 0}), 400, "invalid_value", "n"},
		{"/v1/chat/completions", hello.with(request{"n": 65}), 400, "invalid_value", "n"},
		{"/v1/chat/completions", hello.with(request{"top_logprobs": 2}), 400, "invalid_value", "top_logprobs"},
		{"/v1/chat/completions", hello.with(request{"presence_penalty": 3}), 400, "invalid_value", "presence_penalty"},
		{"/v1/embeddings", request{"input": []any{}}, 400, "invalid_value", "input"},
		{"/v1/embeddings", request{"input": "a", "dimensions": 5}, 400, "invalid_value", "dimensions"},
		{"/v1/embeddings", request{"input": "a", "pooling": "most"}, 400, "invalid_value", "pooling"},
		{"/v1/embeddings", request{"input": slices.Repeat([]string{"a"}, 2049)}, 400, "invalid_value", "input"},
		{"/v1/completions", request{"prompt": slices.Repeat([]string{"a"}, 65)}, 400, "invalid_value", "prompt"},
		{"/v1/embeddings", request{"input": long}, 400, "context_length_exceeded", "input"},
		{"/v1/embeddings", request{"input": "a", "encoding_format": 5}, 400, "invalid_value", "encoding_format"},
		{"/v1/chat/completions", hello.with(request{"tools": []any{1}, "tool_choice": "required"}), 400,
			"invalid_value", "tools"},
		{"/v1/chat/completions", hello.with(request{"tool_choice": "required"}), 400, "invalid_value", "tool_choice"},
		{"/v1/chat/completions", hello.with(request{"tool_choice": 5}), 400, "invalid_value", "tool_choice"},
		{"/v1/chat/completions", hello.with(request{"response_format": request{"type": "xml"}}), 400, "invalid_value",
			"response_format"},
		{"/v1/chat/completions", hello.with(request{"response_format": request{"type": "json_schema"}}), 400,
			"invalid_value", "response_format"},
		{"/v1/chat/completions", hello.with(request{"response_format": schemaFormat(`{"not": {}}`)}), 400,
			"invalid_value", "response_format"},
		{"/v1/chat/completions", hello.with(request{"response_format": request{"type": "json_object"},
			"grammar": "root ::= \"a\""}), 400, "invalid_value", "response_format"},
		{"/v1/completions", request{"prompt": "a", "grammar": "root ::= a"}, 400, "invalid_value", "grammar"},
		{"/v1/chat/completions", hello.with(request{"temperature": 2.5}), 400, "invalid_value", "temperature"},
		{"/v1/chat/completions", hello.with(request{"top_p": -1}), 400, "invalid_value", "top_p"},
		{"/v1/chat/completions", hello.with(request{"min_p": 2}), 400, "invalid_value", "min_p"},
		{"/v1/chat/completions", hello.with(request{"max_tokens": "5"}), 400, "invalid_value", "max_tokens"},
		{"/v1/chat/completions", hello.with(request{"seed": 1.5}), 400, "invalid_value", "seed"},
		{"/v1/chat/completions", hello.with(request{"messages": []any{request{"content": "a"}}}), 400, "invalid_value",
			"messages"},
		{"/v1/chat/completions", hello.with(request{"messages": request{}}), 400, "invalid_value", "messages"},
		{"/v1/chat/completions", hello.with(request{"messages": []any{request{"role": 5}}}), 400, "invalid_value",
			"messages.role"},
		{"/v1/chat/completions", hello.with(request{"stream_options": true}), 400, "invalid_value", "stream_options"},
		{"/v1/chat/completions", hello.with(request{"functions": []any{}}), 400, "invalid_value", "functions"},
		{"/v1/chat/completions", hello.with(request{"function_call": "auto"}), 400, "invalid_value", "function_call"},
		{"/v1/chat/completions", hello.with(request{"modalities": []any{"text", "audio"}}), 400, "invalid_value",
			"modalities"},
		{"/v1/chat/completions", hello.with(request{"audio": request{}}), 400, "invalid_value", "audio"},
		{"/v1/chat/completions", hello.with(request{"web_search_options": request{}}), 400, "invalid_value",
			"web_search_options"},
		{"/v1/chat/completions", hello.with(request{"max_tokens": 0}), 400, "invalid_value", "max_tokens"},
		{"/v1/chat/completions", hello.with(request{"tools": []any{1}}), 400, "invalid_value", "tools"},
		{"/v1/chat/completions", hello.with(request{"logit_bias": request{"99999": 1}}), 400, "invalid_value",
			"logit_bias"},
		{"/v1/chat/completions", hello.with(request{"stop": 5}), 400, "invalid_value", "stop"},
		{"/v1/chat/completions", hello.with(request{"messages": []any{}}), 400, "invalid_value", "messages"},
		{"/v1/chat/completions", hello.with(request{"messages": []any{request{"role": "user",
			"content": []any{request{"type": "image_url"}}}}}), 400, "invalid_value", "messages"},
		{"/v1/chat/completions", hello.with(request{"messages": []any{request{"role": "user", "content": long}}}), 400,
			"context_length_exceeded", "messages"},
		{"/v1/chat/completions", "{", 400, "invalid_json", nil},
		{"/v1/chat/completions", "{}{}", 400, "invalid_json", nil},
		{"/v1/chat/completions", `"` + strings.Repeat("a", maxBody) + `"`, 413, "request_too_large", nil},
		{"/v1/completions", request{"prompt": nil}, 400, "invalid_value", "prompt"},
		{"/v1/completions", request{"prompt": []any{}}, 400, "invalid_value", "prompt"},
		{"/v1/completions", request{"prompt": []any{1.5}}, 400, "invalid_value", "prompt"},
		{"/v1/completions", request{"prompt": []any{99999}}, 400, "invalid_value", "prompt"},
		{"/v1/completions", request{"prompt": long}, 400, "context_length_exceeded", "prompt"},
		{"/v1/completions", request{"prompt": "a", "best_of": 2}, 400, "invalid_value", "best_of"},
		{"/v1/completions", request{"prompt": "a", "suffix": "b"}, 400, "invalid_value", "suffix"},
		{"/v1/completions", request{"prompt": "a", "logprobs": true}, 400, "invalid_value", "logprobs"},
		{"/v1/completions", request{"prompt": "a", "echo": true, "logprobs": 1}, 400, "invalid_value", "echo"},
		{"/v1/images", request{"input": "a"}, 404, "unknown_url", nil},
	} {
		status, got := f.post(t, c.path, c.request)
		if status != c.status || at(got, "error", "code") != c.code || at(got, "error", "param") != c.param ||
			at(got, "error", "message") == "" {
			t.Errorf("%.100v: %d %v; want %d %s %v", c.request, status, got, c.status, c.code, c.param)
		}
	}
	if status, got := f.post(t, "/v1/chat/completions", hello); status != 200 {
		t.Errorf("afterwards: %d %v", status, got)
	}
}

// TestAccess: the key, the host, and the lists of models.
func TestAccess(t *testing.T) {
	f := serve(t, chatModel(), Limits{Parallel: 1, Waiting: 0},
		api.Options{Keys: map[string]string{"secret": "a", "other": "b"}, Local: true})
	for _, c := range []struct {
		path, key, host string
		status          int
	}{
		{"/v1/models", "secret", "", 200}, {"/v1/models/demo", "secret", "", 200},
		{"/v1/models/other", "other", "", 404}, {"/metrics", "", "", 401}, {"/metrics", "other", "", 200},
		{"/v1/models", "", "", 401}, {"/v1/models", "Secret", "", 401},
		{"/v1/models", "secret", "evil.example:80", 403}, {"/v1/models", "secret", "localhost:1", 200},
		{"/livez", "", "", 200}, {"/readyz", "", "", 200}, {"/livez", "", "evil.example", 403}, {"/", "", "", 401},
		{"/", "other", "", 404},
		{"/v1/models", "bearer secret", "", 200}, {"/v1/models", "BEARER  secret ", "", 200},
		{"/v1/models", "Basic secret", "", 401}, {"/v1/models", "Bearer ", "", 401},
		{"/v1/models", "Bearersecret", "", 401},
	} {
		r, err := http.NewRequest("GET", f.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.key != "" {
			if len(c.key) < 7 { // without the scheme
				c.key = "Bearer " + c.key
			}
			r.Header.Set("Authorization", c.key)
		}
		r.Host = c.host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%+v: status %d", c, resp.StatusCode)
		}
	}
}

// TestOtherOrigins: a page of another origin can send a request without asking first, if it is a form or plain text.
// Such requests are refused.
func TestOtherOrigins(t *testing.T) {
	f := serve(t, chatModel(), Limits{Parallel: 1, Waiting: 0}, api.Options{Local: true})
	for _, c := range []struct {
		header, value string
		status        int
	}{
		{"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-site", 403},
		{"Origin", "https://evil.example", 403}, {"Origin", "null", 403}, {"Sec-Fetch-Site", "same-origin", 200},
		{"Sec-Fetch-Site", "none", 200}, {"Origin", f.URL, 200}, {"User-Agent", "curl", 200},
	} {
		body := strings.NewReader(`{"prompt": [1], "max_tokens": 1}`)
		r, err := http.NewRequest("POST", f.URL+"/v1/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set(c.header, c.value)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		refused := strings.Contains(string(b), "origin_not_allowed")
		if err != nil || resp.StatusCode != c.status || refused != (c.status == 403) {
			t.Errorf("%+v: status %d: %s", c, resp.StatusCode, b)
		}
	}
}

// TestMany: texts in progress at a time are those of single requests, and a full queue is refused.
func TestMany(t *testing.T) { bothWays(t, testMany) }

func testMany(t *testing.T, model string) {
	f := serve(t, model, Limits{Parallel: 3, Waiting: 9}, api.Options{})
	prompts := []string{"ROMEO:", "JULIET:", "The", "My lord"}
	ask := func(p string) (int, any) {
		status, got := f.post(t, "/v1/completions", request{"prompt": p, "max_tokens": 12, "temperature": 0})
		return status, at(got, "choices", 0, "text")
	}
	want := map[string]any{}
	for _, p := range prompts {
		_, want[p] = ask(p)
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			p := prompts[i%len(prompts)]
			if status, got := ask(p); status != 200 || got != want[p] {
				t.Errorf("%s: %d %q; want %q", p, status, got, want[p])
			}
		})
	}
	all.Wait()

	f = serve(t, model, Limits{Parallel: 1, Waiting: 0}, api.Options{})
	r, end := f.begin(t)
	if status, got := f.post(t, "/v1/completions", request{"prompt": "a"}); status != 429 ||
		at(got, "error", "code") != "server_busy" {
		t.Errorf("a full queue: %d %v", status, got)
	}
	end() // the client goes, and its place is free
	io.Copy(io.Discard, r)
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if status, _ := f.post(t, "/v1/completions", request{"prompt": "a"}); status == 200 {
			return
		}
		if time.Since(start) > hangGuard {
			t.Fatal("the place of a client that has gone stays taken")
		}
	}
}

// hangGuard ends a test that would otherwise never end. No time is measured with it.
const hangGuard = 5 * time.Minute

// begin starts a long text and returns its stream after the first event.
func (f *fixture) begin(t *testing.T) (io.Reader, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	body := fmt.Sprintf(`{"prompt":"ROMEO:","max_tokens":%d,"temperature":0,"stream":true}`, 200)
	r, err := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	in := bufio.NewReader(resp.Body)
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return in, cancel
}

// TestLost: a backend that is lost between requests is started again; a text that has begun ends with an error in the
// stream.
func TestLost(t *testing.T) { bothWays(t, testLost) }

func testLost(t *testing.T, model string) {
	f := serve(t, model, Limits{Parallel: 2, Waiting: 2}, api.Options{})
	ask := func() (int, any) {
		status, got := f.post(t, "/v1/completions", request{"prompt": "ROMEO:", "max_tokens": 4, "temperature": 0})
		return status, at(got, "choices", 0, "text")
	}
	_, want := ask()
	f.sessions[0].Close()
	if status, got := ask(); status != 200 || got != want || len(f.sessions) != 2 {
		t.Errorf("after a loss: %d %q; want %q", status, got, want)
	}
	in, end := f.begin(t)
	defer end()
	f.sessions[1].Close()
	rest, _ := io.ReadAll(in)
	if !strings.Contains(string(rest), `"error":{`) && !strings.Contains(string(rest), "[DONE]") ||
		strings.Contains(string(rest), `"error":{`) && strings.Contains(string(rest), "[DONE]") {
		t.Errorf("a text whose backend was lost ends with %q", rest)
	}
	if status, got := ask(); status != 200 || got != want {
		t.Errorf("after another loss: %d %q; want %q", status, got, want)
	}
}

// TestLostBetweenSteps: texts in progress end with an error if the backend is lost while no run is in progress.
func TestLostBetweenSteps(t *testing.T) {
	f := serve(t, batchModel(), Limits{Parallel: 2, Waiting: 2}, api.Options{})
	together := f.engine.way.(*together)
	m := &member{ctx: t.Context(), prompt: []int{1, 2, 3}, o: text.Options{Tokens: 20}, done: make(chan struct{})}
	all := []*member{m}
	if err := together.step(all, all); err != nil || m.text == nil || m.text.Done() {
		t.Fatalf("%v, and the text is %+v", err, m.text)
	}
	f.sessions[0].Close()
	if err := together.step(all, nil); err == nil {
		t.Error("the text of a lost backend has no error")
	}
}

// TestDrain: when the server ends, texts in progress end as usual, and other requests are refused.
func TestDrain(t *testing.T) { bothWays(t, testDrain) }

func testDrain(t *testing.T, model string) {
	f := serve(t, model, Limits{Parallel: 2, Waiting: 2}, api.Options{})
	in, end := f.begin(t)
	defer end()
	f.engine.drain()
	if status, got := f.post(t, "/v1/completions", request{"prompt": "a"}); status != 503 ||
		at(got, "error", "code") != "server_ending" {
		t.Errorf("%d %v", status, got)
	}
	rest, err := io.ReadAll(in)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("%v: %q", err, rest)
	}
	if err := f.engine.Ready(); !errors.Is(err, errDraining) {
		t.Errorf("ready: %v", err)
	}
}

// FuzzRequest: no body makes the decoding of requests panic.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{`{"messages":[{"role":"user","content":"a"}],"stop":["b"],"n":1}`, `{"prompt":[[1,2]]}`,
		`{"messages":[{"content":[{"type":"text","text":"a"}]}],"temperature":1e400}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(s))
		var chat chatRequest
		if read(httptest.NewRecorder(), r, &chat) == nil && chat.check() == nil {
			chat.options(text.Facts{Vocabulary: 10, Context: 10})
		}
		r = httptest.NewRequest("POST", "/", strings.NewReader(s))
		var other completionRequest
		if read(httptest.NewRecorder(), r, &other) == nil && other.check() == nil {
			other.options(text.Facts{Vocabulary: 10, Context: 10})
		}
	})
}
