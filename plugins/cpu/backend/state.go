package backend

import (
	"context"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
)

// NewState allocates size bytes. The operating system backs them with pages only when they are written.
func (Backend) NewState(_ context.Context, id string, size int64) (device.State, error) {
	if id != "" && id != "0" {
		return nil, diag.New(device.ErrUnavailable, "cpu", "device %q does not exist; the only device is 0", id)
	}
	data, free, err := allocate(size)
	if err != nil {
		return nil, diag.New(device.ErrMemory, "cpu", "state of %d bytes: %w", size, err)
	}
	return device.NewHostState(data, free), nil
}

var _ = register(kernel{op: "kv_append", takes: "(any, same, i32|i64, i32)", run: func(c *call) error {
	if c.in[2].DType == dtype.I64 {
		return kvAppend(c, view[int64](c.in[2]))
	}
	return kvAppend(c, view[int32](c.in[2]))
}})

func kvAppend[T int32 | int64](c *call, pos []T) error {
	rows, axis := c.in[1], positive(c.node.Attrs.(op.KVAppendAttrs).Axis, len(c.out.Shape))
	have, n := c.out.Shape[axis], rows.Shape[axis]
	if err := op.CheckAppend(pos, n, have, axis); err != nil {
		return err
	}
	outer, _, inner := around(rows.Shape, axis)
	inner *= c.out.DType.Size()
	if c.has(op.KVAppendSequence) {
		sequence := view[int32](c.in[op.KVAppendSequence])
		if err := op.CheckSequences(sequence, c.out.Shape[0]); err != nil {
			return err
		}
		for i, to := range sequence {
			part, at := outer/len(sequence), pos[i*len(pos)/len(sequence)]
			layout.Place(c.pool, c.out.Data[int(to)*part*have*inner:], rows.Data[i*part*n*inner:], part, have*inner,
				int(at)*inner, n*inner)
		}
		return nil
	}
	for i, at := range pos { // one position per sequence, or one for all
		part := outer / len(pos)
		to, from := c.out.Data[i*part*have*inner:], rows.Data[i*part*n*inner:]
		layout.Place(c.pool, to, from, part, have*inner, int(at)*inner, n*inner)
	}
	return nil
}
