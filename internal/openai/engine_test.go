package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// TestPlaces: clients take places in turns, each has at most its own number, and who goes while it waits counts no
// more.
func TestPlaces(t *testing.T) {
	p := newPlaces(Limits{Parallel: 1, Waiting: 6, PerClient: 4})
	leave, err := p.take(t.Context(), Client{Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	wait := func(name string, n int) {
		for range n {
			_, before := p.counts()
			all.Go(func() {
				done, err := p.take(t.Context(), Client{Name: name})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				done()
			})
			for _, n := p.counts(); n == before; _, n = p.counts() { // until it waits
				time.Sleep(time.Millisecond)
			}
		}
	}
	wait("many", 4)
	if _, err := p.take(t.Context(), Client{Name: "many"}); !errors.Is(err, ErrClient) {
		t.Errorf("a fifth text of a client: %v", err)
	}
	wait("few", 2)
	if _, err := p.take(t.Context(), Client{Name: "other"}); !errors.Is(err, ErrBusy) {
		t.Errorf("a full queue: %v", err)
	}
	leave()
	all.Wait()
	if want := []string{"many", "few", "many", "few", "many", "many"}; !slices.Equal(order, want) {
		t.Errorf("order %v; want %v", order, want)
	}
	leave, _ = p.take(t.Context(), Client{Name: "first"})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	all.Go(func() {
		if _, err := p.take(ctx, Client{Name: "second"}); err != gone {
			t.Error(err)
		}
	})
	for _, n := p.counts(); n == 0; _, n = p.counts() {
		time.Sleep(time.Millisecond)
	}
	cancel(gone)
	all.Wait()
	leave()
	if taken, queued := p.counts(); taken+queued+len(p.clients)+len(p.turns) > 0 {
		t.Errorf("%d taken, %d wait, %d clients, %d turns; want none", taken, queued, len(p.clients), len(p.turns))
	}
	p.drain()
	if _, err := p.take(t.Context(), Client{Name: "late"}); !errors.Is(err, errDraining) {
		t.Error(err)
	}
}

// TestSlow: a client that takes no tokens keeps no other waiting, and gets all of its tokens later.
func TestSlow(t *testing.T) {
	f := serve(t, batchModel(), Limits{}, api.Options{})
	o := text.Options{Tokens: 8, IgnoreEnd: true, Sampling: &text.Sampling{}}
	begun, free := make(chan struct{}), make(chan struct{})
	slow, tokens := o, 0
	slow.Each = func(text.Token) error {
		if tokens++; tokens == 1 {
			close(begun)
			<-free
		}
		return nil
	}
	var all sync.WaitGroup
	all.Go(func() {
		_, err := f.engine.Generate(t.Context(), Client{Name: "slow"}, []int{1, 2, 3}, slow)
		if err != nil || tokens != 8 {
			t.Errorf("%d tokens, %v", tokens, err)
		}
	})
	<-begun
	for range 3 {
		r, err := f.engine.Generate(t.Context(), Client{Name: "quick"}, []int{4, 5}, o)
		if err != nil || len(r.Tokens) != 8 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	close(free)
	all.Wait()
}

// TestKilled: while clients send requests, the backend is lost again and again. Requests of which nothing was sent get
// their answers, the same as ever; the others end with an error in the stream.
func TestKilled(t *testing.T) { bothWays(t, testKilled) }

func testKilled(t *testing.T, model string) {
	const clients, each = 4, 4
	f := serve(t, model, Limits{Parallel: 4, Waiting: 100}, api.Options{})
	ask := func(i int, stream bool) string {
		r := request{"prompt": fmt.Sprintf("Line %d:", i), "max_tokens": 10, "temperature": 0}
		if stream {
			body := fmt.Sprintf(`{"prompt":"Line %d:","max_tokens":10,"temperature":0,"stream":true}`, i)
			resp, err := http.Post(f.URL+"/v1/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return ""
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			return string(b)
		}
		status, got := f.post(t, "/v1/completions", r)
		if status == 503 && at(got, "error", "code") == "server_error" { // lost too often in a row
			return "lost"
		}
		text, _ := at(got, "choices", 0, "text").(string)
		return text
	}
	want := make([]string, clients)
	for i := range want {
		want[i] = ask(i, false)
	}
	stop := make(chan struct{})
	var killer, all sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			f.engine.mu.Lock()
			s := f.engine.session
			f.engine.mu.Unlock()
			if s != nil {
				s.Close()
			}
			// the next one lives for a request
			f.engine.Generate(t.Context(), Client{Name: "killer"}, []int{1}, text.Options{Tokens: 12, IgnoreEnd: true})
		}
	})
	for i := range clients {
		all.Go(func() {
			for k := range each {
				if k%2 == 1 {
					got := ask(i, true)
					if done := strings.Contains(got, "[DONE]"); done == strings.Contains(got, `"error":{`) {
						t.Errorf("a stream ends with %q", got)
					}
				} else if got := ask(i, false); got != want[i] && got != "lost" {
					t.Errorf("%q; want %q", got, want[i])
				}
			}
		})
	}
	all.Wait()
	close(stop)
	killer.Wait()
	if taken, queued := f.engine.places.counts(); taken+queued > 0 {
		t.Errorf("%d texts in progress and %d waiting after the last", taken, queued)
	}
}

// TestMetrics: the numbers that Prometheus reads.
func TestMetrics(t *testing.T) { bothWays(t, testMetrics) }

func testMetrics(t *testing.T, model string) {
	f := serve(t, model, Limits{Parallel: 2}, api.Options{})
	for range 2 {
		f.post(t, "/v1/completions", request{"prompt": []int{1, 2, 3}, "max_tokens": 5, "temperature": 0})
	}
	f.post(t, "/v1/completions", request{"prompt": "a", "temperature": 5})
	f.post(t, "/v1/embeddings", request{"input": []int{1, 2, 3, 4}})
	b := f.numbers(t)
	pages := []string{"rlx_cache_pages 8", "rlx_cache_pages_used 0", "rlx_cache_pages_kept 1"}
	if model != pagedModel() {
		pages = nil
	}
	for _, line := range append(pages,
		"rlx_prompt_tokens_total 10", "rlx_generated_tokens_total 10", `rlx_texts_total{reason="length"} 2`,
		`rlx_http_requests_total{path="POST /v1/completions",status="200"} 2`,
		`rlx_http_requests_total{path="POST /v1/completions",status="400"} 1`, "rlx_texts_in_progress 0",
		"rlx_first_token_seconds_count 2", "rlx_backend_lost_total 0",
		"rlx_cache_pages_evicted_total 0", "rlx_texts_preempted_total 0",
	) {
		if !strings.Contains(b, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// numbers returns what Prometheus reads.
func (f *fixture) numbers(t *testing.T) string {
	t.Helper()
	resp, err := http.Get(f.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCountersGoOn: the counts of a model go on when its backend is lost, and when another file takes its place. What a
// backend counts is the same each time, because each begins with empty pages.
func TestCountersGoOn(t *testing.T) {
	model := compileChat("counted", "--batch", "4", "--cache", "256")
	f := serve(t, model, Limits{}, api.Options{})
	count := func(name string) (n float64) {
		t.Helper()
		for line := range strings.Lines(f.numbers(t)) {
			if of, s, _ := strings.Cut(strings.TrimSpace(line), " "); of == name {
				var err error
				if n, err = strconv.ParseFloat(s, 64); err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	const evicted, preempted = "rlx_cache_pages_evicted_total", "rlx_texts_preempted_total"
	long := request{"max_tokens": 150, "temperature": 0, "ignore_eos": true}
	texts := func() { // one after the other
		for i := range 3 {
			status, got := f.post(t, "/v1/completions", long.with(request{"prompt": []int{i + 1, 2, 3}}))
			if status != http.StatusOK {
				t.Errorf("%d %v", status, got)
			}
		}
	}
	texts()
	each := count(evicted)
	if each == 0 {
		t.Fatal("no page was dropped for another")
	}
	for count(preempted) == 0 { // until two of them were in progress at a time
		f.post(t, "/v1/completions", long.with(request{"prompt": [][]int{{1, 2, 3}, {4, 5, 6}}}))
	}
	was, gaveUp := count(evicted), count(preempted)
	rlxtest.Kill(t, nil)
	for f.sessions[0].Err() == nil { // or a text would begin on the old one
		time.Sleep(time.Millisecond)
	}
	texts()
	m := rlxtest.Open(t, model)
	next := another(t, m, Limits{})
	f.models.Put("demo", m, next, nil)
	texts()
	for name, want := range map[string]float64{evicted: was + 2*each, preempted: gaveUp, "rlx_backend_lost_total": 1} {
		if got := count(name); got != want {
			t.Errorf("%s is %v; want %v", name, got, want)
		}
	}
	// the last text gives its pages back, too, if its client has gone
	gone, cancel := context.WithCancel(t.Context())
	_, err := next.Generate(gone, Client{Name: "gone"}, []int{1}, text.Options{Tokens: 100, IgnoreEnd: true,
		Each: func(text.Token) error { cancel(); return nil }})
	if got := count("rlx_cache_pages_used"); got != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the last text %v pages are in use; %v", got, err)
	}
}
