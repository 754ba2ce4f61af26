package openai

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/internal/api"
)

// TestTokens: a client that has used its tokens waits until they have come back; others do not.
func TestTokens(t *testing.T) {
	now := time.Now()
	b := NewTokens(60)
	b.now = func() time.Time { return now }
	spend := func(client string, n int, wait int) {
		t.Helper()
		err := b.check(client)
		e, _ := errors.AsType[*tokensError](err)
		if (err != nil) != (wait > 0) || err != nil && (!errors.Is(err, ErrTokens) || e.seconds() != wait) {
			t.Errorf("%s: %v (%+v); want to wait %d s", client, err, e, wait)
		}
		if err == nil {
			b.spend(client, n)
		}
	}
	spend("long", 50, 0)
	spend("long", 40, 0) // 30 more than it has
	spend("long", 1, 31)
	spend("short", 5, 0)
	now = now.Add(30 * time.Second)
	spend("long", 1, 1)
	now = now.Add(time.Second)
	spend("long", 1, 0)
	spend("long", 1, 1)
	now = now.Add(time.Hour)
	spend("long", 60, 0)
	spend("long", 60, 1)
	now = now.Add(time.Hour)
	spend("jump", 59, 0)
	now = now.Add(-24 * time.Hour)
	spend("jump", 1, 0)
	spend("jump", 1, 1)
	now = now.Add(25 * time.Hour)
	spend("new", 1, 0)
	if len(b.clients) != 1 {
		t.Errorf("%d clients are remembered; want 1", len(b.clients))
	}
	var none *Tokens
	none.spend("a", 5)
	if err := none.check("a"); err != nil {
		t.Error(err)
	}
}

// TestClientTokens: the answer to a client without tokens has status 429 and says when to try again. A text that has
// begun is not cut off.
func TestClientTokens(t *testing.T) { bothWays(t, testClientTokens) }

func testClientTokens(t *testing.T, model string) {
	f := serve(t, model, Limits{Tokens: NewTokens(4)},
		api.Options{Keys: map[string]string{"a": "first", "b": "second"}})
	ask := func(key string) (int, string, string) {
		t.Helper()
		const body = `{"prompt": [1, 2, 3], "max_tokens": 9, "temperature": 0, "ignore_eos": true, "n": 2}`
		r, err := http.NewRequest("POST", f.URL+"/v1/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After"), string(b)
	}
	for _, key := range []string{"a", "b"} {
		if status, _, body := ask(key); status != http.StatusOK || !strings.Contains(body, `"completion_tokens":18`) {
			t.Errorf("%s: %d %s", key, status, body)
		}
	}
	status, retry, body := ask("a")
	if status != http.StatusTooManyRequests || len(retry) < 2 ||
		!strings.Contains(body, `"code":"rate_limit_exceeded"`) {
		t.Errorf("%d, Retry-After %q: %s", status, retry, body)
	}
}
