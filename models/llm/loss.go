package llm

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/task"
)

// maxTrainBatch is the maximum number of sequences of a training step.
const maxTrainBatch = 1 << 10

func (c config) lossSyms() ir.Syms {
	return ir.Syms{{Name: "B", Min: 1, Max: maxTrainBatch}, {Name: "T", Min: 1, Max: c.maxPositions}}
}

// loss computes the mean cross entropy f32[] of the logits of input_ids i64[B,T] against targets i64[B,T].
func loss(c config, root nn.Scope) {
	g := root.Graph
	batch := ir.Type{DType: dtype.I64, Shape: ir.Shape{ir.Named("B"), ir.Named("T")}}
	ids, targets := op.Input(g, task.TrainIDs, batch), op.Input(g, task.TrainTargets, batch)
	d := newDecoder(c, root, "T", nil)
	x, _ := d.decode(d.embed(ids), nil)
	logits := d.logits(d.finalNorm(x), d.head(), "lm_head")
	rows, _ := ir.Named("B").Mul(ir.Named("T"))
	each := op.SoftmaxCrossEntropy(op.Reshape(logits, ir.Shape{rows, ir.Static(c.vocab)}),
		op.Reshape(targets, ir.Shape{rows}))
	g.Return(task.TrainLoss, op.ReduceMean(each, false, 0))
}
