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
			}})
}
