//go:build unix

package bridge

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/atomicfile"
)

// openArgs are Options of package rlx. A number that is 0 and a text that is empty mean the default.
type openArgs struct {
	Path      string  `json:"path"`
	Backend   string  `json:"backend"`
	Device    string  `json:"device"`
	Precision string  `json:"precision"`
	Threads   int     `json:"threads"`
	Memory    int64   `json:"memory"` // in bytes
	Sandbox   string  `json:"sandbox"`
	Timeout   float64 `json:"timeout"` // of a run, in seconds
}

// opened describes a model and the session that runs it.
type opened struct {
	created
	Facts   factsOf    `json:"facts"`
	Methods []methodOf `json:"methods"`
	Device  string     `json:"device"`
	States  bool       `json:"states"`
}

type factsOf struct {
	Name         string   `json:"name"`
	Architecture string   `json:"architecture"`
	Task         string   `json:"task"`
	Compiler     string   `json:"compiler"`
	Identity     string   `json:"identity"`
	Weights      int64    `json:"weights"`
	Precisions   []string `json:"precisions"`
}

type methodOf struct {
	Name      string    `json:"name"`
	Inputs    []valueOf `json:"inputs"`
	Outputs   []valueOf `json:"outputs"`
	Stateful  bool      `json:"stateful"`
	Signature string    `json:"signature"`
}

type valueOf struct {
	Name     string  `json:"name"`
	DType    string  `json:"dtype"`
	Shape    []dimOf `json:"shape"`
	Optional bool    `json:"optional"`
}

type dimOf struct {
	Expr string `json:"expr"`
	Min  int64  `json:"min"`
	Max  int64  `json:"max"`
}

// open opens an artifact and starts a backend.
func (c *call) open(ctx context.Context, a openArgs) (any, error) {
	if a.Threads < 0 || a.Memory < 0 || a.Timeout < 0 {
		return nil, diag.New(diag.Usage, "open", "threads, memory and timeout must not be negative")
	}
	budget := rlx.NewBudget(a.Memory)
	model, err := rlx.Open(ctx, a.Path, rlx.OpenOptions{Remember: c.server.options.Remember, Memory: budget})
	if err != nil {
		return nil, err
	}
	session, err := newSession(ctx, model, a, budget)
	if err != nil {
		return nil, errors.Join(err, model.Close())
	}
	f := model.Facts()
	out := opened{Facts: factsOf{f.Name, f.Architecture, f.Task, f.Compiler, f.Identity, f.Weights, f.Precisions},
		Device: session.Device().Name, States: len(model.States()) > 0}
	for _, m := range model.Methods() {
		out.Methods = append(out.Methods,
			methodOf{m.Name, valuesOf(m.Inputs), valuesOf(m.Outputs), m.Stateful, m.String()})
	}
	out.Object = c.server.objects.add(
		session, 0, func() error { return errors.Join(session.Close(), model.Close()) })
	return out, nil
}

func newSession(ctx context.Context, m *rlx.Model, a openArgs, budget *rlx.Budget) (*rlx.Session, error) {
	backend, err := rlx.FindBackend(a.Backend)
	if err != nil {
		return nil, err
	}
	return m.NewSession(ctx, rlx.Options{Backend: backend, Device: a.Device, Threads: a.Threads,
		Precision: a.Precision, Memory: budget, Sandbox: rlx.Sandbox(a.Sandbox),
		Timeouts: rlx.Timeouts{Run: seconds(a.Timeout)}})
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func valuesOf(values []rlx.Value) []valueOf {
	out := []valueOf{}
	for _, v := range values {
		x := valueOf{v.Name, v.DType.String(), []dimOf{}, v.Optional}
		for _, d := range v.Shape {
			x.Shape = append(x.Shape, dimOf(d))
		}
		out = append(out, x)
	}
	return out
}

type runArgs struct {
	place
	Session int64             `json:"session"`
	Method  string            `json:"method"`
	Inputs  map[string]tensor `json:"inputs"`
	Outputs []string          `json:"outputs"` // nil means all
	State   int64             `json:"state"`   // 0: the model has no state
}

// run runs a method.
func (c *call) run(ctx context.Context, a runArgs) (any, error) {
	session, err := object[*rlx.Session](c, a.Session, "model")
	if err != nil {
		return nil, err
	}
	memory, leave, err := c.enter(a.place)
	if err != nil {
		return nil, err
	}
	defer leave()
	r := rlx.Request{Method: a.Method, Inputs: map[string]rlx.Tensor{}, Outputs: a.Outputs}
	if a.State != 0 {
		if r.State, err = object[*rlx.State](c, a.State, "state"); err != nil {
			return nil, err
		}
	}
	for name, t := range a.Inputs {
		if r.Inputs[name], err = t.in(memory, name); err != nil {
			return nil, err
		}
	}
	result, err := session.Run(ctx, r)
	if err != nil {
		return nil, err
	}
	out := map[string]*tensor{}
	for name, t := range result.Outputs {
		out[name] = &tensor{DType: t.DType.String(), Shape: append([]int{}, t.Shape...), data: t.Data}
	}
	return struct {
		delivered
		Seconds float64 `json:"seconds"`
	}{c.deliver(a.place, memory, out), result.Duration.Seconds()}, nil
}

type stateArgs struct {
	Session int64  `json:"session"`
	State   int64  `json:"state"`
	Path    string `json:"path"`
}

// newState makes a state, and reads it from a file if the call names one.
func (c *call) newState(ctx context.Context, a stateArgs) (any, error) {
	session, err := object[*rlx.Session](c, a.Session, "model")
	if err != nil {
		return nil, err
	}
	var st *rlx.State
	if a.Path == "" {
		st, err = session.NewState(ctx)
	} else {
		st, err = session.ImportState(ctx, a.Path)
	}
	if err != nil {
		return nil, err
	}
	return created{c.server.objects.add(st, a.Session, st.Close)}, nil
}

// reset gives a state its initial values, or empties a generator.
func (c *call) reset(ctx context.Context, a stateArgs) (any, error) {
	if g, ok := c.server.objects.get(a.State).(*generator); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		return nil, g.Reset(ctx)
	}
	st, err := object[*rlx.State](c, a.State, "state")
	if err != nil {
		return nil, err
	}
	return nil, st.Reset(ctx)
}

func (c *call) clone(ctx context.Context, a stateArgs) (any, error) {
	st, err := object[*rlx.State](c, a.State, "state")
	if err != nil {
		return nil, err
	}
	copied, err := st.Clone(ctx)
	if err != nil {
		return nil, err
	}
	return created{c.server.objects.add(copied, c.server.objects.owner(a.State), copied.Close)}, nil
}

// save writes a state or the sequence of a generator to a file.
func (c *call) save(ctx context.Context, a stateArgs) (any, error) {
	if g, ok := c.server.objects.get(a.State).(*generator); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		return nil, atomicfile.WriteFile(ctx, a.Path, func(w io.Writer) error { return g.Save(ctx, w) })
	}
	st, err := object[*rlx.State](c, a.State, "state")
	if err != nil {
		return nil, err
	}
	return nil, atomicfile.WriteFile(ctx, a.Path, func(w io.Writer) error { return st.Export(ctx, w) })
}

// load replaces the sequence of a generator by one of a file.
func (c *call) load(ctx context.Context, a stateArgs) (any, error) {
	g, err := object[*generator](c, a.State, "generator")
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return nil, g.Load(ctx, a.Path)
}
