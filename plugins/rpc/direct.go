//go:build linux || darwin

package rpc

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// A runChannel is a socket between host and backend for runs whose tensors are in shared memory. A gRPC call passes through several
// goroutines on each side, and waking them can take longer than the run itself. With the channel, one goroutine waits on each side.
//
// A message is preceded by its length (4 bytes, little-endian). The host sends a RunHeader, and the backend answers with a RunResult.
type runChannel struct {
	conn net.Conn
	in   *bufio.Reader // reads from conn; reading a short message takes one system call
	buf  []byte
}

// newRunChannel returns the host's end, and the backend's end as a file to inherit.
func newRunChannel() (*runChannel, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	far := os.NewFile(uintptr(fds[1]), "runs")
	c, err := openRunChannel(os.NewFile(uintptr(fds[0]), "runs"))
	if err != nil {
		far.Close()
		return nil, nil, err
	}
	return c, far, nil
}

// openRunChannel returns a channel for one end of the socket, and closes f.
func openRunChannel(f *os.File) (*runChannel, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return &runChannel{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (c *runChannel) close() {
	if c != nil {
		c.conn.Close()
	}
}

// spin polls until there is something to read, the channel fails, or d has passed.
func (c *runChannel) spin(d time.Duration) {
	conn, ok := c.conn.(syscall.Conn)
	if !ok || d <= 0 || c.in.Buffered() > 0 || runtime.NumCPU() == 1 {
		return
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	var b [1]byte
	more := true
	poll := func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		more = err == unix.EAGAIN || err == unix.EINTR
		return true
	}
	for end := time.Now().Add(d); more && time.Now().Before(end); runtime.Gosched() {
		yieldThread()              // the other process may wait for this processor
		if raw.Read(poll) != nil { // the deadline has passed, or the channel is closed
			return
		}
	}
}

// write sends one message.
func (c *runChannel) write(m proto.Message) error {
	b, err := proto.MarshalOptions{}.MarshalAppend(append(c.buf[:0], 0, 0, 0, 0), m)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	c.buf = b
	_, err = c.conn.Write(b)
	return err
}

// errTooLong is returned for a message longer than MaxMessage.
var errTooLong = fmt.Errorf("a message of more than %d bytes", MaxMessage)

// read receives one message. It returns io.EOF if the other side has closed the channel between two messages.
func (c *runChannel) read(m proto.Message) error {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	if n > MaxMessage {
		return errTooLong
	}
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	if _, err := io.ReadFull(c.in, c.buf[:n]); err != nil {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	return proto.Unmarshal(c.buf[:n], m)
}

// send sends the request for a run. Like gRPC calls, send and receive return errors with a gRPC status.
func (c *runChannel) send(h *rlxv1.RunHeader) error {
	if err := c.write(h); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// receive waits for the result of a run until ctx ends. It spins for the given time before it blocks. After an error that did not come from the
// backend, the channel is unusable.
func (c *runChannel) receive(ctx context.Context, spin time.Duration) (*rlxv1.Done, error) {
	stop := context.AfterFunc(ctx, func() { c.conn.SetReadDeadline(time.Unix(1, 0)) })
	c.spin(spin)
	var r rlxv1.RunResult
	err := c.read(&r)
	if !stop() { // ctx has ended, so conn has a read deadline in the past and cannot be used for another run
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	switch {
	case errors.Is(err, errTooLong):
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	case r.Done != nil && len(r.Status) == 0:
		return r.Done, nil
	}
	st := &spb.Status{}
	if err := proto.Unmarshal(r.Status, st); err != nil || st.Code == 0 {
		return nil, status.Error(codes.Internal, "the result of a run has neither a summary nor an error")
	}
	return nil, status.FromProto(st).Err()
}

// serveRuns answers runs until the host closes the channel.
func (s *server) serveRuns(c *runChannel) {
	for {
		h := &rlxv1.RunHeader{}
		if err := c.read(h); err != nil {
			c.close() // the host has closed the channel or broken the protocol
			return
		}
		done, err := s.runDirect(h)
		r := &rlxv1.RunResult{Done: done}
		if err != nil {
			st, _ := status.FromError(err)
			r.Done = nil
			r.Status, _ = proto.Marshal(st.Proto()) // cannot fail for a status of this package
		}
		if c.write(r) != nil {
			c.close()
			return
		}
		if l, err := s.find(h.Executable); err == nil && (l.spins || done != nil && done.TotalNs < int64(shortRun)) {
			c.spin(serveSpin)
		}
	}
}

// runDirect runs a program whose tensors are in the shared region.
func (s *server) runDirect(h *rlxv1.RunHeader) (done *rlxv1.Done, err error) {
	defer recoverCall(s.cfg.Log, "run", &err)
	x, end, err := s.begin(context.Background(), h)
	if err != nil {
		return nil, err
	}
	defer end()
	if !x.l.shared || len(h.Dump) > 0 {
		return nil, protocolError("run: the run channel accepts only runs that have their tensors in shared memory and no dumps")
	}
	stats, err := x.execute()
	if err != nil {
		return nil, x.failed(stats, err)
	}
	return x.summary(stats)
}
