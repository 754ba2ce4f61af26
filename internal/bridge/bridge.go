//go:build unix

// Package bridge serves package rlx to one program in another language, such as the Python module rlx. The program
// starts `rlxrun bridge`, which inherits one end of a socket pair, and sends requests over it. The bridge ends when the
// program closes its end, also because it has died.
//
// # Frames
//
// Both sides send frames: the length of a JSON object in bytes (u32, little-endian), the length of a payload in bytes
// (u32), in requests an id, which the program chooses (u64), and the name of a call, 16 bytes with zeros at the end;
// then the object and the payload. The object of a request has the arguments of the call:
//
//	{"session": 1, "method": "encode", ...}
//
// That of its answer has the same id, and either the result or an error. Answers come in any order, because calls run
// concurrently. Calls that generate text send events before:
//
//	{"id": 7, "event": {"token": 29871, "text": " "}}
//	{"id": 7, "result": {...}}
//	{"id": 7, "error": {"code": "RLX3003", "subject": "image", "message": "...", "hint": "..."}}
//
// The call cancel takes the id of another call, which then ends with the error RLX1002.
//
// # Objects
//
// Models, states, generators and so on are objects with numbers. An object lives until the call close, or until the
// object that it belongs to is closed.
//
// # Tensors
//
// Bytes of tensors are in the payload of a frame if there are at most InlineMax of them. More are in a region of shared
// memory: a file that the program has made and whose descriptor comes with the request region, by SCM_RIGHTS. Inputs
// name an offset. Results are written at the given offset of the region; if they do not fit, the answer says with
// "grow" how large the region must be, and the call collect fetches them.
package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlx-go/rlx/core/diag"
)

// InlineMax is the largest number of bytes of tensors that a frame carries in its payload.
const InlineMax = 64 << 10

// maxObject bounds the JSON object of a frame in bytes. Prompts are the largest.
const maxObject = 64 << 20

// Options holds the settings that the calls of the program do not choose.
type Options struct {
	Remember string // rlx.OpenOptions.Remember
}

type request struct {
	ID   int64
	Call string
	Args []byte // a JSON object

	payload []byte
	file    int // descriptor of the request region; otherwise -1
}

type response struct {
	ID     int64    `json:"id"`
	Event  any      `json:"event,omitempty"`
	Result any      `json:"result,omitempty"`
	Error  *failure `json:"error,omitempty"`
}

type failure struct {
	Code    string `json:"code"`
	Subject string `json:"subject"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

type server struct {
	options Options
	stream  *stream
	objects objects

	work  sync.WaitGroup
	ended chan error // why the last goroutine that read requests has stopped

	mu    sync.Mutex
	calls map[int64]context.CancelFunc
}

// A call is one request while it is answered.
type call struct {
	*request
	server *server
	answer []byte // payload of the answer
}

// handlers maps the names of calls to what answers them. A handler returns the result for the answer.
var handlers = map[string]func(context.Context, *call) (any, error){
	"region": with((*call).region), "collect": with((*call).collect), "close": with((*call).close),
	"cancel": with((*call).cancelOther), "open": with((*call).open), "run": with((*call).run),
	"state": with((*call).newState), "reset": with((*call).reset), "clone": with((*call).clone),
	"save": with((*call).save), "load": with((*call).load),
	"generator": with((*call).newGenerator), "tokens": with((*call).tokens), "text": with((*call).text),
	"generate": with((*call).generate), "picture": with((*call).picture),
	"segmenter": with((*call).newSegmenter), "encode": with((*call).encode), "masks": with((*call).masks),
	"everything": with((*call).everything), "find": with((*call).find),
}

// with returns a handler that decodes the arguments of a call.
func with[A any](f func(*call, context.Context, A) (any, error)) func(context.Context, *call) (any, error) {
	return func(ctx context.Context, c *call) (any, error) {
		var args A
		if len(c.Args) > 0 {
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, diag.New(diag.Usage, c.Call, "arguments that the bridge does not take: %w", err)
			}
		}
		return f(c, ctx, args)
	}
}

// Serve answers requests that arrive on conn until the other end is closed, which is no error, a frame is malformed, or
// ctx is done. It closes conn, and everything that the program has opened.
func Serve(ctx context.Context, conn *net.UnixConn, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &server{options: o, stream: newStream(conn), calls: map[int64]context.CancelFunc{},
		ended: make(chan error, 1)}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	defer s.objects.closeAll()
	defer s.work.Wait()
	defer cancel()
	s.work.Go(func() { s.read(ctx) })
	err := <-s.ended
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// patience is how long a call may take before another goroutine reads the next request.
const patience = 500 * time.Microsecond

// read reads requests and answers them. Waking another goroutine for each call would take longer than a short call
// itself. So this goroutine answers. Only if that takes longer than patience, another one reads on, and this one ends
// with its call.
func (s *server) read(ctx context.Context) {
	for {
		r, err := s.stream.receive()
		if err != nil {
			s.ended <- err
			return
		}
		var passed atomic.Bool // whether reading has passed to another goroutine, or cannot any more
		timer := time.AfterFunc(patience, func() {
			if passed.CompareAndSwap(false, true) {
				s.work.Go(func() { s.read(ctx) })
			}
		})
		s.serve(ctx, r)
		if !passed.CompareAndSwap(false, true) {
			return
		}
		timer.Stop()
	}
}

// serve answers a request. If the program is gone, the answer cannot be sent and is lost.
func (s *server) serve(ctx context.Context, r *request) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.calls[r.ID] = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.calls, r.ID)
		s.mu.Unlock()
	}()
	c, out := &call{request: r, server: s}, response{ID: r.ID}
	handler, ok := handlers[r.Call]
	err := error(diag.New(diag.Usage, "call", "%.40q is unknown", r.Call))
	if ok {
		out.Result, err = handler(ctx, c)
	}
	if err != nil {
		c.answer, out.Result, out.Error = nil, nil, failureOf(ctx, err)
	} else if out.Result == nil {
		out.Result = struct{}{}
	}
	s.stream.send(out, c.answer)
}

// event sends an event of a call.
func (c *call) event(v any) error { return c.server.stream.send(response{ID: c.ID, Event: v}, nil) }

func failureOf(ctx context.Context, err error) *failure {
	var e *diag.Error
	switch {
	case errors.As(err, &e):
		return &failure{Code: string(e.Code), Subject: e.Subject, Message: e.Error(), Hint: e.Hint}
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return &failure{Code: string(diag.Interrupted), Message: "the call was cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{Code: string(diag.Timeout), Message: "the call took longer than its timeout allows"}
	}
	return &failure{Message: err.Error()}
}

type cancelArgs struct {
	Call int64 `json:"call"`
}

func (c *call) cancelOther(_ context.Context, a cancelArgs) (any, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if cancel, ok := c.server.calls[a.Call]; ok {
		cancel()
	}
	return nil, nil
}

type closeArgs struct {
	Object int64 `json:"object"`
}

// close closes an object, after the objects that belong to it. Closing an object twice is not an error.
func (c *call) close(_ context.Context, a closeArgs) (any, error) {
	return nil, c.server.objects.close(a.Object)
}

// object returns an object of a type, or an error that names the expected type.
func object[T any](c *call, id int64, what string) (T, error) {
	v, ok := c.server.objects.get(id).(T)
	if !ok {
		return v, diag.New(diag.Usage, what, "object %d is closed, or is not of the kind %s", id, what)
	}
	return v, nil
}

// created is the answer of calls that make an object.
type created struct {
	Object int64 `json:"object"`
}
