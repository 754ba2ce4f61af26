package sam

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
)

// listed is a checkpoint of which only the names of the tensors are known.
type listed []string

func (l listed) Names() []string             { return l }
func (l listed) Type(string) (ir.Type, bool) { return ir.Type{}, false }

// TestSAM2 checks that a checkpoint of SAM 2 is called so, with the names of either release.
func TestSAM2(t *testing.T) {
	for _, c := range []listed{
		{"image_encoder.trunk.pos_embed", "image_encoder.trunk.pos_embed_window", "memory_attention.layers.0.norm1.bias",
			"sam_mask_decoder.iou_token.weight"},
		{"mask_decoder.iou_token.weight", "vision_encoder.backbone.pos_embed_window"},
	} {
		_, err := arch.Find("auto", c, "x.safetensors", "")
		if !errors.Is(err, arch.ErrUnknown) || !strings.HasPrefix(err.Error(),
			"x.safetensors: is a checkpoint of SAM 2, which this version does not build; of this family SAM v1 is built") {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := arch.Find("auto", listed{"trunk.pos_embed_window"}, "x", ""); !errors.Is(err, arch.ErrUnknown) ||
		strings.Contains(err.Error(), "SAM 2") {
		t.Errorf("an encoder alone: %v", err)
	}
}
