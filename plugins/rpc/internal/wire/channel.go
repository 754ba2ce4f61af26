//go:build linux || darwin || windows

package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// A RunChannel connects host and backend for runs whose tensors are in shared memory. A gRPC call passes through
// several goroutines on each side, and waking them can take longer than the run itself. With the channel, one goroutine
// waits on each side.
//
// A message is preceded by its length (4 bytes, little-endian). The host sends a RunHeader, and the backend answers
// with a RunResult. If both sides have a doorbell, messages that fit go through the shared region instead, and the
// socket carries an empty message when one side has to wake the other.
type RunChannel struct {
	Conn net.Conn // blocking
	raw  syscall.RawConn
	In   *bufio.Reader // reads from Conn; reading a short message takes one system call
	buf  []byte

	bell    *doorbell // nil if all messages go through the socket
	answers bool      // whether this is the backend's end, which answers over the same way as it was asked
	byBell  bool      // whether the last message that was read came by the doorbell

	crowd crowd
}

// Close closes this end, which ends a Read. It does nothing for a nil channel.
func (c *RunChannel) Close() {
	if c != nil {
		c.interrupt()
		c.Conn.Close()
	}
}

// Interrupt ends a Read and all later ones with an error, but keeps the channel open. It does nothing for a nil
// channel.
func (c *RunChannel) Interrupt() {
	if c != nil {
		c.interrupt()
	}
}

// socketEvery is how many polls of a doorbell are made for each poll of the socket, which costs a system call.
const socketEvery = 64

// Spin polls until there is something to read, the channel fails, or d has passed. It reports false if it gives up
// early because other threads want this processor; the next calls then give up at once.
func (c *RunChannel) Spin(d time.Duration) bool {
	if d <= 0 || c.In.Buffered() > 0 || c.bell.rung() {
		return true
	}
	if runtime.GOMAXPROCS(0) == 1 || !c.crowd.admits() {
		return false
	}
	// no runtime.Gosched, which would wake another thread of this process each time
	quiet, start := true, time.Now()
	for i, last, end := 1, start, start.Add(d); quiet && last.Before(end); i++ {
		yieldThread() // the other process may wait for this processor
		if c.bell == nil || i%socketEvery == 0 {
			quiet = c.silent()
		}
		for k := 0; k < 64 && quiet && c.bell != nil; k++ {
			quiet = !c.bell.rung()
		}
		now := time.Now()
		if quiet && now.Sub(last) > crowded {
			c.crowd.found()
			return false
		}
		last = now
	}
	if !quiet {
		c.crowd = crowd{}
	}
	return true
}

// Write sends one message.
func (c *RunChannel) Write(m proto.Message) error {
	b, err := c.encode(m)
	if err != nil {
		return err
	}
	if rang, err := c.ring(b); rang {
		return err
	}
	_, err = c.Conn.Write(b)
	return err
}

// encode returns a message after its length.
func (c *RunChannel) encode(m proto.Message) ([]byte, error) {
	b, err := marshal(append(c.buf[:0], 0, 0, 0, 0), m)
	if err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	c.buf = b
	return b, nil
}

// ring sends an encoded message by the doorbell if it can, which does not block.
func (c *RunChannel) ring(b []byte) (rang bool, err error) {
	if !c.bell.fits(len(b)-4) || c.answers && !c.byBell {
		return false, nil
	}
	if c.bell.ring(b[4:]) {
		err = c.wake()
	}
	return true, err
}

// ErrTooLong is returned for a message longer than MaxMessage.
var ErrTooLong = fmt.Errorf("a message of more than %d bytes", MaxMessage)

// Read receives one message. It returns io.EOF if the other side has closed the channel between two messages.
func (c *RunChannel) Read(m proto.Message) error {
	for {
		if c.byBell = c.bell.rung(); c.byBell {
			b, err := c.bell.take(c.buf[:0])
			if err != nil {
				return err
			}
			c.buf = b
			return decode(b, m)
		}
		c.bell.wait(1)
		if c.bell.rung() { // the other side may have looked before this side set its waiting word
			c.bell.wait(0)
			continue
		}
		n, err := c.readLength()
		c.bell.wait(0)
		switch {
		case err != nil:
			return err
		case n == 0 && c.bell != nil:
			continue
		}
		if cap(c.buf) < n {
			c.buf = make([]byte, n)
		}
		if _, err := io.ReadFull(c.In, c.buf[:n]); err != nil {
			return errors.Join(io.ErrUnexpectedEOF, err)
		}
		return decode(c.buf[:n], m)
	}
}

// errMessage is returned for bytes that are not a message. The other side has then broken the protocol.
var errMessage = errors.New("a message of the run channel cannot be decoded")

func decode(b []byte, m proto.Message) error {
	if err := unmarshal(b, m); err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	return nil
}

// readLength reads the length of the next message from the socket.
func (c *RunChannel) readLength() (int, error) {
	head, err := c.In.Peek(4)
	if err != nil {
		if len(head) > 0 {
			err = errors.Join(io.ErrUnexpectedEOF, err)
		}
		return 0, err
	}
	n := int(binary.LittleEndian.Uint32(head))
	c.In.Discard(4)
	if n > MaxMessage {
		return 0, ErrTooLong
	}
	return n, nil
}

// Send sends the request for a run, until ctx ends. Like gRPC calls, Send and Receive return errors with a gRPC status.
func (c *RunChannel) Send(ctx context.Context, h *rlxv1.RunHeader) error {
	b, err := c.encode(h)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	rang, err := c.ring(b)
	if !rang {
		stop := c.until(ctx)
		_, err = c.Conn.Write(b)
		if !stop() { // ctx has ended, so conn is shut down
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// until interrupts the channel when ctx ends, unless stop is called before. stop reports whether ctx has not ended.
func (c *RunChannel) until(ctx context.Context) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, c.interrupt)
}

// Receive waits for the result of a run until ctx ends. It spins for the given time before it blocks. After an error
// that did not come from the backend, the channel is unusable.
func (c *RunChannel) Receive(ctx context.Context, spin time.Duration) (*rlxv1.Done, error) {
	stop := c.until(ctx)
	c.Spin(spin)
	var r rlxv1.RunResult
	err := c.Read(&r)
	if !stop() { // ctx has ended, so conn is shut down
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	switch {
	case errors.Is(err, ErrTooLong):
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, errMessage):
		return nil, status.Error(codes.Internal, err.Error())
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
