package rlx

import (
	"context"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/budget"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// A Weight describes a tensor of the artifact that programs read.
type Weight struct {
	Name  string
	DType DType // not one of this package's constants if the weight is stored in blocks of few bits
	Shape []int // of its elements
	Bytes int64
	// Replaceable is set if Session.SetWeights may give the weight other values. Otherwise the compiler has computed
	// constants from it, or it is such a constant. rlxc --mutable-weights prevents that.
	Replaceable bool
}

// Weights lists the tensors that the programs of the model read. Their names and types may differ from those of the
// checkpoint. A tensor of the checkpoint from which the compiler has only computed constants is not among them.
func (m *Model) Weights() []Weight {
	read := map[string]bool{}
	for _, p := range m.verified.All() {
		for _, n := range p.Graph.Params() {
			read[n.Name] = true
		}
	}
	var out []Weight
	for _, t := range m.verified.Weights().Tensors() {
		if read[t.Name] {
			w := Weight{t.Name, DType(t.Type.DType), t.Type.Shape.Eval(nil), t.Size, t.Mutable}
			out = append(out, w)
		}
	}
	return out
}

// WeightData reads the values of a weight from the artifact: dense, in row-major order. Errors match ErrInput (no such
// weight) and ErrArtifact.
func (m *Model) WeightData(name string) ([]byte, error) {
	t, ok := m.verified.Weights().Find(name)
	if !ok {
		return nil, noWeight(name)
	}
	if err := m.verified.VerifyWeights(t.Offset, t.Size); err != nil {
		return nil, about(m.path, err)
	}
	return m.weight(t.Offset, t.Size)
}

// SetWeights replaces the values of weights, which it takes by name. Each tensor must have the element type and shape
// of the weight (Model.Weights). All later runs of the session, with any state, compute with the new values, and so do
// methods that are loaded later. Weights that are not named keep the values that they have. What a state holds, such as
// the cache of a language model, was computed with the old values; use a new state, or reset it, if that matters.
//
// SetWeights waits until no method runs. It changes all of the weights or, if it refuses one, none. The session keeps
// the tensors. Their bytes must not change until the weights are replaced again or the session is closed.
//
// Errors match ErrInput (no such weight, or another type or shape), ErrFixedWeight (the compiler has computed constants
// from the weight), ErrUnsupported (the backend cannot replace weights), ErrMemory, ErrLost, or the context's cause. If
// the backend fails while it replaces weights, the session is lost.
func (s *Session) SetWeights(ctx context.Context, weights map[string]Tensor) error {
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if err := s.model.checkWeight(name, weights[name]); err != nil {
			return err
		}
	}
	done, err := s.hold(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := s.replace(ctx, weights); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.replaced, weights)
	return nil
}

// ResetWeights restores the artifact's values of weights that SetWeights has replaced: those of names, or all if names
// is empty. Errors are those of SetWeights, and ErrArtifact if the file cannot be read.
func (s *Session) ResetWeights(ctx context.Context, names ...string) error {
	done, err := s.hold(ctx)
	if err != nil {
		return err
	}
	defer done()
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(s.replaced))
	}
	original := map[string]Tensor{}
	for _, name := range names {
		t, ok := s.model.verified.Weights().Find(name)
		if !ok {
			return noWeight(name)
		}
		if _, changed := s.replaced[name]; !changed {
			continue
		}
		b, err := s.model.WeightData(name)
		if err != nil {
			return err
		}
		original[name] = Tensor{DType(t.Type.DType), t.Type.Shape.Eval(nil), b}
	}
	if err := s.replace(ctx, original); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range original {
		delete(s.replaced, name)
	}
	return nil
}

// checkWeight checks that a weight can have the value t.
func (m *Model) checkWeight(name string, t Tensor) error {
	w, ok := m.verified.Weights().Find(name)
	switch {
	case !ok:
		return noWeight(name)
	case !w.Mutable:
		return diag.New(code.WeightFixed, "weight "+name,
			"cannot be replaced, because the compiler has computed constants from it").
			WithHint("compile the model with rlxc --mutable-weights '%s'", name)
	case w.Type.DType != t.core().DType || !slices.Equal(w.Type.Shape.Eval(nil), t.Shape):
		return diag.New(device.ErrInput, "weight "+name, "is %v; it cannot become %s", w.Type, t)
	case int64(len(t.Data)) != w.Size:
		return diag.New(device.ErrInput, "weight "+name, "the tensor has %d bytes; %v has %d", len(t.Data), w.Type,
			w.Size)
	}
	return nil
}

func noWeight(name string) error {
	return diag.New(device.ErrInput, "weight "+name,
		"the artifact has no such weight; rlxc inspect FILE weights lists those that it has").
		WithHint("if the compiler has computed constants from it, compile the model with rlxc --mutable-weights '%s'",
			name)
}

// hold waits until no method is loaded or runs, and prevents both until done is called.
func (s *Session) hold(ctx context.Context) (done func(), err error) {
	select {
	case s.loading <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var held []*line
	done = func() {
		for _, l := range held {
			l.leave()
		}
		<-s.loading
	}
	for _, w := range s.stages { // in the order in which runs take them
		if err := w.line.wait(ctx, w.line.join()); err != nil {
			done()
			return nil, err
		}
		held = append(held, w.line)
	}
	return done, nil
}

// replace gives weights other values on all backends. The caller has called hold.
func (s *Session) replace(ctx context.Context, weights map[string]Tensor) error {
	if len(weights) == 0 {
		return nil
	}
	for _, w := range s.workers() {
		if err := w.backend.CheckSetsWeights(); err != nil {
			return err
		}
	}
	need := int64(0)
	for name, t := range weights {
		if !s.written[name] {
			need += int64(len(t.Data)) * int64(len(s.workers()))
		}
	}
	memory := part("new weights", need)
	if err := s.memory.budget.Reserve(memory); err != nil {
		return about(s.model.path, err)
	}
	s.reserved = budget.Merge(s.reserved, memory)
	for name := range weights {
		s.written[name] = true
	}
	on := map[*worker][]*host.Executable{}
	s.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(s.loaded)) {
		for _, x := range s.loaded[name].pieces {
			on[x.worker] = append(on[x.worker], x.exe)
		}
	}
	s.mu.Unlock()
	for w, exes := range on {
		if err := w.backend.SetWeights(ctx, s.model.mapped().Size, s.newWeights(weights), exes); err != nil {
			if ctx.Err() == nil || s.backend.Err() != nil {
				s.lose(w, err)
			}
			return s.changed(ctx, err)
		}
	}
	return nil
}

// newWeights returns the weights with their places.
func (s *Session) newWeights(weights map[string]Tensor) (out []host.NewWeight) {
	for name, t := range weights {
		offset, _ := s.model.verified.Weights().Offset(name)
		out = append(out, host.NewWeight{Offset: offset, Data: t.Data})
	}
	return out
}

// weight returns the current values of a weight, or of a part of one.
func (s *Session) weight(offset, size int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.replaced {
		w, _ := s.model.verified.Weights().Find(name)
		if at := offset - w.Offset; at >= 0 && at+size <= w.Size {
			return t.Data[at : at+size], nil
		}
	}
	return s.model.weight(offset, size)
}
