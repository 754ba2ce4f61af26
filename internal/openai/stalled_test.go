package openai

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlx-go/rlx/internal/api"
)

// pipes is a listener whose connections are pipes, which have no buffers and keep to the time of a test.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.ended); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestStalled: connections on which nothing more comes, or from which nothing is read, are closed after a while. The
// time is that of the test, so it takes none.
func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		p := pipes{make(chan net.Conn), make(chan struct{})}
		s := api.New(api.Options{})
		s.Add(api.Part{Prefix: "/", Ready: func() error { return nil }, Drain: func() {},
			Refuse: func(w http.ResponseWriter, status int, _, _ string) { w.WriteHeader(status) }})
		s.HandleFunc("POST /read", func(w http.ResponseWriter, r *http.Request) {
			var v any
			if err := read(w, r, &v); err != nil {
				fail(w, failureOf(err))
				return
			}
			answer(w, v)
		})
		var failed error
		s.HandleFunc("POST /write", func(w http.ResponseWriter, r *http.Request) {
			for out := newStream(w); failed == nil; {
				failed = out.send("token")
			}
		})
		served := make(chan error)
		go func() { served <- s.Serve(ctx, p) }()
		// closed returns how long the server keeps a connection on which it got a text.
		closed := func(send string) time.Duration {
			t.Helper()
			ours, theirs := net.Pipe()
			defer ours.Close()
			p.conns <- theirs
			began := time.Now()
			if _, err := io.WriteString(ours, send); err != nil {
				t.Error(err)
			}
			io.Copy(io.Discard, ours)
			return time.Since(began)
		}
		for send, want := range map[string]time.Duration{
			"":                         10 * time.Second,
			"POST /read HTTP/1.1\r\nH": 10 * time.Second,
			"GET /livez HTTP/1.1\r\n":  10 * time.Second,
			"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{": time.Minute,
			"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n":                       2 * time.Minute,
		} {
			if got := closed(send); got != want {
				t.Errorf("after %q the connection was closed in %v; want %v", send, got, want)
			}
		}

		// Nobody reads the events.
		ours, theirs := net.Pipe()
		p.conns <- theirs
		began := time.Now()
		io.WriteString(ours, "POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		time.Sleep(writeTimeout + time.Second)
		synctest.Wait()
		if !errors.Is(failed, os.ErrDeadlineExceeded) {
			t.Errorf("after %v of a client that reads nothing, sending an event gives %v", time.Since(began), failed)
		}
		ours.Close()

		// A connection is used again after its last answer had to be read.
		ours, theirs = net.Pipe()
		p.conns <- theirs
		in := bufio.NewReader(ours)
		for _, send := range []string{"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
			"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"} {
			io.WriteString(ours, send)
			r, err := http.ReadResponse(in, nil)
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
			}
			if err != nil || r.StatusCode != http.StatusOK {
				t.Errorf("%q on a connection that is used again: %v", send, err)
			}
			time.Sleep(writeTimeout + time.Second)
		}
		ours.Close()
		end()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestDrainTime: when a server ends, an answer in progress ends as usual, and meanwhile other requests are refused, on
// connections old and new. An answer that takes longer than it may is cut off.
func TestDrainTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			takes, ends time.Duration
			whole       bool
		}{{20 * time.Second, 20 * time.Second, true}, {40 * time.Second, 30 * time.Second, false}} {
			ctx, end := context.WithCancel(t.Context())
			p := pipes{make(chan net.Conn), make(chan struct{})}
			s := api.New(api.Options{Drain: 30 * time.Second})
			draining := false
			ready := func() error {
				if draining {
					return errDraining
				}
				return nil
			}
			s.Add(api.Part{Prefix: "/", Ready: ready, Drain: func() { draining = true },
				Refuse: func(w http.ResponseWriter, status int, _, _ string) { w.WriteHeader(status) }})
			s.HandleFunc("POST /slow", func(w http.ResponseWriter, r *http.Request) {
				if err := ready(); err != nil {
					fail(w, failureOf(err))
					return
				}
				select {
				case <-time.After(c.takes):
					answer(w, "whole")
				case <-r.Context().Done():
				}
			})
			served := make(chan error)
			go func() { served <- s.Serve(ctx, p) }()
			// ask sends a request over a connection, or over a new one
			ask := func(in net.Conn, line string) (net.Conn, *bufio.Reader) {
				if in == nil {
					var theirs net.Conn
					in, theirs = net.Pipe()
					p.conns <- theirs
				}
				io.WriteString(in, line+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
				return in, bufio.NewReader(in)
			}
			status := func(in *bufio.Reader) (int, string, string) {
				r, err := http.ReadResponse(in, nil)
				if err != nil {
					return 0, "", err.Error()
				}
				b, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				return r.StatusCode, r.Header.Get("Retry-After"), string(b)
			}
			idle, in := ask(nil, "GET /readyz")
			if got, _, _ := status(in); got != http.StatusOK {
				t.Errorf("ready: %d", got)
			}
			slow, answers := ask(nil, "POST /slow")
			synctest.Wait()
			began := time.Now()
			end()
			synctest.Wait()
			var conns []net.Conn
			for _, conn := range []net.Conn{idle, nil} {
				for line, want := range map[string]int{"GET /readyz": 503, "POST /slow": 503, "GET /livez": 200} {
					conn, in := ask(conn, line)
					conns = append(conns, conn)
					if got, retry, _ := status(in); got != want || line == "POST /slow" && retry != "1" {
						t.Errorf("%s while the server ends: %d, to be tried again after %q s; want %d", line, got, retry,
							want)
					}
				}
			}
			got, _, body := status(answers)
			if whole := got == http.StatusOK && body == "\"whole\"\n"; whole != c.whole {
				t.Errorf("an answer of %v: %d %s", c.takes, got, body)
			}
			if took := time.Since(began); took != c.ends {
				t.Errorf("an answer of %v ends after %v; want %v", c.takes, took, c.ends)
			}
			for _, conn := range append(conns, slow) {
				conn.Close()
			}
			if err := <-served; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}
