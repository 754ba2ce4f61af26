package host

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// A protocolLog records the messages of a session, as the host sees them. A nil *protocolLog records nothing.
type protocolLog struct {
	name   string // of the backend
	mu     sync.Mutex
	w      io.Writer
	record func(event) // called instead of writing; nil outside tests
}

// event is a message, or the beginning or end of a stream.
type event struct {
	sent bool   // by the host
	call string // such as Run; directCall for a run on the descriptor "runs"
	msg  proto.Message
	end  bool  // the sender has finished
	err  error // with which the call failed
}

const directCall = "Run (direct)"

// newProtocolLog returns a log that writes lines to w, or nil if w is nil.
func newProtocolLog(name string, w io.Writer) *protocolLog {
	if w == nil {
		return nil
	}
	return &protocolLog{name: name, w: w}
}

func (l *protocolLog) add(e event) {
	if l == nil {
		return
	}
	if l.record != nil {
		l.record(e)
		return
	}
	direction, what := "<", ""
	if e.sent {
		direction = ">"
	}
	switch {
	case e.msg != nil:
		what = fmt.Sprintf("%s, %d bytes: %s", e.msg.ProtoReflect().Descriptor().Name(), proto.Size(e.msg),
			textOf(e.msg))
	case e.err != nil:
		what = "failed: " + failureText(e.err)
	default:
		what = "end of stream"
	}
	l.line(direction, e.call+" "+what)
}

// line writes one line: the time, the backend, a direction (or # for an event of the session) and a text.
func (l *protocolLog) line(direction, text string) {
	if l == nil || l.record != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s %s %s %s\n", time.Now().Format("15:04:05.000000"), l.name, direction,
		wire.CleanTo(text, logLine))
}

// failureText describes the status with which a call failed, and the detail of the protocol in it.
func failureText(err error) string {
	st, _ := status.FromError(err)
	for _, d := range st.Details() {
		if w, ok := d.(*rlxv1.Error); ok {
			return fmt.Sprintf("status %v, Error: %s", st.Code(), textOf(w))
		}
	}
	return fmt.Sprintf("status %v, no Error in its details: %s", st.Code(), st.Message())
}

// The longest bytes, strings and lists that textOf prints in full.
const (
	shownBytes = 32
	shownText  = 400
	shownList  = 16
)

// textOf prints a message on one line, such as {executable: 1, inputs: [{size: 64}]}. Fields follow their numbers.
// Fields with default values are left out. Long values are shortened.
func textOf(m proto.Message) string {
	var b strings.Builder
	writeMessage(&b, m.ProtoReflect())
	return b.String()
}

func writeMessage(b *strings.Builder, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	order := make([]protoreflect.FieldDescriptor, fields.Len())
	for i := range order {
		order[i] = fields.Get(i)
	}
	slices.SortFunc(order, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number() - b.Number()) })
	b.WriteByte('{')
	first := true
	for _, f := range order {
		if !m.Has(f) {
			continue
		}
		if !first {
			b.WriteString(", ")
		}
		first = false
		b.WriteString(string(f.Name()) + ": ")
		switch v := m.Get(f); {
		case f.IsMap():
			writeMap(b, f, v.Map())
		case f.IsList():
			writeList(b, f, v.List())
		default:
			writeValue(b, f, v)
		}
	}
	b.WriteByte('}')
}

func writeList(b *strings.Builder, f protoreflect.FieldDescriptor, list protoreflect.List) {
	b.WriteByte('[')
	for i := range list.Len() {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == shownList {
			fmt.Fprintf(b, "... %d in all", list.Len())
			break
		}
		writeValue(b, f, list.Get(i))
	}
	b.WriteByte(']')
}

func writeMap(b *strings.Builder, f protoreflect.FieldDescriptor, m protoreflect.Map) {
	var keys []protoreflect.MapKey
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(k.String() + ": ")
		writeValue(b, f.MapValue(), m.Get(k))
	}
	b.WriteByte('}')
}

func writeValue(b *strings.Builder, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		writeMessage(b, v.Message())
	case protoreflect.BytesKind:
		data := v.Bytes()
		b.WriteString(hex.EncodeToString(data[:min(len(data), shownBytes)]))
		if len(data) > shownBytes {
			fmt.Fprintf(b, "... (%d bytes)", len(data))
		}
	case protoreflect.StringKind:
		s := v.String()
		if len(s) > shownText {
			fmt.Fprintf(b, "%s... (%d bytes)", strconv.Quote(s[:shownText]), len(s))
			return
		}
		b.WriteString(strconv.Quote(s))
	default:
		fmt.Fprint(b, v.Interface())
	}
}

// unary is an interceptor that logs a call with one message in each direction.
func (l *protocolLog) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if l == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	call := path.Base(method)
	l.add(event{sent: true, call: call, msg: req.(proto.Message)})
	err := invoke(ctx, method, req, reply, cc, opts...)
	if err != nil {
		l.add(event{call: call, err: err})
	} else {
		l.add(event{call: call, msg: reply.(proto.Message)})
	}
	return err
}

// stream is an interceptor that logs the messages of a stream.
func (l *protocolLog) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	st, err := open(ctx, desc, cc, method, opts...)
	if l == nil || err != nil || method == wire.StdioMethod {
		return st, err
	}
	return &loggedStream{st, l, path.Base(method)}, nil
}

type loggedStream struct {
	grpc.ClientStream
	log  *protocolLog
	call string
}

func (s *loggedStream) SendMsg(m any) error {
	s.log.add(event{sent: true, call: s.call, msg: m.(proto.Message)})
	return s.ClientStream.SendMsg(m)
}

func (s *loggedStream) CloseSend() error {
	s.log.add(event{sent: true, call: s.call, end: true})
	return s.ClientStream.CloseSend()
}

func (s *loggedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == nil:
		s.log.add(event{call: s.call, msg: m.(proto.Message)})
	case errors.Is(err, io.EOF):
		s.log.add(event{call: s.call, end: true})
	default:
		s.log.add(event{call: s.call, err: err})
	}
	return err
}
