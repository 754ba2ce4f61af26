package devicetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// values are tensors by the name of an input, param or output.
type values map[string]*tensor.Array

const (
	guard = 4 * program.Align // number of bytes before and after each space
	// pattern is a byte that fills memory that nothing should read or write. It makes NaN in every float type, and -1
	// in signed integers.
	pattern = 0xFF
)

// guarded returns n bytes, aligned to 64, with guard bytes before and after them. All bytes are the pattern. all
// includes the guards.
func guarded(n int64) (all, inner []byte) {
	all = tensor.AlignedBytes(int(n) + 2*guard)
	for i := range all {
		all[i] = pattern
	}
	return all, all[guard : guard+n : guard+n]
}

// rig is a loaded program with memory to run it in.
type rig struct {
	program *program.Program
	exe     device.Executable
	backend device.Backend
	s       *suite
	// state is used by all runs. If it is nil, each run gets a new state with the initial values.
	state device.State

	allWeights, weightsBefore []byte
	allIO, io                 []byte
}

// layout places params one after the other. It returns their offsets and the size of the whole, in bytes.
func layout(names []string, params values) (at map[string]int64, size int64) {
	at = map[string]int64{}
	for _, name := range names {
		at[name] = size
		x := params[name]
		size += program.AlignUp(int64(x.Len() * x.DType.Size()))
	}
	return at, size
}

// names returns the names in alphabetical order.
func (v values) names() []string {
	var out []string
	for name := range v {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// load loads p with params placed by layout. It returns an error that wraps errRefused if the backend's description
// excludes p and the backend refused it with device.ErrUnsupported.
func (s *suite) load(p *program.Program, params values, l device.Load) (*rig, error) {
	if p.IOSize > MaxIO {
		panic(fmt.Sprintf("BUG: devicetest: %s has an IO space of %d bytes", p.Method, p.IOSize))
	}
	p.Target = s.info.Name
	r := &rig{program: p, backend: s.backend, s: s}
	at, size := layout(params.names(), params)
	var weights []byte
	r.allWeights, weights = guarded(size)
	for name, x := range params {
		copy(weights[at[name]:], x.Tensor().Data)
	}
	r.weightsBefore = slices.Clone(r.allWeights)
	l.Program, l.Weights = p, weights
	exe, err := s.backend.Load(context.Background(), l)
	if why := s.info.Lacks(p); why != "" {
		switch {
		case err == nil:
			exe.Close()
			return nil, fmt.Errorf("loads a program that its description does not take: %s", why)
		case errors.Is(err, device.ErrUnsupported):
			if _, op := takes(s.info.Target, p.Graph); op != "" {
				why = op // without the node
			}
			return nil, skipped(why)
		}
		return nil, fmt.Errorf("a program that the description does not take (%s) gives %w; want device.ErrUnsupported",
			why, err)
	}
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	r.exe = exe
	r.move()
	if err := r.checkKernels(); err != nil {
		exe.Close()
		return nil, err
	}
	return r, nil
}

// checkKernels checks that Kernels lists every op that has a step once, and no other op. A backend may list custom ops
// together, as "custom".
func (r *rig) checkKernels() error {
	var want, got []string
	for _, k := range r.exe.Kernels() {
		got = append(got, k.Op)
	}
	for _, st := range r.program.Steps {
		n := r.program.Graph.Nodes[st.Node]
		name := n.OpName()
		if n.Op == op.CustomDef && slices.Contains(got, op.CustomDef.Name) {
			name = op.CustomDef.Name
		}
		want = append(want, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		return fmt.Errorf("the method Kernels lists %q; the program's ops are %q", got, want)
	}
	return nil
}

// move replaces the rig's IO space by new memory.
func (r *rig) move() { r.allIO, r.io = guarded(r.program.IOSize) }

// close closes the executable. It stores the error in *err unless *err has one already.
func (r *rig) close(err *error) {
	if e := r.exe.Close(); e != nil && *err == nil {
		*err = fmt.Errorf("close: %w", e)
	}
}

// run runs the program once and returns its outputs. All of the IO space except the inputs holds the pattern before the
// run. run returns an error if the backend wrote anything but the outputs, even in a run that failed. req has the other
// options of the run.
func (r *rig) run(ctx context.Context, inputs values, req device.Run) (map[string]tensor.Tensor, device.Stats, error) {
	b, err := r.program.Bind(req.Syms)
	if err != nil {
		panic("BUG: devicetest: " + err.Error())
	}
	for i := range r.allIO {
		r.allIO[i] = pattern
	}
	for i, n := range r.program.Graph.Inputs() {
		o := b.Inputs[i]
		if c := copy(r.io[o.Offset:], inputs[n.Name].Tensor().Data); int64(c) != o.Bytes {
			panic(fmt.Sprintf("BUG: devicetest: input %s has %d bytes; want %d", n.Name, c, o.Bytes))
		}
	}
	before := slices.Clone(r.allIO)
	req.IO = r.io
	req.State = r.state
	if r.state == nil && r.program.StateSize > 0 {
		if req.State, err = r.newState(); err != nil {
			return nil, device.Stats{}, err
		}
		defer req.State.Close()
	}
	stats, err := r.exe.Run(ctx, req)
	out := map[string]tensor.Tensor{}
	after := slices.Clone(r.allIO)
	for i, o := range b.Outputs {
		lo, hi := guard+o.Offset, guard+o.Offset+o.Bytes
		data := tensor.AlignedBytes(int(o.Bytes))
		copy(data, after[lo:hi])
		out[r.program.Graph.Outputs[i].Name] = tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: data}
		copy(after[lo:hi], before[lo:hi])
	}
	if e := r.untouched(b, before, after); e != nil {
		return nil, stats, errors.Join(e, err)
	}
	return out, stats, err
}

// newState makes a state with the program's initial values.
func (r *rig) newState() (device.State, error) {
	ctx := context.Background()
	s, err := r.backend.NewState(ctx, "", r.program.StateSize)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	for _, t := range r.program.States() {
		if t.Init == 0 {
			continue // new memory is zeroed
		}
		b := make([]byte, t.Bytes())
		t.Fill(b)
		if err := s.Write(ctx, t.Offset, b); err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
	}
	return s, nil
}

// untouched checks that the run changed no byte outside the outputs.
func (r *rig) untouched(b *program.Bound, before, after []byte) error {
	if i := differ(before, after); i >= 0 {
		at, where := int64(i-guard), ""
		for k, o := range append(slices.Clone(b.Inputs), b.Outputs...) {
			place := r.program.Places[o.Node]
			switch {
			case at >= o.Offset && at < o.Offset+o.Bytes:
				where = fmt.Sprintf(", in input %d", k)
			case at >= o.Offset+o.Bytes && at < o.Offset+max(program.AlignUp(place.Size), program.Align):
				where = fmt.Sprintf(", %d bytes past the end of %v%v", at-o.Offset-o.Bytes, o.DType, o.Shape)
			}
		}
		return fmt.Errorf("wrote byte %d of %d of the io space, outside of all outputs%s", at, r.program.IOSize, where)
	}
	if i := differ(r.weightsBefore, r.allWeights); i >= 0 {
		return fmt.Errorf("wrote byte %d of the weights, which has %d", i-guard, len(r.allWeights)-2*guard)
	}
	return nil
}

// differ returns the first index at which a and b differ, or -1.
func differ(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// sameBits returns an error unless the outputs have equal bytes. what names the two runs in the error.
func sameBits(what string, a, b map[string]tensor.Tensor) error {
	var errs []string
	for name, x := range a {
		if i := differ(x.Data, b[name].Data); i >= 0 {
			k := i / x.DType.Size()
			errs = append(
				errs, fmt.Sprintf("output %s: element %d of %v%v is %v and %v", name, k, x.DType, x.Shape,
					x.Array().At(k), b[name].Array().At(k)))
		}
	}
	if errs == nil {
		return nil
	}
	return fmt.Errorf("%s give different bits: %s", what, strings.Join(errs, "; "))
}
