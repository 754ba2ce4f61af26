package llm

import (
	"maps"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/modeltest"
)

// TestWrongTypes gives every key of the configuration values of wrong types and out of range.
func TestWrongTypes(t *testing.T) {
	const (
		size, count, positive, number = modeltest.Size, modeltest.Count, modeltest.Positive, modeltest.Number
		anyNumber, flag, word, ints   = modeltest.Any, modeltest.Bool, modeltest.Word, modeltest.Ints
	)
	always := map[string]modeltest.Kind{
		keyType: word, keyHeads: size, keyHeadDim: size, keyEps: number, keyTied: flag, keyMaxPosition: size,
		keyContext: size, keyBatch: size, keyCache: size, keyWindow: count, keyRotated: size,
		keyLayerTypes: modeltest.Texts, "vocab_size": size, "hidden_size": size, "num_hidden_layers": size,
		"num_key_value_heads": size, "attention_bias": flag,
		"mlp_bias": flag, keyTheta: positive, keyPartial: positive, "eos_token_id": ints,
	}
	// rope returns the keys of rotary embedding in an object for a kind of scaling.
	rope := func(object, kind string) map[string]modeltest.Kind {
		keys := map[string]modeltest.Kind{keyTheta: positive, keyPartial: positive, "rope_type": word,
			"mrope_section": ints, "mrope_interleaved": flag,
			"original_max_position_embeddings": positive}
		switch kind {
		case "old":
			delete(keys, "rope_type")
			keys["type"] = word
		case "llama3":
			maps.Copy(
				keys, map[string]modeltest.Kind{"factor": positive, "low_freq_factor": positive,
					"high_freq_factor": positive})
		case "yarn":
			maps.Copy(
				keys, map[string]modeltest.Kind{"factor": positive, "beta_fast": positive, "beta_slow": positive,
					"truncate": flag, "attention_factor": positive,
					"mscale": anyNumber, "mscale_all_dim": anyNumber})
		}
		out := map[string]modeltest.Kind{}
		for key, k := range keys {
			out[object+"."+key] = k
		}
		return out
	}
	open := func(name, golden string, set map[string]string, keys ...map[string]modeltest.Kind) modeltest.TypedConfig {
		c := modeltest.TypedConfig{Name: name,
			Stored: modeltest.Open(t, modeltest.Manifest(t, goldens+golden), dtype.F32),
			Config: goldens + golden + "/config.json", Set: set,
			Keys: map[string]modeltest.Kind{}}
		for _, k := range keys {
			maps.Copy(c.Keys, k)
		}
		return c
	}
	dense := map[string]modeltest.Kind{keyAct: word, "intermediate_size": size}
	mixture := map[string]modeltest.Kind{keyUsed: size, keyNormalise: flag, keySparseStep: size, keyDense: ints,
		"num_experts": size, "num_local_experts": size,
		"moe_intermediate_size": size, "shared_expert_intermediate_size": size}
	delta := map[string]modeltest.Kind{keyKeyHeads: size, keyGate: flag, keyInterval: size, keyMTP: count,
		"linear_conv_kernel_dim": size, "linear_key_head_dim": size,
		"linear_value_head_dim": size, "linear_num_value_heads": size}
	windows := map[string]modeltest.Kind{keyUseWindow: flag, keyMaxWindow: count}
	gemma := map[string]modeltest.Kind{keyGELU: word, keyScale: size, keySoftcap: number, keyLogitCap: number}
	pattern := map[string]modeltest.Kind{keyPattern: size, "_" + keyPattern: size}
	local := map[string]modeltest.Kind{keyParameters + ".sliding_attention." + keyTheta: positive,
		keyParameters + ".sliding_attention.rope_type": word}
	images := map[string]modeltest.Kind{keyImage: count, keyVideo: count, "max_pixels": size,
		"vision_config.num_heads": size, "vision_config.spatial_merge_size": size,
		"vision_config.deepstack_visual_indexes": ints, "vision_config.hidden_act": word,
		"vision_config.rope_parameters.rope_type": word, "vision_config.rope_parameters.rope_theta": positive}
	list := []modeltest.TypedConfig{
		open("llama", "llama_tiny", nil, always, dense, rope(keyParameters, "")),
		open("old scaling", "llama_tiny", map[string]string{keyParameters: "", keyScaling + ".type": `"default"`},
			rope(keyScaling, "old")),
		open("qwen2", "qwen2_tiny", nil, always, dense, windows),
		open("qwen3_next", "qwen3_next_tiny", nil, mixture, delta),
		open("gemma2", "gemma2_tiny", nil, gemma, pattern),
		open("gemma3", "gemma3_tiny", nil, gemma, local, rope(keyParameters+".full_attention", "")),
		open("old gemma3", "gemma3_tiny", map[string]string{keyParameters: ""}, pattern,
			map[string]modeltest.Kind{keyLocalTheta: positive}),
		open("images", "qwen3vl_tiny", nil, images),
	}
	for _, object := range []string{keyScaling, keyParameters, keyParameters + ".full_attention"} {
		for _, kind := range []string{"llama3", "yarn"} {
			golden, set := "llama_tiny",
				map[string]string{keyParameters: "", object + ".rope_type": `"` + kind + `"`, object + ".factor": "4.0"}
			switch object {
			case keyParameters:
				delete(set, keyParameters)
			case keyParameters + ".full_attention":
				delete(set, keyParameters)
				golden = "gemma3_tiny"
			}
			list = append(list, open(object+" "+kind, golden, set, rope(object, kind)))
		}
	}
	// beside rope_type
	list[0].Keys[keyParameters+".type"], list[5].Keys[keyParameters+".full_attention.type"] = modeltest.Text,
		modeltest.Text
	modeltest.CheckTypes(t, keys, list...)
}
