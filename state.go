package rlx

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// A State is a copy of the data that a model keeps between runs, such as a cache of keys and values, on the device of a
// session. A run with this state in Request.State reads the data that the previous run wrote. A session may have
// several states, for example one per conversation. The methods of a state and the runs of its session are serialised.
// Close it after use; closing the session frees it, too.
//
// If a run that updates a state fails or is cancelled, the state is invalid, because some of its values are old and
// some new. Runs and Export then fail with an error that matches ErrState until Reset.
type State struct {
	// Meta holds strings that Export writes with the state, and that ImportState reads. Clone copies it. Names that
	// begin with rlx. are reserved for this module.
	Meta map[string]string

	s       *Session
	parts   []*memory     // one for each device that keeps some of the tensors
	tensors []stateTensor // in the order of Model.States
}

// A stateTensor is a tensor of a state, at Offset of a memory.
type stateTensor struct {
	program.StateTensor
	*memory
}

// A Resident is a tensor on the device of a session: an output in Request.Keep, or a tensor of a State. Request.Feeds
// uses it as an input, without a copy to the host.
type Resident struct {
	DType DType
	Shape []int

	memory *memory
	offset int64
}

// memory is device memory of a session that does not belong to a method.
type memory struct {
	s    *Session
	on   *worker
	dev  *host.State
	what string // name in the budget
	once sync.Once
}

// allocate allocates zeroed memory on the device of a backend, and reserves it in the budget.
func (s *Session) allocate(ctx context.Context, on *worker, what string, size int64) (*memory, error) {
	if err := s.memory.Reserve(what, size); err != nil {
		return nil, about(s.model.path, err)
	}
	ctx, cancel := orderly(ctx)
	defer cancel()
	dev, err := on.backend.MakeState(ctx, on.device.ID, size)
	if err != nil {
		s.memory.Release(what, size)
		return nil, err
	}
	return &memory{s: s, on: on, dev: dev, what: what}, nil
}

// Close frees the memory. It waits for an active run.
func (m *memory) Close() error {
	var err error
	m.once.Do(func() {
		err = m.dev.Close()
		m.s.memory.Release(m.what, m.dev.Size())
	})
	return err
}

// States lists the tensors that the model keeps between runs. Their sizes are fixed.
func (m *Model) States() []Value {
	var out []Value
	for _, t := range m.states {
		out = append(out, newValue(t.Name, t.Type, nil))
	}
	return out
}

// StateSize returns the size of one State on a device, in bytes.
func (m *Model) StateSize() int64 { return m.stateSize }

// NewState returns a state with the initial values of the model.
//
// Errors match ErrUsage (the model keeps no state), ErrMemory, ErrUnsupported, ErrLost, or the context's cause.
func (s *Session) NewState(ctx context.Context) (*State, error) {
	st, err := s.makeState(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := orderly(ctx)
	defer cancel()
	// The memory is already zero. Clearing it again would make the system provide all of it, although a short text
	// needs little.
	for _, m := range st.parts {
		if err := m.dev.Fill(ctx, st.of(m)); err != nil {
			st.Close()
			return nil, err
		}
	}
	return st, nil
}

func (s *Session) makeState(ctx context.Context) (*State, error) {
	if len(s.model.states) == 0 {
		return nil, usage(s.model.path, "has no state")
	}
	st := &State{s: s}
	for i, h := range s.homes {
		if h.size == 0 {
			continue
		}
		m, err := s.allocate(ctx, s.stages[i], "state", h.size)
		if err != nil {
			st.Close()
			return nil, err
		}
		st.parts = append(st.parts, m)
		for _, t := range h.tensors {
			st.tensors = append(st.tensors, stateTensor{t, m})
		}
	}
	slices.SortStableFunc(st.tensors, func(a, b stateTensor) int {
		return indexOf(s.model.states, a.Name) - indexOf(s.model.states, b.Name)
	})
	return st, nil
}

// on returns the part of the state on a device, or nil.
func (st *State) on(w *worker) *memory {
	if i := slices.IndexFunc(st.parts, func(m *memory) bool { return m.on == w }); i >= 0 {
		return st.parts[i]
	}
	return nil
}

// of returns the tensors of a part.
func (st *State) of(m *memory) (out []program.StateTensor) {
	for _, t := range st.tensors {
		if t.memory == m {
			out = append(out, t.StateTensor)
		}
	}
	return out
}

// invalidate makes the state invalid.
func (st *State) invalidate(ctx context.Context) {
	for _, m := range st.parts {
		m.dev.Invalidate(ctx)
	}
}

// checkValid returns an error that matches ErrState if the state is invalid.
func (st *State) checkValid(ctx context.Context) error {
	for _, m := range st.parts {
		if err := m.dev.CheckValid(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the memory. It waits for an active run.
func (st *State) Close() (err error) {
	for _, m := range st.parts {
		err = cmp.Or(m.Close(), err)
	}
	return err
}

// Reset sets all tensors to their initial values. It makes an invalid state valid again. It does not change Meta.
func (st *State) Reset(ctx context.Context) error {
	ctx, cancel := orderly(ctx)
	defer cancel()
	for _, m := range st.parts {
		if err := m.dev.Reset(ctx, st.of(m)); err != nil {
			st.invalidate(context.WithoutCancel(ctx)) // some of its parts are new and some old
			return err
		}
	}
	return nil
}

// Clone returns a new state with the same contents, copied on the device. The error matches ErrState if st is invalid,
// or is one of NewState.
func (st *State) Clone(ctx context.Context) (*State, error) {
	c, err := st.s.makeState(ctx)
	if err != nil {
		return nil, err
	}
	run, cancel := orderly(ctx)
	defer cancel()
	c.Meta = maps.Clone(st.Meta)
	err = st.checkValid(run)
	for i := 0; err == nil && i < len(c.parts); i++ {
		err = c.parts[i].dev.Copy(run, st.parts[i].dev)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Tensor returns a tensor of the state on the device, for use as an input of a run. It is valid while the state is
// open; closing it does nothing. The error matches ErrUsage and lists the existing tensors.
func (st *State) Tensor(name string) (*Resident, error) {
	t, err := st.find(name)
	if err != nil {
		return nil, err
	}
	return &Resident{DType(t.Type.DType), t.Type.Shape.Eval(nil), t.memory, t.Offset}, nil
}

func (st *State) find(name string) (stateTensor, error) {
	i := slices.IndexFunc(st.tensors, func(t stateTensor) bool { return t.Name == name })
	if i < 0 {
		return stateTensor{},
			usage("state "+name, "%s keeps no such tensor; it keeps %s", st.s.model.path, names(st.s.model.states))
	}
	return st.tensors[i], nil
}

// Read copies the tensor to the host. The error matches ErrState if it belongs to an invalid state.
func (r *Resident) Read(ctx context.Context) (Tensor, error) {
	ctx, cancel := orderly(ctx)
	defer cancel()
	t := Tensor{DType: r.DType, Shape: slices.Clone(r.Shape), Data: tensor.AlignedBytes(int(r.bytes()))}
	if err := r.memory.dev.CheckValid(ctx); err != nil {
		return Tensor{}, err
	}
	return t, r.memory.dev.Read(ctx, r.offset, t.Data)
}

// Write replaces the tensor's values by those of t. If t does not have its element type and shape, the error matches
// ErrInput.
func (r *Resident) Write(ctx context.Context, t Tensor) error {
	if t.DType != r.DType || !slices.Equal(t.Shape, r.Shape) || int64(len(t.Data)) != r.bytes() {
		return diag.New(device.ErrInput, "tensor", "is %s; it cannot become %s of %d bytes",
			Tensor{DType: r.DType, Shape: r.Shape}, t, len(t.Data))
	}
	ctx, cancel := orderly(ctx)
	defer cancel()
	return r.memory.dev.Write(ctx, r.offset, t.Data)
}

// Close frees the memory of a tensor that a run kept.
func (r *Resident) Close() error {
	if r.memory.what == kept {
		return r.memory.Close()
	}
	return nil
}

func (r *Resident) bytes() int64 {
	return int64(tensor.Numel(r.Shape)) * int64(r.DType.Size())
}

// kept is the name in the budget of outputs that stay on the device.
const kept = "kept outputs"

// wants holds the outputs that a request names.
type wants struct {
	returned, kept []bool // by output; nil returned means all outputs, nil kept none
}

// check checks the state and the outputs of a request.
func (l *loaded) check(s *Session, r Request) (w wants, err error) {
	switch stateful := l.schedule.split.Stateful(); {
	case r.State == nil && stateful:
		return w, usage(l.method.Name, "keeps %s from run to run, and Request.State is nil; make one with NewState",
			names(l.states()))
	case r.State != nil && r.State.s != s:
		return w, usage("Request.State", "belongs to another session; make one with NewState of this session")
	}
	for _, v := range l.method.Inputs {
		if f := r.Feeds[v.Name]; f != nil && f.memory.s != s {
			return w, usage("Request.Feeds", "%s is on the device of another session", v.Name)
		}
	}
	find := func(what string, given []string) ([]bool, error) {
		out := make([]bool, len(l.method.Outputs))
		for _, name := range given {
			i := slices.IndexFunc(l.method.Outputs, func(v Value) bool { return v.Name == name })
			if i < 0 {
				return nil,
					usage(what, "%s has no output %q; its outputs are %s", l.method.Name, name, list(l.method.Outputs))
			}
			out[i] = true
		}
		return out, nil
	}
	if r.Outputs != nil {
		if w.returned, err = find("Request.Outputs", r.Outputs); err != nil {
			return w, err
		}
	}
	if len(r.Keep) > 0 {
		w.kept, err = find("Request.Keep", r.Keep)
	}
	return w, err
}

// states returns the tensors that the method keeps.
func (l *loaded) states() []program.StateTensor {
	var all []*program.Program
	for _, x := range l.schedule.split.Segments {
		all = append(all, x.Program)
	}
	list, _, _ := program.JoinStates(all...) // the verifier has checked it
	return list
}

func closeAll(list map[string]*Resident) {
	for _, r := range list {
		r.Close()
	}
}

// indexOf returns the index of the tensor of a name, or -1.
func indexOf(list []program.StateTensor, name string) int {
	return slices.IndexFunc(list, func(t program.StateTensor) bool { return t.Name == name })
}

func names(list []program.StateTensor) string {
	var out []string
	for _, t := range list {
		out = append(out, t.Name)
	}
	return strings.Join(out, ", ")
}

// stateValues reads the states before a run of a program, by node.
func (s *Session) stateValues(ctx context.Context, p *program.Program, st *State) (map[int]*tensor.Array, error) {
	out := map[int]*tensor.Array{}
	for _, n := range p.Graph.States() {
		if st == nil {
			return nil, nil // the run reports the error
		}
		r, err := st.Tensor(n.Name)
		if err != nil {
			return nil, err
		}
		t, err := r.Read(ctx)
		if err != nil {
			return nil, err
		}
		out[n.ID] = t.core().Array()
	}
	return out, nil
}
