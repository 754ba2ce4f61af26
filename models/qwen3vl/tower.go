package qwen3vl

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/task"
)

// A Tower is the vision encoder of Qwen3-VL: it maps the patches of an image to features for the language model, one
// row for each block of patches. A row has the embedding of a token and, after it, what the first layers of the
// language model add to their results (DeepStack, arXiv:2406.04334).
type Tower struct {
	Images task.TextImages // without names of the language model's method and tokens

	width, hidden, out, heads int64
	side                      int64 // of the square of learned positions
	shape                     []int64
	layers                    int
	stack                     []int // layer of each merger for DeepStack
	act                       string
	theta                     float64 // base of the rotary frequencies
}

// Configuration keys of a Tower.
const (
	keyHeads     = "vision_config.num_heads"
	keyStack     = "vision_config.deepstack_visual_indexes"
	keyAct       = "vision_config.hidden_act"
	keyTheta     = "vision_config.rope_parameters.rope_theta"
	keyRope      = "vision_config.rope_parameters.rope_type"
	keyMaxPixels = "max_pixels"
)

// TowerKeys lists the configuration keys that ReadTower reads.
var TowerKeys = map[string]string{
	keyMerge: "side in patches of the blocks that the language model sees as one (default 2)",
	keyHeads: "attention heads of the vision encoder (default 16)",
	keyStack: "layers of the vision encoder whose features the first layers of the language model add (default 8, 16, 24)",
	keyAct:   "activation of the vision encoder: gelu_pytorch_tanh or gelu",
	keyTheta: "base of the vision encoder's rotary frequencies (default 10000)",
	keyRope:  "kind of the vision encoder's rotary frequencies: axial",
	keyMaxPixels: "area to which larger images are resized (default what the image processor says, at most 1024 tokens " +
		"or the context)",
}

const (
	blockEps = 1e-6
	// usualTokens bounds the tokens of an image by default: its memory is planned for the largest.
	usualTokens = 1024
	// leastTokens is the least bound: with a side 200 times as long as the other, an image may have that many tokens
	// although its area is smaller.
	leastTokens = 256
)

// HasTower reports whether a checkpoint has the encoder.
func HasTower(w *nn.Weights) bool {
	_, ok := w.Type("visual." + proj + ".weight")
	return ok
}

// TowerNames returns the names that a tensor of the encoder, visual.REST, may have.
func TowerNames(name string) []string { return []string{"model." + name, name} }

// ReadTower reads the sizes of the encoder from the tensors, and the rest from the configuration. context is the
// maximum number of tokens of a text.
func ReadTower(w *nn.Weights, cfg arch.Config, context int64) (*Tower, error) {
	t := &Tower{}
	var err error
	const patches = "visual." + proj + ".weight"
	if t.shape, err = w.Dims(patches, "[width, 3, frames, patch, patch]", 5); err != nil {
		return nil, err
	}
	if t.shape[1] != 3 || t.shape[3] != t.shape[4] || t.shape[3] > maxPatchSide {
		return nil, diag.New(arch.ErrTensor, w.Source(patches),
			"tensor has the shape %v; expected 3 channels and a square patch of at most %d", t.shape, maxPatchSide)
	}
	positions, err := w.Dims("visual.pos_embed.weight", "[positions, width]", 2)
	if err != nil {
		return nil, err
	}
	if t.side = int64(math.Sqrt(float64(positions[0]))); t.side*t.side != positions[0] {
		return nil, diag.New(arch.ErrTensor, w.Source("visual.pos_embed.weight"),
			"has %d positions; want a square number", positions[0])
	}
	if t.width = t.shape[0]; positions[1] != t.width {
		return nil, diag.New(arch.ErrTensor, w.Source("visual.pos_embed.weight"), "has rows of %d; the width is %d",
			positions[1], t.width)
	}
	first, err := w.Dims("visual.blocks.0.mlp.linear_fc1.weight", "[hidden, width]", 2)
	if err != nil {
		return nil, err
	}
	last, err := w.Dims("visual.merger.linear_fc2.weight", "[width of the language model, merge*merge*width]", 2)
	if err != nil {
		return nil, err
	}
	t.hidden, t.out = first[0], last[0]
	for t.has(w, fmt.Sprintf("visual.blocks.%d.norm1.weight", t.layers)) {
		t.layers++
	}
	merge := int64(math.Sqrt(float64(last[1] / t.width)))
	if merge*merge*t.width != last[1] || merge < 1 || merge > maxMergeSide {
		return nil, diag.New(arch.ErrTensor, w.Source("visual.merger.linear_fc2.weight"),
			"has rows of %d, which are not the %d values of a square of patches", last[1], t.width)
	}
	t.Images = task.TextImages{Method: "embed_image", Patches: "patches", Grid: "grid", Features: "features",
		Append: "append_image", Rotary: "rotary", Merge: int(merge), Patch: int(t.shape[3])}
	if err := t.configure(w, cfg); err != nil {
		return nil, err
	}
	return t, t.processor(cfg, context)
}

const (
	maxPatchSide = 1 << 10
	maxMergeSide = 1 << 4
	maxHeads     = 1 << 16
)

func (t *Tower) has(w *nn.Weights, name string) bool {
	_, ok := w.Type(name)
	return ok
}

// configure reads what the tensors do not determine, and compares the rest with them.
func (t *Tower) configure(w *nn.Weights, cfg arch.Config) error {
	for key, n := range map[string]int64{"hidden_size": t.width, "in_channels": t.shape[1],
		"temporal_patch_size": t.shape[2], "patch_size": t.shape[3], "depth": int64(t.layers),
		"intermediate_size": t.hidden, "out_hidden_size": t.out, "spatial_merge_size": int64(t.Images.Merge),
		"num_position_embeddings": t.side * t.side} {
		if err := cfg.Agree("vision_config."+key, n); err != nil {
			return err
		}
	}
	heads, ok, err := cfg.Int(keyHeads, 1, maxHeads)
	if err != nil {
		return err
	}
	t.heads = heads
	if !ok {
		t.heads = 16
	}
	if t.width%t.heads != 0 || t.width/t.heads%4 != 0 {
		return diag.New(arch.ErrConfig, cfg.Origin(keyHeads),
			"%s is %d; want heads that divide the width, %d, into multiples of 4", keyHeads, t.heads, t.width)
	}
	if err := t.readStack(w, cfg); err != nil {
		return err
	}
	return t.readKinds(cfg)
}

// readStack reads the layers for DeepStack.
func (t *Tower) readStack(w *nn.Weights, cfg arch.Config) (err error) {
	if t.stack, err = cfg.Ints(keyStack, 0, int64(t.layers)-1); err != nil {
		return err
	}
	if !cfg.Given(keyStack) {
		t.stack = []int{8, 16, 24}
	}
	mergers := 0
	for t.has(w, fmt.Sprintf("visual.deepstack_merger_list.%d.linear_fc2.weight", mergers)) {
		mergers++
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(t.stack)))
	if len(sorted) != len(t.stack) || mergers != len(t.stack) || mergers > 0 && sorted[mergers-1] >= t.layers {
		return diag.New(arch.ErrConfig, cfg.Origin(keyStack),
			"%s is %v; the tensors are those of %d different layers of 0 to %d", keyStack, t.stack, mergers, t.layers-1)
	}
	return nil
}

// readKinds reads the activation, and the kind of rotary embedding.
func (t *Tower) readKinds(cfg arch.Config) error {
	act, ok, err := cfg.String(keyAct)
	if !ok {
		act = "gelu_pytorch_tanh"
	}
	if t.act = map[string]string{"gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}[act]; err == nil && t.act == "" {
		err = diag.New(arch.ErrConfig, cfg.Origin(keyAct), "%s is %q; want gelu_pytorch_tanh or gelu", keyAct, act)
	}
	if err != nil {
		return err
	}
	if kind, ok, err := cfg.String(keyRope); err != nil || ok && kind != "axial" && kind != "default" {
		return orError(err, diag.New(arch.ErrConfig, cfg.Origin(keyRope), "%s is %q; want axial", keyRope, kind))
	}
	t.theta = 10000
	if theta, ok, err := cfg.Float(keyTheta); err != nil || ok && !(theta >= 1 && theta <= math.MaxFloat32) {
		return orError(err, diag.New(arch.ErrConfig, cfg.Origin(keyTheta), "%s is %v; want 1 or more", keyTheta, theta))
	} else if ok {
		t.theta = theta
	}
	return nil
}

func orError(err error, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// processor reads how images are resized and normalised.
func (t *Tower) processor(cfg arch.Config, context int64) error {
	m := &t.Images
	p := task.Patches{Patch: m.Patch, Frames: int(t.shape[2]), Merge: m.Merge}
	if err := readProcessor(&p, cfg); err != nil {
		return err
	}
	block := int64(m.Patch*m.Patch) * int64(m.Merge*m.Merge)
	m.Mean, m.Std, m.MinPixels = p.Mean, p.Std, p.MinPixels
	most := min(int64(p.MaxPixels), min(usualTokens, context)*block)
	if n, ok, err := cfg.Int(keyMaxPixels, block, 1<<28); err != nil {
		return err
	} else if ok {
		most = n
	}
	m.MinPixels, m.MaxPixels = min(m.MinPixels, int(most)), int(most)
	m.MaxTokens = int(min(max(most/block, leastTokens), context, maxPatches/int64(m.Merge*m.Merge)))
	return nil
}

// Fact describes the encoder.
func (t *Tower) Fact() arch.Fact {
	return arch.Fact{Name: "images", Value: fmt.Sprintf("%d layers of width %d, patches of %d px, up to %d tokens",
		t.layers, t.width, t.Images.Patch, t.Images.MaxTokens)}
}

// Stacked returns the number of layers of the language model that add features.
func (t *Tower) Stacked() int { return len(t.stack) }

// Width returns the width of the language model.
func (t *Tower) Width() int64 { return t.out }

// Syms returns the symbols of Build's graph.
func (t *Tower) Syms() ir.Syms { return ir.Syms{{Name: "N", Min: 1, Max: int64(t.Images.MaxTokens)}} }

// Build maps patches f32[N*m*m,3*p*p] and grid i32[2], rows and columns, to features f32[N,(1+stacked)*width]. A still
// image repeats in all frames, so one product with the sum of the frames' kernels embeds it.
func (t *Tower) Build(root nn.Scope) {
	g, s := root.Graph, root.At("visual")
	m, p := int64(t.Images.Merge), int64(t.Images.Patch)
	n := ir.Named("N")
	rows, ok := n.Mul(ir.Static(m * m))
	if !ok {
		panic("BUG: qwen3vl: N*m*m is no size")
	}
	x := op.Input(g, t.Images.Patches, ir.Type{DType: dtype.F32, Shape: ir.Shape{rows, ir.Static(3 * p * p)}})
	at := t.places(g, op.Input(g, t.Images.Grid, ir.TypeOf(dtype.I32, 2)), rows)
	e := s.At(proj)
	w := op.Reshape(op.ReduceSum(e.F32("weight", t.shape...), false, 2), ir.ShapeOf(t.width, 3*p*p))
	x = hir.Linear(x, w, e.F32("bias", t.width), "").Named(e.Path())
	x = op.Add(x, t.learned(s.At("pos_embed"), at)).Named("embeddings")
	x = op.Reshape(x, ir.Shape{ir.Static(1), rows, ir.Static(t.width)})
	cos, sin := t.angles(g, at, rows)
	var stacked []*ir.Node
	for i := range t.layers {
		x = t.block(s.At("blocks", i), x, cos, sin)
		if k := slices.Index(t.stack, i); k >= 0 {
			stacked = append(stacked, t.merge(s.At("deepstack_merger_list", k), x, n, true))
		}
	}
	features := t.merge(s.At("merger"), x, n, false)
	if len(stacked) > 0 {
		features = op.Concat(1, append([]*ir.Node{features}, stacked...)...)
	}
	g.Return(t.Images.Features, features)
}

// A place has the row and column of each patch, i32[P], and the sides of the image in patches, i32[].
type places struct{ at, side [2]*ir.Node }

// places returns where the patches of an image are: they are sorted by block, and line by line in a block. Rows and
// columns outside of the image, which a wrong grid gives, become those of its edge.
func (t *Tower) places(g *ir.Graph, grid *ir.Node, rows ir.Dim) (p places) {
	number := func(n int) *ir.Node { return op.Const(g, float64(n), ir.TypeOf(dtype.I32)) }
	m := t.Images.Merge
	for i := range p.side {
		p.side[i] = op.Max(op.Reshape(op.Narrow(grid, 0, i, 1), ir.ShapeOf()), number(m))
	}
	index := op.Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{rows}})
	block, inside := op.Div(index, number(m*m)), op.Mod(index, number(m*m))
	wide := op.Div(p.side[1], number(m))
	for i, k := range [2][2]*ir.Node{{op.Div(block, wide), op.Div(inside, number(m))},
		{op.Mod(block, wide), op.Mod(inside, number(m))}} {
		p.at[i] = op.Min(op.Add(op.Mul(k[0], number(m)), k[1]), op.Sub(p.side[i], number(1)))
	}
	return p
}

// learned returns the learned positions of patches [P,width], interpolated between those of the square.
func (t *Tower) learned(s nn.Scope, p places) *ir.Node {
	g, table := s.Graph, s.F32("weight", t.side*t.side, t.width)
	number := func(n int64, d dtype.DType) *ir.Node { return op.Const(g, float64(n), ir.TypeOf(d)) }
	var tap, weight [2][2]*ir.Node // by axis: before and after
	for i, at := range p.at {
		steps := op.Max(op.Sub(p.side[i], number(1, dtype.I32)), number(1, dtype.I32))
		x := op.Div(op.Mul(op.Cast(at, dtype.F32), number(t.side-1, dtype.F32)), op.Cast(steps, dtype.F32))
		low := op.Floor(x)
		weight[i][1] = op.Sub(x, low)
		weight[i][0] = op.Sub(number(1, dtype.F32), weight[i][1])
		last := number(t.side-1, dtype.I32)
		tap[i][0] = op.Min(op.Cast(low, dtype.I32), last)
		tap[i][1] = op.Min(op.Add(tap[i][0], number(1, dtype.I32)), last)
	}
	var sum *ir.Node
	for i := range 4 {
		down, across := i/2, i%2
		index := op.Add(op.Mul(tap[0][down], number(t.side, dtype.I32)), tap[1][across])
		w := op.Mul(weight[0][down], weight[1][across])
		w = op.Reshape(w, ir.Shape{w.Type.Shape[0], ir.Static(1)})
		if x := op.Mul(op.Gather(table, index, 0), w); sum == nil {
			sum = x
		} else {
			sum = op.Add(sum, x)
		}
	}
	return sum.Named(s.Path())
}

// angles returns the cosines and sines [P,D/2] of the angles by which the pairs of a head of D elements turn: the first
// half of the pairs by the row, the others by the column.
func (t *Tower) angles(g *ir.Graph, p places, rows ir.Dim) (cos, sin *ir.Node) {
	pairs := t.width / t.heads / 2
	each := op.Iota(g, 0, ir.TypeOf(dtype.F64, pairs/2))
	number := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F64)) }
	f := op.Cast(op.Exp(op.Mul(each, number(-2/float64(pairs)*math.Log(t.theta)))), dtype.F32)
	none := op.Const(g, 0, ir.TypeOf(dtype.F32, pairs/2))
	place := func(i int) *ir.Node { return op.Reshape(p.at[i], ir.Shape{ir.Static(1), rows}) }
	return nn.Angles(g, ir.Static(1), rows, pairs, []nn.Turn{{Frequencies: op.Concat(0, f, none), Position: place(0)},
		{Frequencies: op.Concat(0, none, f), Position: place(1)}})
}

// block applies a layer to x [1,P,width].
func (t *Tower) block(s nn.Scope, x, cos, sin *ir.Node) *ir.Node {
	a := s.At("attn")
	h := s.At("norm1").LayerNorm(x, blockEps)
	qkv := a.At("qkv").Linear(h, 3*t.width, "")
	turned := func(k int64, name string) *ir.Node {
		return op.Rope(qkv, op.RopeOperands{Cos: cos, Sin: sin}, op.RopeAttrs{HeadDim: int(t.width / t.heads),
			Layout: op.BSE, Heads: int(t.heads), Start: int(k * t.width)}).Named(a.Path() + name)
	}
	v := op.Narrow(qkv, 2, int(2*t.width), int(t.width))
	o := op.Attention(turned(0, ".q_rope"), turned(1, ".k_rope"), v, op.AttentionOperands{},
		op.AttentionAttrs{Heads: int(t.heads), Layout: op.BSE}).Named(a.Path())
	x = op.Add(x, a.At("proj").Linear(o, t.width, "")).Named(s.Path() + ".attn_residual")
	h = s.At("norm2").LayerNorm(x, blockEps)
	return op.Add(x, s.At("mlp").MLP(h, "linear_fc1", "linear_fc2", t.hidden, t.width, t.act)).Named(s.Path())
}

// merge maps x [1,P,width] to [N,out]: it joins the patches of each block. joined tells that the norm is of a block and
// not of a patch.
func (t *Tower) merge(s nn.Scope, x *ir.Node, n ir.Dim, joined bool) *ir.Node {
	wide := t.width * int64(t.Images.Merge*t.Images.Merge)
	block := ir.Shape{n, ir.Static(wide)}
	if joined {
		x = s.At("norm").LayerNorm(op.Reshape(x, block), blockEps)
	} else {
		x = op.Reshape(s.At("norm").LayerNorm(x, blockEps), block)
	}
	return s.MLP(x, "linear_fc1", "linear_fc2", wide, t.out, "gelu")
}
