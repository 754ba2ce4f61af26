package backend

import (
	"context"
	"fmt"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

// NewState allocates memory of the process. The system provides pages as they are written.
func (Backend) NewState(_ context.Context, id string, size int64) (device.State, error) {
	if id != "" && id != "0" {
		return nil, diag.New(device.ErrUnavailable, "cpu", "no device %q; there is one, 0", id)
	}
	data, free, err := allocate(size)
	if err != nil {
		return nil, diag.New(device.ErrMemory, "cpu", "state of %d bytes: %w", size, err)
	}
	return device.NewHostState(data, free), nil
}

// checkState checks the states and outputs that a run names against the program and the sizes bound last.
func (x *executable) checkState(r device.Run) error {
	if r.State == nil && r.Feeds == nil && r.Keeps == nil && r.Outputs == nil && x.p.StateSize == 0 {
		return nil
	}
	values := func(nodes []int) (out []program.Operand) {
		for _, n := range nodes {
			out = append(out, x.values.Operands[n])
		}
		return out
	}
	return r.CheckState(x.p, values(x.inputs), values(x.outputs))
}

// ioValue is the memory of a value in the io space.
func (x *executable) ioValue(io []byte, node int) []byte {
	v := &x.values.Operands[node]
	return io[v.Offset : v.Offset+v.Bytes]
}

// ends lists the nodes of inputs and outputs.
func ends(p *program.Program) (inputs, outputs []int) {
	for _, n := range p.Graph.Inputs() {
		inputs = append(inputs, n.ID)
	}
	for _, o := range p.Graph.Outputs {
		outputs = append(outputs, o.Node.ID)
	}
	return inputs, outputs
}

var _ = register(kernel{op: "kv_append", takes: "(any, same, i32|i64)", run: func(c *call) error {
	rows, axis := c.in[1], positive(c.node.Attrs.(op.KVAppendAttrs).Axis, len(c.out.Shape))
	pos := oneIndex(c.in[2])
	have, n := c.out.Shape[axis], rows.Shape[axis]
	if pos < 0 || pos > int64(have-n) {
		return fmt.Errorf("%d rows at %d do not fit 0 to %d of axis %d", n, pos, have, axis)
	}
	outer, _, inner := around(c.out.Shape, axis)
	inner *= c.out.DType.Size()
	kernels.Place(c.pool, c.out.Data, rows.Data, outer, have*inner, int(pos)*inner, n*inner)
	return nil
}})
