package backend

import "github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"

// The states are updated in place: the memory of the results is that of the operands.
var (
	_ = register(kernel{op: "adamw", takes: "(f32...)", run: func(c *call) error {
		n := f32(c.in[4])
		elementwise.AdamW(c.pool, f32(c.results[0]), f32(c.results[1]), f32(c.results[2]), f32(c.in[3]),
			elementwise.AdamWNumbers{Scale: n[0], StepSize: n[1], Decay: n[2], Epsilon: n[3], Keep1: n[4], Take1: n[5],
				Keep2: n[6], Take2: n[7], Scale2: n[8]})
		return nil
	}})
	_ = register(kernel{op: "sgd", takes: "(f32...)", run: func(c *call) error {
		n := f32(c.in[3])
		elementwise.SGD(c.pool, f32(c.results[0]), f32(c.results[1]), f32(c.in[2]), n[0], n[1], n[2], n[3])
		return nil
	}})
)
