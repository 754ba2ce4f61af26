package localpage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rlx-go/rlx/core/diag"
)

// limits bounds the number and the times of connections. Other users of the machine can connect, too, but do not know
// the token.
type limits struct {
	header      time.Duration // for the header of a request
	idle        time.Duration // between two requests of a connection
	refusal     time.Duration // for the answer to a surplus connection
	connections int
}

// A browser keeps up to six connections to a server, for all tabs together.
var standard = limits{header: 10 * time.Second, idle: 2 * time.Minute, refusal: time.Second, connections: 64}

const maxHeader = 64 << 10 // bytes of a request's header

// Serve answers requests to a listener until ctx ends or the listener fails, and returns the reason. Requests have
// contexts that end with ctx. There are at most 64 connections. A further connection closes the oldest on which no
// request has had the token. If all have had it, the further connection is answered with status 503 and closed. A
// connection ends ten seconds after it was made if no request has come, two minutes after its last request, and at once
// after a request that is refused.
func (p *Page) Serve(ctx context.Context, l net.Listener, stderr io.Writer) error {
	return p.serve(ctx, l, stderr, standard)
}

func (p *Page) serve(ctx context.Context, l net.Listener, stderr io.Writer, lim limits) error {
	server := &http.Server{
		Handler:           p,
		ReadHeaderTimeout: lim.header,
		IdleTimeout:       lim.idle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(stderr, "", 0),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	err := server.Serve(&gate{Listener: l, limits: lim})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A gate is a listener that bounds the number of its connections.
type gate struct {
	net.Listener
	limits

	mu       sync.Mutex
	open     []*connection // oldest first
	refusing int           // number of goroutines that answer connections with status 503
}

// A connection knows whether a request with the token came through it.
type connection struct {
	net.Conn
	gate    *gate
	trusted bool // guarded by gate.mu
}

type connectionKey struct{}

// trust marks the connection of a request with the token.
func trust(r *http.Request) {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		c.trusted = true
	}
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if own := g.admit(c); own != nil {
			return own, nil
		}
	}
}

// admit returns nil if there are too many connections. It then answers and closes c.
func (g *gate) admit(c net.Conn) *connection {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.open) >= g.connections {
		i := slices.IndexFunc(g.open, func(o *connection) bool { return !o.trusted })
		if i < 0 {
			if g.refusing == g.connections {
				c.Close()
				return nil
			}
			g.refusing++
			go g.refuse(c)
			return nil
		}
		g.open[i].Conn.Close() // the server notices and calls Close
		g.open = slices.Delete(g.open, i, i+1)
	}
	own := &connection{Conn: c, gate: g}
	g.open = append(g.open, own)
	return own
}

// refuse answers a surplus connection. It reads the request first, because a client might not see the answer if its
// request were unread when the connection is closed.
func (g *gate) refuse(c net.Conn) {
	defer func() {
		c.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.refusing--
	}()
	c.SetDeadline(time.Now().Add(g.refusal))
	c.Read(make([]byte, maxHeader))
	why := fmt.Sprintf("the page has %d connections, which is the limit: close other tabs and try again", g.connections)
	b, _ := json.Marshal(Failure{why, string(diag.Usage)})
	fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Connection: close\r\n\r\n%s", len(b), b)
}

func (c *connection) Close() error {
	c.gate.mu.Lock()
	if i := slices.Index(c.gate.open, c); i >= 0 {
		c.gate.open = slices.Delete(c.gate.open, i, i+1)
	}
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
