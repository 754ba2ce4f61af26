package sam2

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
)

// shapes is a checkpoint of which only the types of the tensors are known.
type shapes map[string]ir.Type

func (s shapes) Names() []string { return slices.Sorted(maps.Keys(s)) }

func (s shapes) Type(name string) (ir.Type, bool) {
	parts := arch.Parts(name)
	t, ok := s[parts[0]]
	if len(parts) > 1 && ok {
		shape := slices.Clone(t.Shape)
		shape[0] = ir.Static(shape[0].Const * int64(len(parts)))
		t.Shape = shape
	}
	return t, ok
}

// add adds a tensor.
func (s shapes) add(name string, shape ...int64) { s[name] = ir.TypeOf(dtype.F32, shape...) }

// layer adds a weight and a bias with as many elements as the weight has rows.
func (s shapes) layer(name string, shape ...int64) {
	s.add(name+".weight", shape...)
	s.add(name+".bias", shape[0])
}

// mlp adds an MLP of layers of the given widths.
func (s shapes) mlp(name string, widths ...int64) {
	for i := range len(widths) - 1 {
		s.layer(fmt.Sprintf("%s.layers.%d", name, i), widths[i+1], widths[i])
	}
}

// A released describes a published model.
type released struct {
	width      int64
	stages     []int
	background int64
	config     string // the part of the backbone's configuration that differs from Transformers' defaults
}

// release returns the tensors of a published model in the original release, without the memory.
func release(r released) shapes {
	s := shapes{}
	trunk, d := "image_encoder.trunk.", int64(256)
	s.layer(trunk+"patch_embed.proj", r.width, 3, 7, 7)
	s.add(trunk+"pos_embed", 1, r.width, r.background, r.background)
	s.add(trunk+"pos_embed_window", 1, r.width, 8, 8)
	in, n := r.width, 0
	for i, blocks := range r.stages {
		width := r.width << i
		s.layer(fmt.Sprintf("image_encoder.neck.convs.%d.conv", len(r.stages)-1-i), d, width, 1, 1)
		for range blocks {
			b := fmt.Sprintf("%sblocks.%d.", trunk, n)
			s.layer(b+"norm1", in)
			s.layer(b+"attn.qkv", 3*width, in)
			s.layer(b+"attn.proj", width, width)
			s.layer(b+"norm2", width)
			s.mlp(b+"mlp", width, 4*width, width)
			if in != width {
				s.layer(b+"proj", width, in)
			}
			in, n = width, n+1
		}
	}
	s.add("no_mem_embed", 1, 1, d)
	p := "sam_prompt_encoder."
	s.add(p+"pe_layer.positional_encoding_gaussian_matrix", 2, d/2)
	s.add(p+"not_a_point_embed.weight", 1, d)
	s.add(p+"no_mask_embed.weight", 1, d)
	for i := range 4 {
		s.add(fmt.Sprintf("%spoint_embeddings.%d.weight", p, i), 1, d)
	}
	s.layer(p+"mask_downscaling.0", 4, 1, 2, 2)
	s.layer(p+"mask_downscaling.1", 4)
	s.layer(p+"mask_downscaling.3", 16, 4, 2, 2)
	s.layer(p+"mask_downscaling.4", 16)
	s.layer(p+"mask_downscaling.6", d, 16, 1, 1)
	s.decoder("sam_mask_decoder.", d)
	return s
}

// decoder adds the tensors of the mask decoder.
func (s shapes) decoder(m string, d int64) {
	s.add(m+"obj_score_token.weight", 1, d)
	s.add(m+"iou_token.weight", 1, d)
	s.add(m+"mask_tokens.weight", 4, d)
	attention := func(name string, inner int64) {
		for _, x := range []string{"q", "k", "v"} {
			s.layer(m+"transformer."+name+"."+x+"_proj", inner, d)
		}
		s.layer(m+"transformer."+name+".out_proj", d, inner)
	}
	for i := range 2 {
		l := fmt.Sprintf("layers.%d.", i)
		attention(l+"self_attn", d)
		attention(l+"cross_attn_token_to_image", d/2)
		attention(l+"cross_attn_image_to_token", d/2)
		for k := range 4 {
			s.layer(fmt.Sprintf("%stransformer.%snorm%d", m, l, k+1), d)
		}
		s.mlp(m+"transformer."+l+"mlp", d, 2048, d)
	}
	attention("final_attn_token_to_image", d/2)
	s.layer(m+"transformer.norm_final_attn", d)
	s.add(m+"output_upscaling.0.weight", d, d/4, 2, 2)
	s.add(m+"output_upscaling.0.bias", d/4)
	s.layer(m+"output_upscaling.1", d/4)
	s.add(m+"output_upscaling.3.weight", d/4, d/8, 2, 2)
	s.add(m+"output_upscaling.3.bias", d/8)
	s.layer(m+"conv_s0", d/8, d, 1, 1)
	s.layer(m+"conv_s1", d/4, d, 1, 1)
	for i := range 4 {
		s.mlp(fmt.Sprintf("%soutput_hypernetworks_mlps.%d", m, i), d, d, d, d/8)
	}
	s.mlp(m+"iou_prediction_head", d, d, d, 4)
	s.mlp(m+"pred_obj_score_head", d, d, d, 1)
}

// TestSizes builds the published sizes: from the tensors alone, and from a config.json that does not repeat the
// defaults of Transformers.
func TestSizes(t *testing.T) {
	for name, r := range map[string]released{
		"tiny": {96, []int{1, 2, 7, 2}, 7, `{}`},
		"small": {96, []int{1, 2, 11, 2}, 7,
			`{"blocks_per_stage":[1,2,11,2],"global_attention_blocks":[7,10,13]}`},
		"base plus": {112, []int{2, 3, 16, 3}, 14, `{"num_attention_heads_per_stage":[2,4,8,16],
			"global_attention_blocks":[12,16,20],"window_positional_embedding_background_size":[14,14]}`},
		"large": {144, []int{2, 6, 36, 4}, 7, `{"num_attention_heads_per_stage":[2,4,8,16],
			"window_size_per_stage":[8,4,16,8],"global_attention_blocks":[23,33,43],"image_size":1024}`},
	} {
		s := release(r)
		var cfg arch.Config
		m, err := build(s, cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		path := filepath.Join(t.TempDir(), "config.json")
		text := `{"model_type":"sam2_video","vision_config":{"backbone_config":` + r.config + `}}`
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Load(path); err != nil {
			t.Fatal(err)
		}
		other, err := build(s, cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range []string{"[1,256,64,64] [1,256,256,32] [1,128,128,64]", "[1,4,256,256] [1,4] [1,1]",
			"[P,4,256,256] [P,4] [P,1]"} {
			got := ""
			for k, o := range m.Methods[i].Outputs {
				if k > 0 {
					got += " "
				}
				got += o.Node.Type.Shape.String()
			}
			if got != want {
				t.Errorf("%s: %s gives %s; want %s", name, m.Methods[i].Name, got, want)
			}
			if m.Methods[i].String() != other.Methods[i].String() {
				t.Errorf("%s: %s differs between the tensors alone and a configuration", name, m.Methods[i].Name)
			}
		}
		if len(m.Skipped) != 0 {
			t.Errorf("%s: unused are %v", name, m.Skipped)
		}
	}
}
