package openai

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// TestKilledOften: the backend is killed 6 times, or RLX_KILLS times, while clients ask. No token of an answer is lost
// or doubled: an answer has the tokens and the bits of their probabilities of a request that is alone. A stream that is
// cut off has the first of them, and an error. With pages there are fewer than all texts need.
func TestKilledOften(t *testing.T) {
	t.Run("shared", func(t *testing.T) { testKilledOften(t, batchModel()) })
	t.Run("pages", func(t *testing.T) { testKilledOften(t, compileChat("few", "--batch", "4", "--cache", "256")) })
}

func testKilledOften(t *testing.T, model string) {
	kills := 6
	if s := os.Getenv("RLX_KILLS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	const clients = 3
	f := serve(t, model, Limits{Parallel: 4, Waiting: 100, Alike: true}, api.Options{})
	ask := func(client int) (tokens string, err, done bool) {
		body := fmt.Sprintf(`{"prompt": [%s%d, 2, 3], "max_tokens": 12, "temperature": 0.8, "seed": %d, "ignore_eos": true,
			"logprobs": 2, "stream": true}`, strings.Repeat("5, ", 56), client+1, client)
		resp, failed := http.Post(f.URL+"/v1/completions", "application/json", strings.NewReader(body))
		if failed != nil {
			t.Error(failed)
			return "", false, false
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable { // lost too often in a row
			return "", true, false
		}
		var out strings.Builder
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			_, event, _ := strings.Cut(s.Text(), "data: ")
			err = err || strings.HasPrefix(event, `{"error":{`)
			done = done || event == "[DONE]"
			if _, choice, ok := strings.Cut(event, `"logprobs":{`); ok {
				out.WriteString(choice + "\n")
			}
		}
		return out.String(), err, done
	}
	want := make([]string, clients)
	for i := range want {
		var done bool
		if want[i], _, done = ask(i); !done || strings.Count(want[i], "\n") != 12 {
			t.Fatalf("alone: %q, %v", want[i], done)
		}
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	whole, cut := 0, 0
	for i := range clients {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err, done := ask(i)
				mu.Lock()
				if done {
					whole++
				} else {
					cut++
				}
				mu.Unlock()
				if err == done || done && got != want[i] || !strings.HasPrefix(want[i], got) {
					t.Errorf("client %d: error %v, done %v: %s; want %s", i, err, done, got, want[i])
				}
			}
		})
	}
	for range kills {
		rlxtest.Kill(t, nil)
		// the next one lives for a text
		if _, err := f.engine.Generate(t.Context(), Client{Name: "killer"}, []int{1},
			text.Options{Tokens: 8, IgnoreEnd: true}); err != nil && !errors.Is(err, rlx.ErrLost) {
			t.Error(err)
		}
	}
	close(stop)
	all.Wait()
	t.Logf("%d kills: %d answers, and %d that were cut off", kills, whole, cut)
	if got, err, done := ask(0); err || !done || got != want[0] {
		t.Errorf("afterwards: error %v, done %v: %s; want %s", err, done, got, want[0])
	}
	if taken, queued := f.engine.places.counts(); taken+queued > 0 {
		t.Errorf("%d texts in progress and %d waiting after the last", taken, queued)
	}
}

// TestConnections: clients that send half of a request, go in the middle of an answer, or send what is no request leave
// nothing behind, and others get the same answers as ever.
func TestConnections(t *testing.T) { bothWays(t, testConnections) }

func testConnections(t *testing.T, model string) {
	f := serve(t, model, Limits{Parallel: 2, Waiting: 2}, api.Options{})
	quick := request{"prompt": []int{1, 2, 3}, "max_tokens": 5, "temperature": 0}
	_, want := f.post(t, "/v1/completions", quick)
	dial := func(send string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(f.URL, "http://"))
		if err == nil {
			_, err = io.WriteString(c, send)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
	const long = `{"prompt": [1, 2], "max_tokens": 200, "ignore_eos": true, "stream": true}`
	var open []net.Conn
	for _, send := range []string{"", "POST /v1/comp", head + "1000\r\n\r\n{", // half of a request
		fmt.Sprint(head, len(long), "\r\n\r\n", long)} { // and one who does not read the answer
		open = append(open, dial(send))
	}
	for _, c := range []struct{ send, status string }{
		{"nonsense\r\n\r\n", "400"}, {"GET / HTTP/9.9\r\n\r\n", "505"}, {"GET /v1/models HTTP/1.1\r\n\r\n", "400"},
		{head + "x\r\n\r\n", "400"}, {head + "2\r\nContent-Length: 3\r\n\r\n{}", "400"},
		{"GET /v1/models HTTP/1.1\r\nHost: x\r\na: " + strings.Repeat("a", 1<<21) + "\r\n\r\n", "431"},
		{head + "2\r\n\r\n[]", "400"}, {head + "4\r\n\r\nnull", "400"},
		{head + "3\r\n\r\n\x00\xff{", "400"}, {head + "40000\r\n\r\n" + strings.Repeat("[", 40000), "400"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(conn, c.send) // the server may refuse before it has read all
		answer, err := bufio.NewReader(conn).ReadString('\n')
		if _, status, _ := strings.Cut(answer, " "); err != nil || !strings.HasPrefix(status, c.status) {
			t.Errorf("%.60q: %q, %v; want status %s", c.send, answer, err, c.status)
		}
		conn.Close()
	}
	same := func() {
		t.Helper()
		status, got := f.post(t, "/v1/completions", quick)
		if status != http.StatusOK || at(got, "choices", 0, "text") != at(want, "choices", 0, "text") {
			t.Errorf("%d %v; want %v", status, got, want)
		}
	}
	same()
	for _, c := range open {
		c.Close()
	}
	gone := dial(fmt.Sprint(head, len(long), "\r\n\r\n", long))
	if _, err := gone.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	gone.Close()
	same()
	for taken, queued := f.engine.places.counts(); taken+queued > 0; taken, queued = f.engine.places.counts() {
		same() // the texts of those who have gone end
	}
}

// TestFullDisk: a log for which there is no room stops no request.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("the system has no /dev/full")
	}
	defer full.Close()
	if _, err := full.WriteString("x"); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	f := serve(t, batchModel(), Limits{}, api.Options{Log: slog.New(slog.NewJSONHandler(full, nil))})
	for range 2 {
		status, got := f.post(t, "/v1/completions", request{"prompt": []int{1, 2, 3}, "max_tokens": 5})
		if status != http.StatusOK {
			t.Errorf("%d %v", status, got)
		}
	}
}
