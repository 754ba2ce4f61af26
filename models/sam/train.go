package sam

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/task"
)

// Constants of the loss, from the paper on SAM (appendix A) and the code of SAM 2, which has the same loss.
const (
	focalWeight = 20
	diceWeight  = 1
	iouWeight   = 1
	focalAlpha  = 0.25
)

// training builds the graphs that train the mask decoder. The image encoder and the prompt encoder stay as they are.
func training(c config, w *nn.Weights, m *arch.Model, o arch.TrainOptions) (*arch.Training, error) {
	if o.Mode != "decoder" {
		return nil, diag.New(diag.Usage, "--train "+o.Mode, "a SAM trains its mask decoder").WithHint(
			"give --train decoder")
	}
	batch := max(1, o.Batch)
	if batch > task.MaxTrainPrompts {
		return nil, diag.New(diag.Usage, "--train-batch", "is %d; allowed are 1 to %d", batch, task.MaxTrainPrompts)
	}
	segment := describe(c)
	about := &task.TrainSegment{Method: o.Method, Loss: "loss", Init: "train_init", Optimizer: o.Optimizer,
		Encode: segment.ImageMethod, Batch: batch, Channels: int(c.embed), Grid: int(c.grid), Size: segment.Size,
		Mean: segment.Mean, Std: segment.Std}
	loss, err := w.Graph(about.Loss, nil, func(root nn.Scope) {
		b := ir.Static(int64(batch))
		masks, iou := decodePrompts(c, root, b, b, ir.Static(2), false)
		side := 4 * c.grid
		target := op.Input(root.Graph, task.TrainMask, ir.TypeOf(dtype.F32, int64(batch), 2, side, side))
		// the masks among which the predicted quality decides
		n := segment.BestLast - segment.BestFirst + 1
		l := maskLoss{logits: op.Narrow(masks, 1, segment.BestFirst, n), predicted: op.Narrow(iou, 1,
			segment.BestFirst, n), target: op.Narrow(target, 1, 0, 1), weight: op.Narrow(target, 1, 1, 1)}
		total, quality := l.build()
		root.Graph.Return(task.TrainLoss, total)
		root.Graph.Return(task.TrainIoU, quality)
	})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(m.Methods, func(g *ir.Graph) bool { return g.Name == about.Encode })
	return &arch.Training{Loss: loss, Methods: []*ir.Graph{m.Methods[i]}, Task: about,
		Trained: func(param string) bool { return strings.HasPrefix(param, "mask_decoder.") }}, nil
}

// maskLoss compares masks [B,M,h,w] of logits and their predicted quality [B,M] with a mask [B,1,h,w] of 0 and 1.
// weight [B,1,h,w] is 0 where the square shows no image, and otherwise 1.
type maskLoss struct{ logits, predicted, target, weight *ir.Node }

func (l *maskLoss) number(v float64) *ir.Node {
	return op.Const(l.logits.Graph, v, ir.TypeOf(dtype.F32))
}

// sum returns the weighted sum of x over the pixels, [B,M] or [B,1].
func (l *maskLoss) sum(x *ir.Node) *ir.Node { return op.ReduceSum(op.Mul(x, l.weight), false, 2, 3) }

// build returns the mean over the batch of the least loss of a mask, plus the squared error of all qualities; and the
// mean quality of the masks that the model takes for the best.
func (l *maskLoss) build() (loss, quality *ir.Node) {
	one := l.number(1)
	pixels := op.ReduceSum(l.weight, false, 2, 3)
	p := op.Sigmoid(l.logits)

	// Lin et al., arXiv:1708.02002
	entropy := op.Sub(op.Softplus(l.logits, 1, 20), op.Mul(l.logits, l.target))
	wrong := op.Sub(op.Add(p, l.target), op.Mul(op.Mul(p, l.target), l.number(2))) // 1 - probability of the target
	balance := op.Add(op.Mul(l.target, l.number(2*focalAlpha-1)), l.number(1-focalAlpha))
	focal := op.Div(l.sum(op.Mul(op.Mul(entropy, op.Square(wrong)), balance)), pixels)

	// Milletari et al., arXiv:1606.04797
	both := op.Add(op.Mul(l.sum(op.Mul(p, l.target)), l.number(2)), one)
	dice := op.Sub(one, op.Div(both, op.Add(op.Add(l.sum(p), l.sum(l.target)), one)))

	inside := op.Where(op.Gt(l.logits, l.number(0)), one, l.number(0))
	common := l.sum(op.Mul(inside, l.target))
	union := op.Max(op.Sub(op.Add(l.sum(inside), l.sum(l.target)), common), one)
	iou := op.Div(common, union) // has no gradient

	each := op.Add(op.Mul(focal, l.number(focalWeight)), op.Mul(dice, l.number(diceWeight)))
	least := op.ReduceMean(op.ReduceMin(each, false, 1), false, 0)
	errors := op.ReduceMean(op.Square(op.Sub(l.predicted, iou)), false, 0, 1)

	best := op.Eq(l.predicted, op.ReduceMax(l.predicted, true, 1))
	share := op.Where(best, one, l.number(0))
	share = op.Div(share, op.ReduceSum(share, true, 1))
	quality = op.ReduceMean(op.ReduceSum(op.Mul(share, iou), false, 1), false, 0)
	return op.Add(least, op.Mul(errors, l.number(iouWeight))), quality
}
