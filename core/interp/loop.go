package interp

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// loop runs the step of a loop. The programs of the loop run in its region of the arena.
func (m memory) loop(p *program.Program, l *program.Loop, s program.BoundStep, in []*tensor.Array) (
	[]*tensor.Array, error) {
	end, io := l.Offset+l.Size(), l.Offset+l.IOSize()
	inner := memory{program.Weights: m[program.Weights], program.IO: m[program.Arena][l.Offset:io],
		program.Arena: m[program.Arena][io:end]}
	run := func(b *ir.Graph, in []*tensor.Array) ([]*tensor.Array, error) {
		for _, x := range l.Programs() {
			if x.Graph != b {
				continue
			}
			syms := map[string]int64{}
			for _, sym := range b.Syms {
				syms[sym.Name] = s.Syms[sym.Name]
			}
			bound, err := x.Bind(syms)
			if err != nil {
				return nil, err
			}
			inputs := map[string]*tensor.Array{}
			for k, n := range b.Inputs() {
				inputs[n.Name] = in[k]
			}
			named, err := inner.run(x, bound, inputs)
			if err != nil {
				return nil, fmt.Errorf("graph %s: %w", b.Name, err)
			}
			var out []*tensor.Array
			for _, o := range b.Outputs {
				out = append(out, named[o.Name])
			}
			return out, nil
		}
		return nil, fmt.Errorf("graph %s has no program", b.Name)
	}
	out := make([]*tensor.Array, len(s.Outs))
	for k, o := range s.Outs {
		out[k] = tensor.NewArray(o.DType, o.Shape...)
	}
	if err := s.Node.Op.EvalBodies(s.Node.Attrs, run, in, out...); err != nil {
		return nil, err
	}
	return m.stored(s, out)
}
