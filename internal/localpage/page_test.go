package localpage

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/localpage/pagetest"
)

var static = fstest.MapFS{"static/index.html": {Data: []byte("<!doctype html>")}}

// fixture returns a page that answers GET /start with "started" and POST /runs with the result of run, one at a time.
// The body is the name of the tab.
func fixture(run func(context.Context) error) *Page {
	p := New(static, nil)
	p.HandleFunc("GET /start", func(w http.ResponseWriter, _ *http.Request) { Reply(w, http.StatusOK, "started") })
	p.HandleFunc("POST /runs", func(w http.ResponseWriter, r *http.Request) {
		tab, err := io.ReadAll(r.Body)
		if err == nil {
			err = p.Enter(r.Context(), string(tab))
		}
		if err == nil {
			defer p.Leave()
			err = run(r.Context())
		}
		if err != nil {
			p.Fail(w, r, err)
			return
		}
		Reply(w, http.StatusOK, "done")
	})
	return p
}

const addr = "127.0.0.1:8000"

// ask makes a request as the page itself does.
func ask(p *Page, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	return pagetest.Ask(p, method, "http://"+addr+"/"+p.token+"/", path, body, change...)
}

// TestLetIn checks who may connect once a page lets other machines in.
func TestLetIn(t *testing.T) {
	p := New(static, nil)
	at := &net.TCPAddr{IP: net.IPv4(192, 168, 1, 7), Port: 8000}
	ask := func(host, origin string) int {
		return pagetest.Ask(p, "GET", p.URL(at), "", "", func(r *http.Request) {
			r.Host = host
			r.Header.Set("Origin", origin)
		}).Code
	}
	if got := ask("192.168.1.7:8000", "http://192.168.1.7:8000"); got != http.StatusForbidden {
		t.Errorf("another machine: status %d", got)
	}
	p.LetIn("big.house")
	for host, want := range map[string]int{"192.168.1.7:8000": http.StatusOK, "[fe80::1]:8000": http.StatusOK,
		"BIG.house:8000": http.StatusOK, "localhost:8000": http.StatusOK, "evil.example:8000": http.StatusForbidden,
		"big.house.evil.example": http.StatusForbidden, "": http.StatusForbidden} {
		if got := ask(host, "http://"+host); got != want {
			t.Errorf("%q: status %d; want %d", host, got, want)
		}
	}
	if got := ask("big.house:8000", "http://evil.example"); got != http.StatusForbidden {
		t.Errorf("another page: status %d", got)
	}
	if got := pagetest.Ask(p, "GET", "http://big.house/token/", "", "").Code; got != http.StatusForbidden {
		t.Errorf("without the token: status %d", got)
	}
}

// TestGuard checks that only the page itself gets answers.
func TestGuard(t *testing.T) {
	p := fixture(nil)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(host string) func(*http.Request) {
		return func(r *http.Request) { r.Host = host; r.Header.Del("Origin") }
	}
	path := func(path string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = path } }
	for _, c := range []struct {
		what   string
		change func(*http.Request)
		text   string // text of the refusal; empty if the request is allowed
	}{
		{"itself", func(*http.Request) {}, ""},
		{"no browser", func(r *http.Request) { r.Header = http.Header{} }, ""},
		{"the address bar", header("Sec-Fetch-Site", "none"), ""},
		{"localhost", host("localhost:8000"), ""},
		{"another loopback address", host("127.1.2.3"), ""},
		{"loopback in IPv6", host("[::1]:8000"), ""},
		{"a name that leads here", host("evil.example:8000"), "for this machine only"},
		{"a name like localhost", host("localhost.evil.example"), "for this machine only"},
		{"an address of the network", host("192.168.1.2:8000"), "for this machine only"},
		{"no host", host(""), "for this machine only"},
		{"another page", header("Origin", "https://evil.example"), "no other pages"},
		{"another port", header("Origin", "http://127.0.0.1:9000"), "no other pages"},
		{"a page without an origin", header("Origin", "null"), "no other pages"},
		{"another page of the site", header("Sec-Fetch-Site", "same-site"), "no other pages"},
		{"a link of another page", header("Sec-Fetch-Site", "cross-site"), "no other pages"},
		{"no token", path("/"), "lacks the token"},
		{"a token without a page", path("/" + p.token), "lacks the token"},
		{"another token", path("/" + strings.Repeat("A", len(p.token)) + "/start"), "lacks the token"},
		{"part of the token", path("/" + p.token[1:] + "/start"), "lacks the token"},
		{"a token in its place only", path("/x/" + p.token + "/start"), "lacks the token"},
	} {
		w := ask(p, "GET", "start", "", c.change)
		if c.text == "" {
			pagetest.Want(t, c.what, w, http.StatusOK, `"started"`)
		} else {
			pagetest.Want(t, c.what, w, http.StatusForbidden, c.text, string(diag.Usage))
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: the answer has no policy", c.what)
		}
	}
	if q := fixture(nil); q.token == p.token || len(q.token) < 26 {
		t.Errorf("tokens %q and %q", p.token, q.token)
	}
	if url := p.URL(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000}); url != "http://"+addr+"/"+p.token+"/" {
		t.Errorf("URL %s", url)
	}
}

// TestShared checks that a page serves its own files and the shared ones, and no others.
func TestShared(t *testing.T) {
	p := fixture(nil)
	for file, kind := range map[string]string{"": "text/html", "base.css": "text/css", "ask.js": "text/javascript"} {
		w := ask(p, "GET", file, "")
		pagetest.Want(t, file, w, http.StatusOK)
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, kind) {
			t.Errorf("%q is %s", file, got)
		}
	}
	pagetest.Want(t, "none.js", ask(p, "GET", "none.js", ""), http.StatusNotFound)
}

// TestManyClicks checks that of many clicks in two tabs, one runs and one per tab waits. A click that a newer one
// replaces gets an answer that says so.
func TestManyClicks(t *testing.T) {
	begun, release := make(chan struct{}, 100), make(chan struct{})
	p := fixture(func(context.Context) error { begun <- struct{}{}; <-release; return nil })
	answers := make(chan int, 100)
	click := func(tab string) {
		go func() {
			answers <- ask(p, "POST", "runs", tab).Code
		}()
	}
	waiting := func(tab string) *waiter {
		p.queue.mu.Lock()
		defer p.queue.mu.Unlock()
		return p.queue.waiting[tab]
	}
	click("a")
	<-begun
	for _, tab := range []string{"a", "b"} {
		for range 5 {
			before := waiting(tab)
			click(tab)
			for waiting(tab) == before {
				time.Sleep(time.Millisecond)
			}
		}
	}
	for range 8 {
		if status := <-answers; status != http.StatusConflict {
			t.Errorf("a click that is superseded gets status %d", status)
		}
	}
	close(release)
	for range 3 {
		if status := <-answers; status != http.StatusOK {
			t.Errorf("a click gets status %d", status)
		}
	}
	if n := len(begun); n != 2 {
		t.Errorf("%d runs followed the first; want one of each tab", n)
	}
	if len(p.queue.waiting) != 0 {
		t.Error("the queue remembers tabs")
	}
}

// TestClientLeaves checks that a request of a client that disconnects ends, waiting or running, and that the next one
// is answered.
func TestClientLeaves(t *testing.T) {
	begun, ended := make(chan struct{}, 10), make(chan struct{}, 10)
	block := true
	p := fixture(func(ctx context.Context) error {
		if block {
			begun <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
		}
		return ctx.Err()
	})
	p.failed = func(err error) { t.Errorf("reported: %v", err) }
	server := httptest.NewServer(p)
	defer server.Close()
	post := func(ctx context.Context, tab string) (int, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/"+p.token+"/runs", strings.NewReader(tab))
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return resp.StatusCode, nil
	}
	running, leave := context.WithCancel(t.Context())
	waiting, leaveToo := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	go func() { _, err := post(running, "a"); errs <- err }()
	<-begun
	go func() { _, err := post(waiting, "b"); errs <- err }()
	isWaiting := func() bool {
		p.queue.mu.Lock()
		defer p.queue.mu.Unlock()
		return p.queue.waiting["b"] != nil
	}
	for !isWaiting() {
		time.Sleep(time.Millisecond)
	}
	leaveToo()
	for isWaiting() {
		time.Sleep(time.Millisecond)
	}
	leave()
	<-ended
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("the client got %v", err)
		}
	}
	block = false
	if status, err := post(t.Context(), "a"); status != http.StatusOK || err != nil {
		t.Errorf("afterwards: status %d, %v", status, err)
	}
	if len(begun) != 0 {
		t.Error("a request ran whose client had left")
	}
}
