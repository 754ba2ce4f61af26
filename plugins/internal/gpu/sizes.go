package gpu

import (
	"encoding/binary"
	"fmt"
	"maps"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// sizes holds what the shaders of a program need for given values of its symbols.
type sizes struct {
	bound      *program.Bound
	params     []byte        // the parameters of all dispatches
	workgroups [][2]uint32   // number of workgroups of each dispatch, along x and y
	pace       time.Duration // average time of a dispatch in the last plain run of these sizes; 0 before the first
}

// bind writes the parameters of all shaders for the sizes of a run, unless they are the sizes of the last run. It
// puts the tape away if the sizes are new.
func (x *executable) bind(syms map[string]int64) error {
	if x.bound != nil && maps.Equal(x.syms, syms) {
		return nil
	}
	s, ok := x.recent.Get(syms)
	if !ok {
		var err error
		if s, err = x.sizesOf(syms); err != nil {
			return err
		}
		x.recent.Put(syms, s)
	}
	x.bound = nil
	x.putTape()
	for i, d := range x.each() {
		d.x, d.y = s.workgroups[i][0], s.workgroups[i][1]
	}
	if len(s.params) > 0 {
		if err := x.gpu.dev.Write(x.params, s.params); err != nil {
			return err
		}
	}
	for _, l := range x.loops {
		for _, y := range l.programs() {
			own := map[string]int64{}
			for _, s := range y.program.Graph.Syms {
				own[s.Name] = syms[s.Name]
			}
			if err := y.bind(own); err != nil {
				return err
			}
		}
	}
	x.bound, x.sizes, x.syms = s.bound, s, maps.Clone(syms)
	if x.root != nil {
		x.grouped = (&recording{exec: x}).grouped()
	}
	return nil
}

// sizesOf computes the sizes for given values of the symbols.
func (x *executable) sizesOf(syms map[string]int64) (*sizes, error) {
	if x.binder == nil {
		x.binder = program.NewBinder(x.program)
	}
	b, err := x.binder.Bind(syms)
	if err != nil {
		return nil, diag.New(device.ErrInput, x.program.Method, "%w", err)
	}
	all := x.each()
	out := &sizes{bound: b, params: make([]byte, 0, x.paramBytes), workgroups: make([][2]uint32, len(all))}
	for i, d := range all {
		s, c := b.Steps[d.step], call(b.Steps[d.step])
		if d.steps != nil {
			var calls []*kernels.Call
			for k := range d.steps {
				calls = append(calls, call(b.Steps[d.step-len(d.steps)+1+k]))
			}
			c = calls[0]
			c.Group = calls
		}
		out.params = append(out.params, make([]byte, d.at-int64(len(out.params)))...)
		p := d.shader.Params(c)
		if p == nil {
			continue
		}
		out.params = appendParams(out.params, d.shader, p)
		w := &out.workgroups[i]
		if err = x.gpu.checkLoops(d.shader, c); err == nil {
			w[0], w[1], err = x.gpu.fold(d.shader.Groups(c))
		}
		if err != nil && d.steps != nil {
			*w = [2]uint32{} // the steps of the group run one by one
			continue
		}
		if err != nil {
			return nil, diag.New(device.ErrUnsupported, s.Node.OpName(), "step %d, %s: %w", d.step+1, s.Node.Label(),
				err).WithHint("run with --backend cpu")
		}
	}
	return out, nil
}

// appendParams appends the bytes of a parameter struct, whose declaration in WGSL is made from the shader's fields.
func appendParams(to []byte, s kernels.Shader, values []uint32) []byte {
	if n := s.ParamWords(); len(values) != n {
		panic(
			fmt.Sprintf("BUG: shader %s has %d values for %d words of parameters %v", s.Name, len(values), n, s.Fields))
	}
	for _, v := range values {
		to = binary.LittleEndian.AppendUint32(to, v)
	}
	return to
}

func call(s program.BoundStep) *kernels.Call {
	return &kernels.Call{In: s.In, Out: s.Outs[0], Outs: s.Outs}
}
