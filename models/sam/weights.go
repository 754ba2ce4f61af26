package sam

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/internal/lazyregexp"
	"github.com/rlx-go/rlx/models/promptable"
)

// transformersNames rewrites our names, which are those of the original release, to those of the Transformers library.
// The rules apply in order.
var transformersNames = []struct {
	re *lazyregexp.Regexp
	to string
}{
	{lazyregexp.New(`^image_encoder\.blocks\.(\d+)\.norm(\d)\.`), "vision_encoder.layers.$1.layer_norm$2."},
	{lazyregexp.New(`^image_encoder\.blocks\.`), "vision_encoder.layers."},
	{lazyregexp.New(`^image_encoder\.patch_embed\.proj\.`), "vision_encoder.patch_embed.projection."},
	{lazyregexp.New(`^image_encoder\.neck\.0\.`), "vision_encoder.neck.conv1."},
	{lazyregexp.New(`^image_encoder\.neck\.1\.`), "vision_encoder.neck.layer_norm1."},
	{lazyregexp.New(`^image_encoder\.neck\.2\.`), "vision_encoder.neck.conv2."},
	{lazyregexp.New(`^image_encoder\.neck\.3\.`), "vision_encoder.neck.layer_norm2."},
	{lazyregexp.New(`^image_encoder\.`), "vision_encoder."},

	{lazyregexp.New(`^prompt_encoder\.pe_layer\.positional_encoding_gaussian_matrix$`),
		"prompt_encoder.shared_embedding.positional_embedding"},
	{lazyregexp.New(`^prompt_encoder\.point_embeddings\.`), "prompt_encoder.point_embed."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.0\.`), "prompt_encoder.mask_embed.conv1."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.1\.`), "prompt_encoder.mask_embed.layer_norm1."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.3\.`), "prompt_encoder.mask_embed.conv2."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.4\.`), "prompt_encoder.mask_embed.layer_norm2."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.6\.`), "prompt_encoder.mask_embed.conv3."},

	{lazyregexp.New(`^(mask_decoder\.transformer\.layers\.\d+\.)norm(\d)\.`), "${1}layer_norm$2."},
	{lazyregexp.New(`^mask_decoder\.transformer\.norm_final_attn\.`),
		"mask_decoder.transformer.layer_norm_final_attn."},
	{lazyregexp.New(`^mask_decoder\.output_upscaling\.0\.`), "mask_decoder.upscale_conv1."},
	{lazyregexp.New(`^mask_decoder\.output_upscaling\.1\.`), "mask_decoder.upscale_layer_norm."},
	{lazyregexp.New(`^mask_decoder\.output_upscaling\.3\.`), "mask_decoder.upscale_conv2."},
}

// mlpLayer matches the layers of the decoder's MLPs, which Transformers calls proj_in, layers.0 and so on, and
// proj_out.
var mlpLayer = lazyregexp.New(
	`^(mask_decoder\.(output_hypernetworks_mlps\.\d+|iou_prediction_head)\.)layers\.(\d+)\.(.*)$`)

// sharedPositions is a second copy of the matrix of the positional encoding in Transformers. Files may have either.
const sharedPositions = "shared_image_embedding.positional_embedding"

// transformersName returns a function that maps one of our names to those in Transformers. iouLayers is the number of
// layers of the IoU head, the last of which has its own name.
func transformersName(iouLayers int64) func(name string) []string {
	return func(name string) []string {
		if m := mlpLayer.FindStringSubmatch(name); m != nil {
			layers, i := int64(promptable.HyperLayers), m[3]
			if m[2] == "iou_prediction_head" {
				layers = iouLayers
			}
			n, _ := strconv.ParseInt(i, 10, 64)
			switch layer := fmt.Sprintf("layers.%d", n-1); {
			case n == 0:
				return []string{m[1] + "proj_in." + m[4]}
			case n == layers-1:
				return []string{m[1] + "proj_out." + m[4]}
			default:
				return []string{m[1] + layer + "." + m[4]}
			}
		}
		for _, r := range transformersNames {
			if r.re.MatchString(name) {
				name = r.re.ReplaceAllString(name, r.to)
				break
			}
		}
		if strings.HasSuffix(name, "shared_embedding.positional_embedding") {
			return []string{name, sharedPositions}
		}
		return []string{name}
	}
}

func originalName(name string) []string { return []string{name} }
