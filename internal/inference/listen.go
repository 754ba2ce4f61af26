package inference

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/rlx-go/rlx/internal/inference/inferencepb"
)

// Serve answers calls to a listener until ctx ends or the listener fails. When ctx ends, calls in progress may take as
// long as those of api.Server.
//
// A message may be as large as the inputs of the models need. A server of package grpc has one limit for its lifetime.
// So if a model that replaces another takes larger inputs, another server gets the connections from then on, and the
// old one asks its clients to connect again, which they do by themselves.
func (g *GRPC) Serve(ctx context.Context, l net.Listener) error {
	x := &serving{g: g, address: l.Addr(), ending: map[*grpc.Server]bool{}}
	defer g.service.onPut(x.resize)()
	x.resize()
	stop := context.AfterFunc(ctx, func() {
		g.service.Drain()
		l.Close()
	})
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			x.end()
			return err
		}
		x.give(conn)
	}
}

// limit returns how large a message may be.
func (s *Service) limit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var limit int64
	for _, m := range s.models {
		limit = max(limit, m.limit())
	}
	return int(min(limit, maxMessage))
}

// serving is a listener whose connections the latest of several servers gets.
type serving struct {
	g       *GRPC
	address net.Addr

	mu     sync.Mutex
	limit  int
	server *grpc.Server
	conns  *handed
	old    sync.WaitGroup        // of servers that end
	ending map[*grpc.Server]bool // these
}

// resize starts another server if messages may be larger than the limit of the one that there is.
func (x *serving) resize() {
	limit := x.g.service.limit()
	x.mu.Lock()
	defer x.mu.Unlock()
	if limit <= x.limit {
		return
	}
	if old := x.server; old != nil {
		x.ending[old] = true
		x.old.Go(func() {
			old.GracefulStop()
			x.mu.Lock()
			delete(x.ending, old)
			x.mu.Unlock()
		})
	}
	x.limit, x.conns = limit, &handed{address: x.address, conns: make(chan net.Conn), closed: make(chan struct{})}
	x.server = grpc.NewServer(append(x.g.options[:len(x.g.options):len(x.g.options)], grpc.MaxRecvMsgSize(limit),
		grpc.MaxSendMsgSize(maxMessage), grpc.UnaryInterceptor(x.g.intercept))...)
	pb.RegisterGRPCInferenceServiceServer(x.server, x.g)
	server, conns := x.server, x.conns
	go server.Serve(conns)
}

// give hands a connection to the server.
func (x *serving) give(conn net.Conn) {
	x.mu.Lock()
	conns := x.conns
	x.mu.Unlock()
	select {
	case conns.conns <- conn:
	case <-conns.closed: // a new server has come in between: the client connects again
		conn.Close()
	}
}

// end waits for the calls in progress.
func (x *serving) end() {
	x.mu.Lock()
	server := x.server
	all := append(slices.Collect(maps.Keys(x.ending)), server)
	x.mu.Unlock()
	defer time.AfterFunc(x.g.api.DrainTime(), func() {
		for _, s := range all {
			s.Stop()
		}
	}).Stop()
	server.GracefulStop()
	x.old.Wait()
}

// handed is a listener whose connections another one has accepted.
type handed struct {
	address net.Addr
	conns   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

var errHanded = errors.New("another server takes the connections")

// Accept waits for a connection.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, errHanded
	}
}

// Close ends Accept.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr returns the address of the listener that accepts.
func (h *handed) Addr() net.Addr { return h.address }
