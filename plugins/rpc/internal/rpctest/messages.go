//go:build linux || darwin

package rpctest

import (
	"context"
	"encoding/binary"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Stream is a call that delivers the messages of in to one side, and discards what that side sends.
type Stream[In, Out any] struct {
	grpc.ServerStream
	In   []*In
	sent int
}

func (s *Stream[In, Out]) Recv() (*In, error) {
	if len(s.In) == 0 {
		return nil, io.EOF
	}
	m := s.In[0]
	s.In = s.In[1:]
	return m, nil
}

func (s *Stream[In, Out]) Send(*Out) error          { s.sent++; return nil }
func (s *Stream[In, Out]) SendAndClose(*Out) error  { s.sent++; return nil }
func (s *Stream[In, Out]) Context() context.Context { return context.Background() }

// ClientStream is like stream, for the client's side of a call.
type ClientStream[Req, Res any] struct {
	grpc.ClientStream
	Stream[Res, Req]
}

func (s *ClientStream[Req, Res]) Recv() (*Res, error)      { return s.Stream.Recv() }
func (s *ClientStream[Req, Res]) Send(*Req) error          { return nil }
func (s *ClientStream[Req, Res]) Context() context.Context { return context.Background() }
func (s *ClientStream[Req, Res]) CloseSend() error         { return nil }

// Pack encodes messages, each preceded by its length.
func Pack(t testing.TB, ms ...proto.Message) (out []byte) {
	for _, m := range ms {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	return out
}

// Unpack is the inverse of Pack. It ignores what is not a message.
func Unpack[T any, P interface {
	*T
	proto.Message
}](b []byte) (out []*T) {
	for len(b) > 0 && len(out) < 64 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return out
		}
		m := P(new(T))
		if proto.Unmarshal(b[k:k+int(n)], m) == nil {
			out = append(out, (*T)(m))
		}
		b = b[k+int(n):]
	}
	return out
}
