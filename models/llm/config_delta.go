package llm

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

// delta holds the sizes of linear attention by the gated delta rule.
type delta struct {
	keyHeads, keyDim     int64
	valueHeads, valueDim int64
	taps                 int64 // of the convolution before it
	joined               bool  // one projection computes q, k, v and gates head by head, another step and rate
}

// keys returns the width of the keys of all heads, and values the width of their values.
func (d delta) keys() int64   { return d.keyHeads * d.keyDim }
func (d delta) values() int64 { return d.valueHeads * d.valueDim }

// readDelta reads the sizes of linear attention. One projection and one convolution compute q, k and v together.
func (c *config) readDelta(w *nn.Weights, r *reader) error {
	i := slices.IndexFunc(c.layers, func(l layer) bool { return l.linear })
	if kinds[c.kind].delta {
		c.gainOffset = 1
		r.int(keyInterval, 1, maxSize, 4) // layer_types and the tensors say which layers these are
		_, c.mtp = w.Type("mtp.fc.weight")
		if n := r.int(keyMTP, 0, 1, 0); n == 1 && !c.mtp {
			return diag.New(arch.ErrTensor, "mtp.fc.weight", "tensor is missing; %s is 1", keyMTP)
		}
	}
	switch {
	case i < 0:
		return nil
	case !kinds[c.kind].delta:
		return diag.New(arch.ErrConfig, r.Origin(keyType),
			"%s is %q; the tensors have linear attention, which is qwen3_5's", keyType, c.kind)
	}
	s := fmt.Sprintf("model.layers.%d.linear_attn.", i)
	conv, ok := w.Type(s + "conv1d.weight")
	decay, found := w.Type(s + "A_log")
	if !ok || !found || len(conv.Shape) != 3 || len(decay.Shape) != 1 || !conv.Shape[1].Is(1) ||
		conv.Shape[0].Const > maxSize || conv.Shape[2].Const > maxSize || conv.Shape[2].Const < 1 {
		return diag.New(arch.ErrTensor, w.Source(s+"conv1d.weight"),
			"tensor is %v, and A_log %v; expected [channels, 1, taps] and [value heads]", conv, decay)
	}
	name := s + "in_proj_z.weight"
	_, joined := w.Type(s + "in_proj_qkvz.weight")
	if joined {
		name = s + "in_proj_qkvz.weight"
	}
	values, _, err := matrix(w, name, "[value heads*width, width]")
	if err != nil {
		return err
	}
	if joined { // the projection also has q, k and v, which are the rows of the convolution
		values -= conv.Shape[0].Const
	}
	d := delta{joined: joined, keyHeads: r.int(keyKeyHeads, 1, maxSize, 16), valueHeads: decay.Shape[0].Const,
		taps: conv.Shape[2].Const}
	if r.err != nil {
		return r.err
	}
	keys := (conv.Shape[0].Const - values) / 2
	if d.valueHeads < 1 || values < 1 || values%d.valueHeads != 0 || keys < 1 || keys%d.keyHeads != 0 ||
		(conv.Shape[0].Const-values)%2 != 0 || d.valueHeads%d.keyHeads != 0 {
		return diag.New(arch.ErrConfig, r.Origin(keyKeyHeads),
			"%d key heads of linear attention do not fit the tensors: %d channels of the convolution, of which %d are those of %d value heads",
			d.keyHeads, conv.Shape[0].Const, values, d.valueHeads)
	}
	d.keyDim, d.valueDim = keys/d.keyHeads, values/d.valueHeads
	c.delta = d
	r.agree("linear_num_value_heads", d.valueHeads)
	r.agree("linear_value_head_dim", d.valueDim)
	r.agree("linear_key_head_dim", d.keyDim)
	r.agree("linear_conv_kernel_dim", d.taps)
	return nil
}
