// Package inference serves methods of models over the Open Inference Protocol, version 2, which KServe, Triton and
// other servers speak (https://github.com/kserve/open-inference-protocol): REST with JSON or binary tensors, and gRPC.
//
// A method is a model of the protocol, called ARTIFACT.METHOD, or ARTIFACT alone if that has one method. Methods that
// keep a state from run to run are not served. Sizes that requests choose have -1 in shapes of metadata.
package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/task"
)

// version is the only version of each model.
const version = "1"

// An Artifact has methods to serve.
type Artifact struct {
	Name   string
	Runner rlx.Runner
	End    func() // called when the artifact was replaced and its last request has ended; may be nil
	// Reserve and Release count the bytes of encodings that are kept; an error of Reserve means that there is no memory
	// for them. Both may be nil.
	Reserve func(bytes int64) error
	Release func(bytes int64)
}

// Limits bound what requests may take.
type Limits struct {
	Parallel int // requests whose tensors are in memory at a time; 0 means 4
	Waiting  int // requests that may wait; others are refused
	// Kept bounds the bytes of encodings of images that are kept for requests with the same image.
	Kept int64
	// Apart gives each request a run of its own. Otherwise prompts for an image share runs.
	Apart bool
}

// A Service runs methods of artifacts.
type Service struct {
	places chan struct{} // one for each request in progress
	limits Limits
	kept   *kept
	shared prometheus.Histogram // prompts in a run

	mu       sync.Mutex
	models   map[string]*model
	waiting  int
	draining bool
	put      func() // called after Put; may be nil
}

type model struct {
	name   string
	method *rlx.Method
	runner rlx.Runner
	of     *loaded

	kept    *kept    // of an image encoder; nil for other methods
	prompts *prompts // of a method that finds masks for prompts; nil for others
}

// A loaded artifact counts the requests that use it.
type loaded struct {
	name    string
	uses    *api.Uses
	reserve func(int64) error
	release func(int64)
	gone    bool // guarded by kept.mu
}

// New returns a service for artifacts. Their names must differ. The error says which artifact has no method to serve.
func New(artifacts []Artifact, l Limits) (*Service, error) {
	l.Parallel = cmp.Or(l.Parallel, 4)
	s := &Service{models: map[string]*model{}, places: make(chan struct{}, l.Parallel), limits: l,
		kept: newKept(l.Kept), shared: newSharedPrompts()}
	for _, a := range artifacts {
		if err := s.Put(a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Put adds an artifact. It takes the place of the one that had its name: requests in progress end with the old one. The
// error says that the artifact has no method to serve.
func (s *Service) Put(a Artifact) error {
	methods := Methods(a.Runner.Model())
	if len(methods) == 0 {
		return diag.New(diag.Usage, a.Name, "has no method without a state, so requests cannot run it")
	}
	s.mu.Lock()
	defer func() {
		put := s.put
		s.mu.Unlock()
		if put != nil {
			put()
		}
	}()
	var old *loaded
	maps.DeleteFunc(s.models, func(_ string, m *model) bool {
		if m.of.name == a.Name {
			old = m.of
		}
		return m.of == old
	})
	of := &loaded{name: a.Name, uses: api.NewUses(a.End), reserve: a.Reserve, release: a.Release}
	var joined *prompts
	if !s.limits.Apart {
		joined = newPrompts(a.Runner, func(n int) { s.shared.Observe(float64(n)) })
	}
	for _, m := range methods {
		x := model{name: a.Name + "." + m.Name, method: m, runner: a.Runner, of: of}
		if m.Name == imageMethod(a.Runner.Model()) && s.limits.Kept > 0 {
			x.kept = s.kept
		}
		if joined.has(m.Name) {
			x.prompts = joined
		}
		s.models[x.name] = &x
		if len(methods) == 1 {
			alias := x
			alias.name = a.Name
			s.models[a.Name] = &alias
		}
	}
	if old != nil {
		s.kept.forget(old)
		old.uses.Replaced()
	}
	return nil
}

// onPut lets f be called after every Put, until the result is called.
func (s *Service) onPut(f func()) (end func()) {
	set := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.put = f
	}
	set(f)
	return func() { set(nil) }
}

// imageMethod returns the method of a model that encodes an image, or "".
func imageMethod(m *rlx.Model) string {
	switch t := m.Task().(type) {
	case *task.Segment:
		return t.ImageMethod
	case *task.Concepts:
		return t.ImageMethod
	}
	return ""
}

// Methods lists the methods of a model that can be served: those that keep no state.
func Methods(m *rlx.Model) []*rlx.Method {
	return slices.DeleteFunc(slices.Clone(m.Methods()), func(m *rlx.Method) bool { return m.Stateful })
}

// Names lists the models, in alphabetical order.
func (s *Service) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.models))
}

// use returns the model with a name and a version, which may be empty. done is called when the request has ended.
func (s *Service) use(name, v string) (m *model, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m = s.models[name]
	if m == nil {
		return nil, nil, &failure{http.StatusNotFound, codes.NotFound, fmt.Sprintf(
			"there is no model %s; this server has %s", diag.Printable(name),
			strings.Join(slices.Sorted(maps.Keys(s.models)), ", "))}
	}
	if v != "" && v != version {
		return nil, nil, &failure{http.StatusNotFound, codes.NotFound,
			fmt.Sprintf("model %s has version 1 only; found %s", name, diag.Printable(v))}
	}
	return m, m.of.uses.Begin(), nil
}

// Ready returns why the service takes no requests, or nil.
func (s *Service) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return errDraining
	}
	return nil
}

// Drain refuses requests from now on.
func (s *Service) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
}

// enter waits for a place, before the tensors of a request are read. The caller calls leave.
func (s *Service) enter(ctx context.Context) (leave func(), err error) {
	_, span := api.Span(ctx, "queue")
	defer func() { api.EndSpan(span, err) }()
	leave = func() { <-s.places }
	select {
	case s.places <- struct{}{}:
	default:
		if err := s.wait(); err != nil {
			return nil, err
		}
		defer func() {
			s.mu.Lock()
			s.waiting--
			s.mu.Unlock()
		}()
		select {
		case s.places <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if err := s.Ready(); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// wait counts a request that waits.
func (s *Service) wait() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting >= s.limits.Waiting {
		return &failure{http.StatusTooManyRequests, codes.ResourceExhausted,
			fmt.Sprintf("%d requests are in progress and %d wait; try again later", s.limits.Parallel, s.waiting)}
	}
	s.waiting++
	return nil
}

// run runs a method with inputs, and returns the outputs with the given names, or all of them in their order.
func (m *model) run(ctx context.Context, in map[string]rlx.Tensor, names []string) ([]rlx.Value, []rlx.Tensor, error) {
	values := m.method.Outputs
	if names != nil {
		values = nil
		for _, name := range names {
			i := slices.IndexFunc(m.method.Outputs, func(v rlx.Value) bool { return v.Name == name })
			if i < 0 {
				return nil, nil, refusef("output %s: %s has none of that name; its outputs are %s",
					diag.Printable(name), m.name, namesOf(m.method.Outputs))
			}
			values = append(values, m.method.Outputs[i])
		}
	}
	_, span := api.Span(ctx, "run", trace.WithAttributes(attribute.String("rlx.method", m.name)))
	outputs, err := m.outputs(ctx, in, names)
	api.EndSpan(span, err)
	if err != nil {
		return nil, nil, err
	}
	var out []rlx.Tensor
	for _, v := range values {
		out = append(out, outputs[v.Name])
	}
	return values, out, nil
}

// outputs returns those with the given names, and maybe others.
func (m *model) outputs(ctx context.Context, in map[string]rlx.Tensor, names []string) (map[string]rlx.Tensor, error) {
	switch {
	case m.kept != nil:
		return m.kept.run(ctx, m, in)
	case m.prompts != nil:
		return m.prompts.run(ctx, m.method.Name, in)
	}
	r, err := m.runner.Run(ctx, rlx.Request{Method: m.method.Name, Inputs: in, Outputs: names})
	if err != nil {
		return nil, err
	}
	return r.Outputs, nil
}

// input returns an input after checks of its name, datatype and number of elements. Run checks the shape.
func (m *model) input(name, datatype string, shape []int64) (rlx.Value, []int, error) {
	v, ok := m.method.Input(name)
	if !ok {
		return v, nil, refusef("input %s: %s has none of that name; its inputs are %s", diag.Printable(name), m.name,
			namesOf(m.method.Inputs))
	}
	if want := datatypes[v.DType]; datatype != want {
		return v, nil, refusef("input %s: its datatype is %s; found %s", name, want, diag.Printable(datatype))
	}
	most := v.MaxBytes() / int64(v.DType.Size())
	var out []int
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > most && most > 0 || d > 0 && n > max(most, 1)/d {
			return v, nil, refusef("input %s: shape %v is not one that %v allows", name, shape, v)
		}
		n *= d
		out = append(out, int(d))
	}
	return v, out, nil
}

// limit returns how many bytes a request with the method's inputs may have, in JSON or not.
func (m *model) limit() int64 {
	n := int64(1 << 20)
	for _, v := range m.method.Inputs {
		n += min(maxBody, v.MaxBytes()/int64(v.DType.Size())*numberBytes)
	}
	return min(maxBody, n)
}

// maxBody is the limit for methods whose inputs may be very large, so that a few requests cannot fill the memory.
const maxBody = 256 << 20

// numberBytes is the largest length of a number of a tensor in JSON, with a comma and a space.
const numberBytes = 28

func namesOf(values []rlx.Value) string {
	var out []string
	for _, v := range values {
		out = append(out, v.Name)
	}
	return strings.Join(out, ", ")
}

// shapeOf returns a shape as metadata has it.
func shapeOf(v rlx.Value) []int64 {
	out := []int64{}
	for _, d := range v.Shape {
		size := int64(-1)
		if d.Min == d.Max {
			size = d.Min
		}
		out = append(out, size)
	}
	return out
}

// A failure is an error of a request, as both transports report it.
type failure struct {
	status  int
	code    codes.Code
	message string
}

func (f *failure) Error() string { return f.message }

func refusef(format string, args ...any) *failure {
	return &failure{http.StatusBadRequest, codes.InvalidArgument, fmt.Sprintf(format, args...)}
}

var errDraining = &failure{http.StatusServiceUnavailable, codes.Unavailable, "the server is ending"}

// codesOf are the codes of gRPC for statuses.
var codesOf = map[int]codes.Code{api.StatusClientGone: codes.Canceled,
	http.StatusGatewayTimeout: codes.DeadlineExceeded, http.StatusBadRequest: codes.InvalidArgument,
	http.StatusServiceUnavailable: codes.Unavailable, http.StatusInternalServerError: codes.Internal}

// failureOf returns the failure for an error.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	status, message := api.StatusOf(err)
	return &failure{status, codesOf[status], message}
}
