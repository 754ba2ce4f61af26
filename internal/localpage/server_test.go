package localpage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// listening serves a page with limits until the test ends. dial connects to it.
func listening(t *testing.T, lim limits) (p *Page, dial func() net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = fixture(nil)
	ctx, cancel := context.WithCancelCause(context.Background()) // the context of the test ends before its cleanup
	ended, stop := make(chan error), errors.New("stop")
	go func() { ended <- p.serve(ctx, l, io.Discard, lim) }()
	t.Cleanup(func() {
		cancel(stop)
		if err := <-ended; err != stop {
			t.Errorf("the server ended with %v", err)
		}
	})
	return p, func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// get makes a request through a connection.
func get(t *testing.T, c net.Conn, path string) (status int, body string) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path); err != nil {
		return 0, err.Error()
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// wantClosed waits until the server closes a connection.
func wantClosed(t *testing.T, what string, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Errorf("%s is still open after %d bytes: %v", what, n, err)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// TestIdleConnections checks that the server ends connections that send nothing, only a part of a request, nothing more
// after a request, or a request without the token.
func TestIdleConnections(t *testing.T) {
	lim := standard
	lim.header, lim.idle = 20*time.Millisecond, 20*time.Millisecond
	p, dial := listening(t, lim)
	wantClosed(t, "a silent connection", dial())
	part := dial()
	io.WriteString(part, "GET / HT")
	wantClosed(t, "a connection with a part of a request", part)
	used := dial()
	if status, body := get(t, used, "/"+p.token+"/start"); status != http.StatusOK {
		t.Errorf("status %d: %s", status, body)
	}
	wantClosed(t, "a connection after a request", used)

	if standard.header <= 0 || standard.idle <= 0 {
		t.Errorf("limits %+v", standard)
	}
	_, dial = listening(t, standard)
	stranger := dial()
	if status, body := get(t, stranger, "/x/start"); status != http.StatusForbidden {
		t.Errorf("status %d: %s", status, body)
	}
	wantClosed(t, "a connection without the token", stranger)
}

// TestManyConnections checks that connections without the token do not keep the user out, and that surplus connections
// with the token get an answer that says so.
func TestManyConnections(t *testing.T) {
	lim := limits{header: time.Hour, idle: time.Hour, refusal: time.Hour, connections: 4}
	p, dial := listening(t, lim)
	var silent []net.Conn
	for range 3 * lim.connections {
		silent = append(silent, dial())
	}
	var own []net.Conn
	for i := range lim.connections {
		c := dial()
		if status, body := get(t, c, "/"+p.token+"/start"); status != http.StatusOK {
			t.Fatalf("connection %d of the user: status %d: %s", i, status, body)
		}
		own = append(own, c)
	}
	for _, c := range silent {
		wantClosed(t, "a silent connection", c)
	}
	status, body := get(t, dial(), "/"+p.token+"/start")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "has 4 connections") ||
		!strings.Contains(body, "RLX2001") {
		t.Errorf("one too many: status %d: %s", status, body)
	}
	if status, body := get(t, own[0], "/"+p.token+"/start"); status != http.StatusOK {
		t.Errorf("a connection of the user: status %d: %s", status, body)
	}
	// Once one has ended, there is room.
	own[0].Close()
	for {
		if status, _ := get(t, dial(), "/"+p.token+"/start"); status == http.StatusOK {
			break
		}
	}
}
