package sam2

import (
	"github.com/rlx-go/rlx/internal/lazyregexp"
	"github.com/rlx-go/rlx/models/promptable"
)

// imageNames rewrites our names of the image encoder, which are those of the original release, to those of the
// Transformers library. The first rule that matches applies.
var imageNames = []promptable.Rule{
	{Re: lazyregexp.New(`^image_encoder\.trunk\.patch_embed\.proj\.`),
		To: "vision_encoder.backbone.patch_embed.projection."},
	{Re: lazyregexp.New(`^image_encoder\.trunk\.blocks\.(\d+)\.norm(\d)\.`),
		To: "vision_encoder.backbone.blocks.$1.layer_norm$2."},
	{Re: lazyregexp.New(`^image_encoder\.trunk\.`), To: "vision_encoder.backbone."},
	{Re: lazyregexp.New(`^image_encoder\.neck\.convs\.(\d+)\.conv\.`), To: "vision_encoder.neck.convs.$1."},
}

// transformersName returns a function that maps one of our names to those in Transformers. depth gives the number of
// layers of an MLP by our name.
func transformersName(depth func(mlp string) int64) func(name string) []string {
	return promptable.TransformersName(depth, imageNames...)
}
