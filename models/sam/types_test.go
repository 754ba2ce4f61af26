package sam

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/modeltest"
)

// TestWrongTypes gives every key of the configuration values of wrong types and out of range.
func TestWrongTypes(t *testing.T) {
	const size, number, flag, word = modeltest.Size, modeltest.Number, modeltest.Bool, modeltest.Word
	heads := map[string]string{keyDecoderHeads: "2"}
	modeltest.CheckTypes(t, keys,
		modeltest.TypedConfig{Name: "sam", Stored: edit(t, func(string) bool { return true }), Set: heads,
			Keys: map[string]modeltest.Kind{
				keyBatch: size, keyDecoderHeads: size, keyDecoderEps: number, keyDecoderAct: word,
				keyEncoderEps: number,
				keyEncoderAct: word, keyAbsPos: flag, keyRelPos: flag, keyRelPosH: flag, keyRelPosW: flag,
				keyQKVBias:                  flag,
				"vision_config.hidden_size": size, "vision_config.num_hidden_layers": size, keyEncoderHeads: size,
				keyEncoderImage: size, "vision_config.patch_size": size,
				"vision_config.output_channels": size, keyImageSize: size, keyGrid: size,
				"prompt_encoder_config.hidden_size": size, "mask_decoder_config.hidden_size": size,
				"mask_decoder_config.num_hidden_layers": size, "mask_decoder_config.mlp_dim": size,
				"mask_decoder_config.iou_head_depth":      size,
				"mask_decoder_config.iou_head_hidden_dim": size, "prompt_encoder_config.mask_input_channels": size,
			}},
		modeltest.TypedConfig{Name: "without tables",
			Stored: edit(t, func(n string) bool { return !strings.Contains(n, "rel_pos") }),
			Set: map[string]string{keyDecoderHeads: "2", keyRelPos: "false", keyEncoderHeads: "2", keyWindow: "3",
				keyGlobal: "[1]"},
			Keys: map[string]modeltest.Kind{keyEncoderHeads: size, keyWindow: modeltest.Count,
				keyGlobal: modeltest.Ints}},
		modeltest.TypedConfig{Name: "without absolute positions", Stored: edit(t, func(string) bool { return true }),
			Set:  map[string]string{keyDecoderHeads: "2", keyAbsPos: "false", keyEncoderImage: "128"},
			Keys: map[string]modeltest.Kind{keyEncoderImage: size}},
		modeltest.TypedConfig{Name: "decoder",
			Stored: edit(t, func(n string) bool { return !strings.HasPrefix(n, "image_encoder.") }), Set: heads,
			Keys: map[string]modeltest.Kind{keyImageSize: size, keyGrid: size}})
}
