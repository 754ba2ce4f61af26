package sam

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/promptable"
)

// decode maps embeddings [1,C,g,g], points [1,N,2] and labels [1,N] to low_res_masks [1,M,4g,4g] and iou [1,M]. If the
// checkpoint takes mask prompts, there is also an input mask [1,1,4g,4g].
func decode(c config, root nn.Scope) {
	returnMasks(root.Graph)(decodePrompts(c, root, ir.Static(1), ir.Static(1), ir.Named("N"), c.maskChannels[0] > 0))
}

// decodeBatch is like decode for prompts [P,N,2] in one image, without mask prompts. It returns masks [P,M,4g,4g].
func decodeBatch(c config, root nn.Scope) {
	returnMasks(root.Graph)(decodePrompts(c, root, ir.Static(1), ir.Named("P"), ir.Named("N"), false))
}

func returnMasks(g *ir.Graph) func(masks, iou *ir.Node) {
	return func(masks, iou *ir.Node) {
		g.Return("low_res_masks", masks)
		g.Return("iou", iou)
	}
}

// decodePrompts returns masks [P,M,4g,4g] and iou [P,M] for P prompts of n points, in one image or in as many.
func decodePrompts(c config, root nn.Scope, images, prompts, n ir.Dim, masked bool) (masks, iou *ir.Node) {
	d := promptable.Decoder{ImageSize: c.imageSize, Grid: c.grid, Embed: c.embed, Inner: c.embed / 2, Masks: c.masks,
		MaskChannels: c.maskChannels, MaskAct: "gelu", MaskEps: promptable.NormEps, Layers: c.decoderLayers,
		Heads:     c.decoderHeads,
		IoULayers: c.iouLayers, IoUHidden: c.iouHidden, Eps: c.decoderEps,
		Kinds: func(s nn.Scope) *ir.Node {
			return op.Concat(0, s.F32("not_a_point_embed.weight", 1, c.embed),
				s.F32("point_embeddings.0.weight", 1, c.embed), s.F32("point_embeddings.1.weight", 1, c.embed),
				s.F32("point_embeddings.2.weight", 1, c.embed), s.F32("point_embeddings.3.weight", 1, c.embed))
		},
		MLP: func(s nn.Scope, x *ir.Node) *ir.Node {
			return s.MLP(x, "lin1", "lin2", c.decoderHidden, c.embed, c.decoderAct)
		}}
	r := d.Decode(root, images, prompts, n, masked)
	return r.Masks, r.IoU
}
