package devicetest

import (
	"context"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// Once runs the loaded program p once and returns the outputs by name. Inputs are given by name. Once allocates the IO
// space. A program that has states needs the argument state.
func Once(t testing.TB, x device.Executable, p *program.Program, syms map[string]int64, in map[string]*tensor.Array,
	state ...device.State) map[string]*tensor.Array {
	t.Helper()
	out, err := once(x, p, syms, in, state...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// once is like Once, but returns an error.
func once(x device.Executable, p *program.Program, syms map[string]int64, in map[string]*tensor.Array,
	state ...device.State) (map[string]*tensor.Array, error) {
	b, err := p.Bind(syms)
	if err != nil {
		return nil, err
	}
	io := tensor.AlignedBytes(int(p.IOSize))
	for i, n := range p.Graph.Inputs() {
		copy(io[b.Inputs[i].Offset:], in[n.Name].Tensor().Data)
	}
	r := device.Run{Syms: syms, IO: io}
	if len(state) > 0 {
		r.State = state[0]
	}
	if _, err := x.Run(context.Background(), r); err != nil {
		return nil, err
	}
	out := map[string]*tensor.Array{}
	for i, o := range p.Graph.Outputs {
		v := b.Outputs[i]
		out[o.Name] = tensor.Tensor{DType: v.DType, Shape: v.Shape, Data: io[v.Offset : v.Offset+v.Bytes]}.Array()
	}
	return out, nil
}
