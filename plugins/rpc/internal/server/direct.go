//go:build linux || darwin || windows

package server

import (
	"context"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// serveSpin is how long a backend spins after a run, because a caller in a loop sends the next request soon.
const serveSpin = 200 * time.Microsecond

// ServeRuns answers runs until the host closes the channel.
func (s *Server) ServeRuns(c *wire.RunChannel) {
	h := &rlxv1.RunHeader{}
	for {
		if err := c.Read(h); err != nil {
			c.Close() // the host has closed the channel or broken the protocol
			return
		}
		done, err := s.runDirect(h)
		r := &rlxv1.RunResult{Done: done}
		if err != nil {
			st, _ := status.FromError(err)
			r.Done = nil
			r.Status, _ = proto.Marshal(st.Proto()) // cannot fail for a status of this package
		}
		if c.Write(r) != nil {
			c.Close()
			return
		}
		if l, err := s.find(h.Executable); err == nil &&
			(l.spins || done != nil && done.TotalNs < int64(wire.ShortRun)) {
			c.Spin(serveSpin)
		}
	}
}

// runDirect runs a program whose tensors are in the shared region.
func (s *Server) runDirect(h *rlxv1.RunHeader) (done *rlxv1.Done, err error) {
	defer recoverCall(s.cfg.Log, "run", &err)
	x, end, err := s.begin(context.Background(), h)
	if err != nil {
		return nil, err
	}
	defer end()
	if !x.l.shared || len(h.Dump) > 0 {
		return nil,
			protocolError(
				"run: the run channel accepts only runs that have their tensors in shared memory and no dumps")
	}
	stats, err := x.execute()
	if err != nil {
		return nil, x.failed(stats, err)
	}
	return x.summary(stats)
}
