// Serve is a load test of a server with the API of OpenAI, such as `rlxrun serve` or llama-server:
//
//	rlxc llama/ --quantize q8_0 --batch 16 -o llama.rlx
//	rlxrun serve llama.rlx --port 8080 &
//	go run ./bench/serve -url http://127.0.0.1:8080/v1 -clients 1,4,8,16
//
// Each client sends requests one after the other: a prompt of random ids and a number of tokens to generate. For each
// number of clients the table has the tokens per second of all together, the time to the first token, and the time from
// token to token, in milliseconds (medians and 95th percentiles). Prompts differ, so nothing is computed once for
// several of them, but for what -shared asks for. A figure is the median of the rounds.
//
// With -check, all requests are first sent one by one, and every later answer must be the same: no token is lost,
// doubled or another's. The server needs `--reproducible` for it.
//
// With -soak 10m, rounds go on for ten minutes, and with -pid the memory of the server is printed every minute. -pause
// is the time between two requests of a client. With -leave 10, every tenth request is left after half of its tokens:
//
//	go run ./bench/serve -check -soak 1h -pause 200ms -leave 10 -pid $(pidof rlxrun)
//
// With -kill 20s, the backends of the server are killed every 20 seconds. An answer may then be cut off by an error,
// and must be the beginning of that alone.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A load says what the clients ask for.
type load struct {
	url, key, model                    string
	prompt, tokens, shared, vocabulary int
	requests, leave                    int
	pause                              time.Duration
	seed                               uint64
	check                              bool
	watch                              watch
	count                              *sums             // nil before the rounds
	want                               map[[2]int]string // with check: the answer to a request of a client
}

// sums are those over all rounds. compared are the answers that were the same as alone.
type sums struct{ sent, tokens, compared, left, kills, cut atomic.Int64 }

func main() {
	var l load
	flag.StringVar(&l.url, "url", "http://127.0.0.1:8080/v1", "base URL of the API")
	flag.StringVar(&l.key, "key", "", "key of the server")
	flag.StringVar(&l.model, "model", "any", "name of the model, if the server has several")
	flag.IntVar(&l.prompt, "prompt", 128, "tokens of a prompt")
	flag.IntVar(&l.shared, "shared", 0, "tokens with which all prompts begin")
	flag.IntVar(&l.tokens, "tokens", 128, "tokens to generate")
	flag.IntVar(&l.vocabulary, "vocabulary", 1000, "ids of prompts are less than this")
	flag.IntVar(&l.requests, "requests", 2, "requests of each client in a round")
	flag.Uint64Var(&l.seed, "seed", 1, "of the prompts")
	flag.BoolVar(&l.check, "check", false, "compare the answers with those of single requests")
	clients := flag.String("clients", "1,4,8,16", "numbers of clients")
	rounds := flag.Int("rounds", 3, "rounds, in each of which every number of clients has its turn")
	soak := flag.Duration("soak", 0, "go on with rounds for this long, in place of -rounds")
	flag.DurationVar(&l.pause, "pause", 0, "between two requests of a client")
	flag.IntVar(&l.leave, "leave", 0, "of so many requests of all clients, one is left after half of its tokens; 0: none")
	pid := flag.Int("pid", 0, "process of the server: print its memory and that of its backends every minute of -soak (Linux)")
	kill := flag.Duration("kill", 0, "kill the backends of -pid this often")
	flag.Parse()
	if *soak > 0 {
		*rounds = math.MaxInt
	}
	l.watch = watch{pid: *pid, until: *soak, kill: *kill}
	if err := run(l, *clients, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(l load, clients string, rounds int) error {
	if l.prompt < 1 || l.tokens < 1 || l.requests < 1 || rounds < 1 || l.vocabulary < 1 || l.shared > l.prompt {
		return errors.New("-prompt, -tokens, -requests, -vocabulary and -rounds must be 1 or more, -shared at most -prompt")
	}
	var counts []int
	for s := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 4096 {
			return fmt.Errorf("-clients: %q; want numbers from 1 to 4096, as in 1,4,16", s)
		}
		counts = append(counts, n)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := l.round(ctx, 1, 1); err != nil { // loads the model, and finds mistakes
		return err
	}
	if l.check {
		l.want = map[[2]int]string{}
		for i := range slices.Max(counts) {
			if err := l.client(ctx, i, l.requests, func(k int, a answer) error {
				l.want[[2]int{i, k}] = a.text.String()
				return nil
			}); err != nil {
				return err
			}
		}
	}
	results := map[int][]figures{}
	l.count = &sums{}
	l.watch.begin()
	defer l.watch.kills(&l.count.kills)()
	for range rounds {
		if more, err := l.watch.more(); err != nil || !more {
			if err != nil {
				return err
			}
			break
		}
		for _, n := range counts {
			if !l.check {
				l.seed++
			}
			f, err := l.round(ctx, n, l.requests)
			if err != nil {
				return err
			}
			results[n] = append(results[n], f)
		}
	}
	if l.check {
		l.report()
	}
	fmt.Printf("%8s %10s %10s %10s %10s %10s\n", "clients", "tokens/s", "first p50", "first p95", "next p50", "next p95")
	for _, n := range counts {
		of := func(value func(figures) float64) float64 {
			var all []float64
			for _, f := range results[n] {
				all = append(all, value(f))
			}
			return percentile(all, 50)
		}
		fmt.Printf("%8d %10.1f %10.1f %10.1f %10.2f %10.2f\n", n, of(func(f figures) float64 { return f.rate }),
			of(func(f figures) float64 { return f.first[0] }), of(func(f figures) float64 { return f.first[1] }),
			of(func(f figures) float64 { return f.next[0] }), of(func(f figures) float64 { return f.next[1] }))
	}
	return nil
}

// report prints the sums over all rounds.
func (l load) report() {
	fmt.Printf("%d requests, %d left early; %d answers with %d tokens in all were the same as alone\n",
		l.count.sent.Load(), l.count.left.Load(), l.count.compared.Load(), l.count.tokens.Load())
	if l.watch.kill > 0 {
		fmt.Printf("%d backends were killed, and %d answers cut off\n", l.count.kills.Load(), l.count.cut.Load())
	}
}

// figures are the result of a round: generated tokens per second; milliseconds to the first token and from token to
// token, each the median and the 95th percentile.
type figures struct {
	rate        float64
	first, next [2]float64
}

// round lets n clients send requests.
func (l load) round(ctx context.Context, n, requests int) (figures, error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	var first, next []float64
	var failed error
	tokens, start := 0, time.Now()
	for i := range n {
		all.Go(func() {
			err := l.client(ctx, i, requests, func(k int, one answer) error {
				mu.Lock()
				defer mu.Unlock()
				tokens += one.tokens
				first, next = append(first, one.first), append(next, one.next...)
				return l.compare(i, k, one)
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = cmp.Or(failed, err)
			}
		})
	}
	all.Wait()
	f := figures{rate: float64(tokens) / time.Since(start).Seconds()}
	for k, p := range []float64{50, 95} {
		f.first[k], f.next[k] = percentile(first, p), percentile(next, p)
	}
	return f, failed
}

// compare compares the answer to request k of client i, or its beginning, with the answer alone.
func (l load) compare(i, k int, a answer) error {
	want, ok := l.want[[2]int{i, k}]
	if !ok || l.count == nil {
		return nil
	}
	if got := a.text.String(); got != want && !((a.left || a.cut) && strings.HasPrefix(want, got)) {
		return fmt.Errorf("request %d of client %d has another answer than alone:\n%s\n%s", k, i, got, want)
	}
	l.count.compared.Add(1)
	l.count.tokens.Add(int64(a.tokens))
	return nil
}

// client sends the requests of client i, one after the other.
func (l load) client(ctx context.Context, i, requests int, got func(k int, a answer) error) error {
	rng := rand.New(rand.NewPCG(l.seed, uint64(i)))
	for k := range requests {
		if k > 0 {
			time.Sleep(l.pause)
		}
		leave := false
		if l.count != nil {
			leave = l.count.sent.Add(1)%int64(cmp.Or(l.leave, math.MaxInt)) == 0
		}
		one, err := l.request(ctx, rng, leave)
		if err == nil {
			err = got(k, one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func percentile(x []float64, p float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return x[min(len(x)-1, int(float64(len(x))*p/100))]
}

// An answer has the times of the events of a stream, in milliseconds.
type answer struct {
	tokens int
	left   bool // after half of the tokens
	cut    bool // by the loss of a backend
	first  float64
	next   []float64
	text   *strings.Builder // tokens and their log probabilities
}

func (l load) request(ctx context.Context, rng *rand.Rand, leave bool) (a answer, err error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	a.text = &strings.Builder{}
	body, err := l.body(rng)
	if err != nil {
		return a, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/completions", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+l.key)
	start := time.Now()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable && l.kills() {
		l.count.cut.Add(1)
		a.cut = true
		return a, nil
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return a, fmt.Errorf("%s: %s", resp.Status, b)
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	for last := time.Duration(0); in.Scan(); {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var event struct {
			Choices []struct {
				FinishReason *string `json:"finish_reason"`
				LogProbs     json.RawMessage
			}
			Usage *struct {
				Completion int `json:"completion_tokens"`
			}
			Error any
		}
		err := json.Unmarshal([]byte(data), &event)
		if err == nil && event.Error != nil && l.kills() {
			l.count.cut.Add(1)
			a.cut, a.tokens = true, len(a.next)+min(1, int(last))
			return a, nil
		}
		if err != nil || event.Error != nil {
			return a, fmt.Errorf("the stream has %s, %w", data, err)
		}
		if event.Usage != nil {
			a.tokens = event.Usage.Completion
		}
		if len(event.Choices) == 0 || event.Choices[0].FinishReason != nil {
			continue
		}
		a.text.Write(event.Choices[0].LogProbs)
		now := time.Since(start)
		if last == 0 {
			a.first = ms(now)
		} else {
			a.next = append(a.next, ms(now-last))
		}
		last = now
		if a.left = leave && len(a.next)+1 >= l.tokens/2; a.left {
			a.tokens = len(a.next) + 1
			l.count.left.Add(1)
			return a, nil
		}
	}
	if err := in.Err(); err != nil {
		return a, err
	}
	if a.tokens != l.tokens {
		return a, fmt.Errorf("an answer has %d tokens; want %d", a.tokens, l.tokens)
	}
	return a, nil
}

// body returns the next request of a client.
func (l load) body(rng *rand.Rand) ([]byte, error) {
	ids := make([]int, l.prompt)
	for i := range ids {
		ids[i] = i % l.vocabulary
		if i >= l.shared {
			ids[i] = rng.IntN(l.vocabulary)
		}
	}
	// logprobs makes an event of every token, also of those without text
	return json.Marshal(map[string]any{"model": l.model, "prompt": ids, "max_tokens": l.tokens,
		"temperature": 0.7, "seed": rng.Uint32(), "ignore_eos": true, "stream": true, "logprobs": 0,
		"stream_options": map[string]any{"include_usage": true}})
}

// kills reports whether answers may be cut off.
func (l load) kills() bool { return l.count != nil && l.watch.kill > 0 }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
