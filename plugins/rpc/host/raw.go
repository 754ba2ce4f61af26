package host

import (
	"context"

	"google.golang.org/grpc"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// Raw is the connection below a session. Package protocoltest sends requests through it that a session would not send,
// to see that the backend refuses them.
type Raw struct {
	Conn   *grpc.ClientConn
	Region *wire.Region // nil if tensors are sent in chunks

	s *Session
}

// Raw returns the connection below the session. The caller must not make other calls at the same time.
func (s *Session) Raw() Raw { return Raw{Conn: s.conn, Region: s.region, s: s} }

// Generation returns the number of the last run.
func (r Raw) Generation() int64 { return r.s.generation }

// NextGeneration returns a number for another run, which the session will not use.
func (r Raw) NextGeneration() int64 {
	r.s.generation++
	return r.s.generation
}

// CutLifeline closes the lifeline, as the kernel does when the host dies.
func (r Raw) CutLifeline() { r.s.lifelineW.Close() }

// ID returns the number by which requests name the executable.
func (e *Executable) ID() uint64 { return e.id }

// withoutDeadline is the key of a context for calls without a deadline. Tests use it to see what the backend does.
type withoutDeadline struct{}

// Endless returns a context without the deadline of ctx that is cancelled when ctx ends. Calls on Raw.Conn must have a
// deadline, unless they use such a context.
func Endless(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), withoutDeadline{}, true))
	stop := context.AfterFunc(ctx, cancel)
	return out, func() {
		stop()
		cancel()
	}
}
