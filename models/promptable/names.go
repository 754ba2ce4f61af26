package promptable

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/internal/lazyregexp"
	"github.com/rlx-go/rlx/models/arch"
)

// Our names of the tensors of a SAM2 are those of the original release, without the sam_ of its prompt encoder and mask
// decoder, and with one table for the points.

// points is our name of the embeddings of points and corners, which the original release has as four tensors.
const points = "prompt_encoder.point_embeddings.weight"

// OriginalName returns the names of one of our tensors in the original release.
func OriginalName(name string) []string {
	if name == points {
		var parts []string
		for i := range 4 {
			parts = append(parts, fmt.Sprintf("sam_prompt_encoder.point_embeddings.%d.weight", i))
		}
		return []string{arch.Join(parts...)}
	}
	for _, part := range []string{"prompt_encoder.", "mask_decoder."} {
		if strings.HasPrefix(name, part) {
			return []string{"sam_" + name}
		}
	}
	return []string{name}
}

// A Rule rewrites names that match Re.
type Rule struct {
	Re *lazyregexp.Regexp
	To string
}

// transformersNames rewrites our names to those of the Transformers library. The first rule that matches applies.
var transformersNames = []Rule{
	{lazyregexp.New(`^no_mem_embed$`), "no_memory_embedding"},
	{lazyregexp.New(`^prompt_encoder\.pe_layer\.positional_encoding_gaussian_matrix$`),
		"shared_image_embedding.positional_embedding"},
	{lazyregexp.New(`^prompt_encoder\.point_embeddings\.`), "prompt_encoder.point_embed."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.0\.`), "prompt_encoder.mask_embed.conv1."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.1\.`), "prompt_encoder.mask_embed.layer_norm1."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.3\.`), "prompt_encoder.mask_embed.conv2."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.4\.`), "prompt_encoder.mask_embed.layer_norm2."},
	{lazyregexp.New(`^prompt_encoder\.mask_downscaling\.6\.`), "prompt_encoder.mask_embed.conv3."},
	{lazyregexp.New(`^(mask_decoder\.transformer\.layers\.\d+\.)norm(\d)\.`), "${1}layer_norm$2."},
	{lazyregexp.New(`^(mask_decoder\.transformer\..*)\.out_proj\.`), "$1.o_proj."},
	{lazyregexp.New(`^mask_decoder\.transformer\.norm_final_attn\.`),
		"mask_decoder.transformer.layer_norm_final_attn."},
	{lazyregexp.New(`^mask_decoder\.output_upscaling\.0\.`), "mask_decoder.upscale_conv1."},
	{lazyregexp.New(`^mask_decoder\.output_upscaling\.1\.`), "mask_decoder.upscale_layer_norm."},
	{lazyregexp.New(`^mask_decoder\.output_upscaling\.3\.`), "mask_decoder.upscale_conv2."},
}

// mlpLayer matches the layers of MLPs, which Transformers calls proj_in, layers.0 and so on, and proj_out.
var mlpLayer = lazyregexp.New(`^(.*\.(?:mlp|output_hypernetworks_mlps\.\d+|(?:iou_prediction|pred_obj_score)_head)\.)` +
	`layers\.(\d+)\.(weight|bias)$`)

// TransformersName returns a function that maps one of our names to those in Transformers. depth gives the number of
// layers of an MLP by our name. The rules others are for other parts of a model.
func TransformersName(depth func(mlp string) int64, others ...Rule) func(name string) []string {
	rules := append(others[:len(others):len(others)], transformersNames...)
	return func(name string) []string {
		layer, end := "", ""
		if m := mlpLayer.FindStringSubmatch(name); m != nil {
			i, err := strconv.Atoi(m[2])
			layer = fmt.Sprintf("layers.%d.", i-1)
			switch {
			case err == nil && i == 0:
				layer = "proj_in."
			case err == nil && int64(i) == depth(m[1])-1:
				layer = "proj_out."
			}
			name, end = m[1], m[3]
		}
		for _, r := range rules {
			if r.Re.MatchString(name) {
				name = r.Re.ReplaceAllString(name, r.To)
				break
			}
		}
		name += layer + end
		switch {
		case name == "shared_image_embedding.positional_embedding":
			return []string{name, "prompt_encoder.shared_embedding.positional_embedding"}
		case strings.Contains(name, ".o_proj."):
			return []string{name, strings.Replace(name, ".o_proj.", ".out_proj.", 1)}
		}
		return []string{name}
	}
}

// Numbered returns how many layers with numbers a checkpoint has at mlp, by its names.
func Numbered(c arch.Checkpoint, mlp string) (n int64) {
	for {
		if _, ok := c.Type(fmt.Sprintf("%slayers.%d.weight", mlp, n)); !ok {
			return n
		}
		n++
	}
}

// VideoParts lists the tensors of whole checkpoints that only video needs, by the beginning of their names in either
// release.
var VideoParts = []string{
	"memory_attention.", "memory_encoder.", "memory_temporal_positional_encoding", "maskmem_tpos_enc",
	"mask_downsample.", "object_pointer_proj.", "obj_ptr_proj.", "obj_ptr_tpos_proj.", "no_obj_ptr",
	"no_object_pointer", "no_obj_embed_spatial", "no_mem_pos_enc", "no_memory_positional_encoding",
	"occlusion_spatial_embedding_parameter", "temporal_positional_encoding_projection_layer.",
}

// VideoReason says why VideoParts are not used.
const VideoReason = "of the memory of video, which is not built: only images are"
