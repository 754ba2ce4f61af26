package sam3

import (
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/modeltest"
)

// TestWrongTypes gives every key of the configuration values of wrong types and out of range.
func TestWrongTypes(t *testing.T) {
	modeltest.CheckTypes(
		t, keys, modeltest.TypedConfig{Name: "sam3", Stored: modeltest.Open(t, modeltest.Manifest(t, tiny), dtype.F32),
			Config: tiny + "config.json",
			Keys: map[string]modeltest.Kind{
				keyImage: modeltest.Size, keyPatch: modeltest.Size, keyHeads: modeltest.Size, keyWindow: modeltest.Size,
				keyGlobal: modeltest.Ints,
				keyTheta:  modeltest.Positive, keyThetas: modeltest.Positive, keyEps: modeltest.Number,
				keyAct: modeltest.Word, keyScales: modeltest.Numbers,
				keySAM2: modeltest.Bool, backbone + "hidden_size": modeltest.Size,
				"vision_config.fpn_hidden_size": modeltest.Size,
				backbone + "num_hidden_layers":  modeltest.Size, backbone + "intermediate_size": modeltest.Size,
				backbone + "pretrain_image_size": modeltest.Size,
			}}, modeltest.TypedConfig{Name: "sam3 with detector",
			Stored: modeltest.Open(t, modeltest.Manifest(t, whole), dtype.F32), Config: whole + "config.json",
			Keys: map[string]modeltest.Kind{
				textPart + "num_attention_heads": modeltest.Size, textPart + "hidden_act": modeltest.Word,
				keyTextEps: modeltest.Number, geometryPart + "num_attention_heads": modeltest.Size,
				geometryPart + "hidden_act": modeltest.Word, encoderPart + "num_attention_heads": modeltest.Size,
				encoderPart + "hidden_act": modeltest.Word, decoderPart + "num_attention_heads": modeltest.Size,
				decoderPart + "hidden_act": modeltest.Word, maskPart + "num_attention_heads": modeltest.Size,
				decoderPart + "num_queries": modeltest.Size, geometryPart + "roi_size": modeltest.Size,
			}}, modeltest.TypedConfig{Name: "sam3 with tracker",
			Stored: modeltest.Open(t, clicksManifest(t), dtype.F32), Config: clicks3 + "config.json",
			Keys: map[string]modeltest.Kind{
				trackerPart + "prompt_encoder_config.hidden_act":                       modeltest.Word,
				trackerPart + "prompt_encoder_config.layer_norm_eps":                   modeltest.Number,
				trackerPart + "mask_decoder_config.num_attention_heads":                modeltest.Size,
				trackerPart + "mask_decoder_config.dynamic_multimask_via_stability":    modeltest.Bool,
				trackerPart + "mask_decoder_config.dynamic_multimask_stability_delta":  modeltest.Number,
				trackerPart + "mask_decoder_config.dynamic_multimask_stability_thresh": modeltest.Number,
			}})
}
