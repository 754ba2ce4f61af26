package llm

import (
	"maps"
	"math"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/qwen3vl"
)

// vision describes how images become part of a text.
type vision struct {
	tower *qwen3vl.Tower
	// sections has the number of pairs of a head that turn by time, row and column; those of rows and columns are every
	// third pair from the second and third on.
	sections     []int
	image, video int // ids of tokens that stand for a part of an image, and of a video
}

// Keys of the tokens in a configuration, and of the pairs that each position turns.
const (
	keyImage    = "image_token_id"
	keyVideo    = "video_token_id"
	keySections = "mrope_section"
)

func init() {
	maps.Copy(keys, qwen3vl.TowerKeys)
	keys[keyImage], keys[keyVideo] = "of qwen3_vl: id that stands for a part of an image (default 151655)",
		"of qwen3_vl: id that stands for a part of a video (default 151656)"
}

// readVision reads the encoder of images, if the checkpoint has one.
func (c *config) readVision(w *nn.Weights, r *reader) {
	if r.err != nil || !kinds[c.kind].images || !qwen3vl.HasTower(w) {
		return
	}
	v := &vision{image: int(r.int(keyImage, 0, c.vocab-1, 151655)), video: int(r.int(keyVideo, 0, c.vocab-1, 151656))}
	object := keyScaling
	if r.Has(keyParameters) {
		object = keyParameters
	}
	var err error
	if v.sections, err = r.Ints(object+"."+keySections, 0, maxSize); err == nil && v.sections == nil {
		v.sections = []int{24, 20, 20}
	}
	r.fail(err)
	if !r.bool(object+".mrope_interleaved", true) {
		r.fail(diag.New(arch.ErrConfig, r.Origin(object+".mrope_interleaved"),
			"mrope_interleaved is false; %s interleaves the pairs", c.kind))
	}
	refuse := func(key, what string) {
		r.fail(diag.New(arch.ErrConfig, r.Origin(key), "%s; a model that takes images has none", what))
	}
	switch {
	case r.err != nil:
	case len(v.sections) != 3:
		r.fail(diag.New(arch.ErrConfig, r.Origin(object+"."+keySections), "%s has %d numbers; want 3", keySections,
			len(v.sections)))
	case int64(v.image) >= c.vocab || int64(v.video) >= c.vocab:
		r.fail(diag.New(arch.ErrConfig, r.Origin(keyImage), "%s is %d, and %s %d; the vocabulary has 0 to %d", keyImage,
			v.image, keyVideo, v.video, c.vocab-1))
	case c.rope.kind == "dynamic":
		refuse(object+".rope_type", "rotary frequencies depend on the length")
	case c.rotated != c.headDim:
		refuse(keyPartial, "a part of each head turns")
	case c.kept() > 0:
		refuse(keyWindow, "all layers have a sliding window")
	}
	if r.err != nil {
		return
	}
	if v.tower, err = qwen3vl.ReadTower(w, r.Config, c.context); err == nil && v.tower.Width() != c.width {
		err = diag.New(arch.ErrTensor, w.Source("visual.merger.linear_fc2.weight"),
			"gives rows of %d; the width of the language model is %d", v.tower.Width(), c.width)
	}
	if err == nil && v.tower.Stacked() >= len(c.layers) {
		err = diag.New(arch.ErrConfig, "vision_config.deepstack_visual_indexes",
			"has %d layers; the language model has %d, of which the last adds nothing", v.tower.Stacked(), len(c.layers))
	}
	if r.fail(err); err == nil {
		c.vision = v
	}
}

// rotary adds the input with the time, row and column of each token of some sequences, and makes d turn by them. For a
// single sequence, the input has no axis for it.
func (d *decoder) rotary(sequences ir.Dim) {
	g, tokens := d.root.Graph, ir.Named("T")
	shape := ir.Shape{ir.Static(3), sequences, tokens}
	if sequences.Is(1) {
		shape = ir.Shape{ir.Static(3), tokens}
	} else {
		d.first = d.tableRows(op.Iota(g, 1, ir.Type{DType: dtype.I32, Shape: ir.Shape{ir.Static(1), tokens}}))
	}
	in := op.Input(g, d.vision.tower.Images.Rotary, ir.Type{DType: dtype.I32, Shape: shape})
	pairs := d.headDim / 2
	f := d.frequencies
	if f == nil {
		number := op.Const(g, -2/float64(d.headDim)*math.Log(d.rope.base), ir.TypeOf(dtype.F64))
		f = op.Cast(op.Exp(op.Mul(op.Iota(g, 0, ir.TypeOf(dtype.F64, pairs)), number)), dtype.F32)
	}
	index := op.Iota(g, 0, ir.TypeOf(dtype.I32, pairs))
	number := func(n int) *ir.Node { return op.Const(g, float64(n), ir.TypeOf(dtype.I32)) }
	turns := make([]nn.Turn, 3)
	kept := op.Lt(index, number(0)) // pairs that rows and columns turn
	for i := range turns {
		turns[i].Position = op.Reshape(op.Narrow(in, 0, i, 1), ir.Shape{sequences, tokens})
		if i > 0 {
			own := op.And(op.Eq(op.Mod(index, number(3)), number(i)), op.Lt(index, number(3*d.vision.sections[i])))
			turns[i].Frequencies = op.Mul(f, op.Cast(own, dtype.F32))
			kept = op.Or(kept, own)
		}
	}
	turns[0].Frequencies = op.Mul(f, op.Cast(op.Not(kept), dtype.F32))
	if d.rope.attention != 1 {
		turns[0].Factor = d.rope.attention
	}
	d.cos, d.sin = nn.Angles(g, sequences, tokens, pairs, turns)
}

// tableRows returns the rows of the tables of angles for tokens of several sequences, [B,n]. index has the numbers of
// the tokens, [1,n] or [B,n].
func (d *decoder) tableRows(index *ir.Node) *ir.Node {
	g := d.root.Graph
	tokens := op.Add(last(g, "T"), op.Const(g, 1, ir.TypeOf(dtype.I32)))
	sequence := op.Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{ir.Named("B"), ir.Static(1)}})
	return op.Add(op.Mul(sequence, tokens), index)
}

// tableRow returns the first row of the tables of angles for the token with the given number of each sequence.
func (d *decoder) tableRow(index *ir.Node) *ir.Node {
	if index.Type.Rank() == 0 {
		return index
	}
	return d.tableRows(op.Reshape(index, ir.Shape{ir.Named("B"), ir.Static(1)}))
}

// appendImage appends blocks of an image to the sequence in the states: features f32[T,w], which the encoder has
// computed, position i32[], and rotary i32[3,T]; with several sequences also the number of one, sequence i32[1]. The
// last layer only keeps keys and values: what follows an image is chosen from a token of text.
func appendImage(c config, root nn.Scope) {
	g, tower := root.Graph, c.vision.tower
	stacked := tower.Stacked()
	in := op.Input(g, tower.Images.Features, ir.Type{DType: dtype.F32,
		Shape: ir.Shape{ir.Named("T"), ir.Static(int64(1+stacked) * c.width)}})
	position := op.Input(g, "position", ir.TypeOf(dtype.I32))
	d := newDecoder(c, root, "T", position)
	d.cached, d.row = true, position
	d.rotary(ir.Static(1))
	if c.sequences > 1 {
		d.sequence = op.Input(g, "sequence", ir.TypeOf(dtype.I32, 1))
	}
	part := func(i int) *ir.Node {
		return op.Reshape(op.Narrow(in, 1, i*int(c.width), int(c.width)),
			ir.Shape{ir.Static(1), ir.Named("T"), ir.Static(c.width)})
	}
	x := part(0)
	for i, l := range d.layers[:len(d.layers)-1] {
		x, _ = d.layer(root.At("model.layers", i), l, x, nil)
		if i < stacked {
			x = op.Add(x, part(i+1))
		}
	}
	i := len(d.layers) - 1
	s := root.At("model.layers", i)
	d.keysAndValues(s.At("self_attn"), d.layers[i], d.norm(s.At("input_layernorm"), x))
	g.Return("done", op.Const(g, 0, ir.TypeOf(dtype.I32)))
}
