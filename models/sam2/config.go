package sam2

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/promptable"
)

// config holds the sizes and options of a SAM 2. Widths and numbers of blocks come from tensor shapes; keys lists the
// others.
type config struct {
	promptable.SAM2
	// Of the backbone.
	kernel, stride, padding int64 // of the convolution that makes patches
	background              [2]int64
	window0                 int64 // side of the table of positions inside windows
	stages                  []stage
	eps                     float64
	act                     string
	topDown                 []int // levels of the neck to which the next coarser one is added
	top                     int   // coarsest level that the decoder needs
}

// A stage is a run of blocks of one width.
type stage struct {
	number       int64
	width, heads int64
	hidden       int64 // width of the MLPs
	side         int64 // of its result in tokens
	window       int   // side of its windows in tokens
	pool         bool  // its first block halves the side
	blocks       []block
}

// A block is a transformer block.
type block struct {
	number int64
	window int // side of its windows in tokens; 0 for global attention
	in     int64
	pool   bool
}

const (
	backboneKey = "vision_config.backbone_config."
	promptKey   = "prompt_encoder_config."
)

// Configuration keys, as in a Transformers config.json.
const (
	keyImageSize = promptKey + "image_size"
	keyPatchSize = promptKey + "patch_size"
	keyStride    = backboneKey + "patch_stride"
	keyPadding   = backboneKey + "patch_padding"
	keyPool      = backboneKey + "query_stride"
	keyPools     = backboneKey + "num_query_pool_stages"
	keyHeads     = backboneKey + "num_attention_heads_per_stage"
	keyWindows   = backboneKey + "window_size_per_stage"
	keyGlobal    = backboneKey + "global_attention_blocks"
	keyAct       = backboneKey + "hidden_act"
	keyEps       = backboneKey + "layer_norm_eps"
	keyTopDown   = "vision_config.fpn_top_down_levels"
	keyLevels    = "vision_config.num_feature_levels"
)

const published = "default: that of the published size with these tensors"

var keys = map[string]string{
	keyImageSize: "side of the image in pixels (default 1024)",
	keyPatchSize: "pixels of a token on each axis (default 16)",
	keyStride:    "stride of the convolution that makes patches (default 4)",
	keyPadding:   "padding of that convolution (default 3)",
	keyPool:      "by how much the first block of a stage divides the side; it must be 2",
	keyPools:     "number of stages, from the second one, whose first block halves the side (default 3)",
	keyHeads:     "attention heads of each stage (" + published + ")",
	keyWindows:   "side of the windows of each stage in tokens (" + published + ")",
	keyGlobal:    "numbers of the blocks without windows (" + published + ")",
	keyAct:       "activation of the backbone's MLPs (default gelu)",
	keyEps:       "epsilon of the backbone's layer norms (default 1e-6)",
	keyTopDown:   "levels of the neck to which the next coarser one is added (default 2, 3)",
	keyLevels:    "levels that the decoder takes; it must be 3",
}

func init() { promptable.SAM2Keys(keys, "") }

// A size holds what the tensors of a published model do not tell.
type size struct{ heads, windows, global []int }

// sizes lists the published models by the width of the first stage and the number of blocks.
var sizes = map[[2]int64]size{
	{96, 12}:  {[]int{1, 2, 4, 8}, []int{8, 4, 14, 7}, []int{5, 7, 9}},     // tiny
	{96, 16}:  {[]int{1, 2, 4, 8}, []int{8, 4, 14, 7}, []int{7, 10, 13}},   // small
	{112, 24}: {[]int{2, 4, 8, 16}, []int{8, 4, 14, 7}, []int{12, 16, 20}}, // base plus
	{144, 48}: {[]int{2, 4, 8, 16}, []int{8, 4, 16, 8}, []int{23, 33, 43}}, // large
}

const (
	maxSide   = 1 << 14
	maxStages = 16
)

// readConfig derives the sizes from shapes and checks the configuration against them.
func readConfig(w *nn.Weights, n naming, cfg arch.Config) (c config, err error) {
	if c.SAM2, err = promptable.ReadSAM2(w, "", n.layers, cfg, ""); err != nil {
		return c, err
	}
	if err := c.readBackbone(w, cfg); err != nil {
		return c, err
	}
	return c, c.agree(cfg)
}

// ints reads lists or numbers of the configuration.
func ints(cfg arch.Config, lo, hi int64, to map[string]*int64) error {
	for key, v := range to {
		list, err := cfg.Ints(key, lo, hi)
		if err != nil {
			return err
		}
		if len(list) > 2 || len(list) == 2 && list[0] != list[1] {
			return unsupported(cfg, key, "is %v; want one number for both axes", list)
		}
		if len(list) > 0 {
			*v = int64(list[0])
		}
	}
	return nil
}

// floats reads numbers from 0 to hi.
func floats(cfg arch.Config, hi float64, to map[string]*float64) error {
	for key, v := range to {
		x, ok, err := cfg.Float(key)
		if err == nil && ok && !(x >= 0 && x <= hi) {
			err = unsupported(cfg, key, "is %v; want 0 to %v", x, hi)
		}
		if err != nil {
			return err
		}
		if ok {
			*v = x
		}
	}
	return nil
}

// activations reads the names of activations.
func activations(cfg arch.Config, to map[string]*string) error {
	for key, act := range to {
		v, ok, err := cfg.String(key)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if v == "" || !op.IsActivation(v) {
			return unsupported(cfg, key, "is %q; want one of %s", v, strings.Join(op.Activations(), ", "))
		}
		*act = v
	}
	return nil
}

// agree checks that other keys of the configuration agree with the tensors.
func (c config) agree(cfg arch.Config) error {
	for key, v := range map[string]int64{
		"vision_config.fpn_hidden_size": c.Embed, "vision_config.fpn_kernel_size": 1, "vision_config.fpn_stride": 1, "vision_config.fpn_padding": 0,
		backboneKey + "hidden_size": c.stages[0].width, keyLevels: 3,
	} {
		if err := cfg.Agree(key, v); err != nil {
			return err
		}
	}
	var blocks, widths, channels []int
	for _, s := range c.stages {
		blocks, widths = append(blocks, len(s.blocks)), append(widths, int(s.width))
	}
	channels = slices.Clone(widths)
	slices.Reverse(channels)
	for key, v := range map[string][]int{
		backboneKey + "blocks_per_stage": blocks, backboneKey + "embed_dim_per_stage": widths,
		"vision_config.backbone_channel_list":                       channels,
		backboneKey + "patch_kernel_size":                           {int(c.kernel), int(c.kernel)},
		backboneKey + "image_size":                                  {int(c.ImageSize), int(c.ImageSize)},
		backboneKey + "window_positional_embedding_background_size": {int(c.background[0]), int(c.background[1])},
	} {
		list, err := cfg.Ints(key, 1, 1<<20)
		if err != nil {
			return err
		}
		if len(list) == 1 && len(v) == 2 {
			list = append(list, list[0])
		}
		if list != nil && !slices.Equal(list, v) {
			return unsupported(cfg, key, "is %v; the tensors, and the size of the image, say %v", list, v)
		}
	}
	return nil
}

// facts returns the lines that describe the model to the user.
func (c config) facts(n naming, cfg arch.Config) []arch.Fact {
	names := "original SAM 2"
	if n.transformers {
		names = "Transformers"
	}
	var blocks, widths, heads, windows, global []int64
	for _, s := range c.stages {
		blocks, widths = append(blocks, int64(len(s.blocks))), append(widths, s.width)
		heads, windows = append(heads, s.heads), append(windows, int64(s.window))
		for _, b := range s.blocks {
			if b.window == 0 {
				global = append(global, b.number)
			}
		}
	}
	return append([]arch.Fact{{Name: "names", Value: names},
		cfg.Fact("image", keyImageSize, fmt.Sprintf("%d px, %dx%d tokens", c.ImageSize, c.Grid, c.Grid)),
		{Name: "backbone", Value: fmt.Sprintf("stages of %v blocks, widths %v", blocks, widths)},
		cfg.Fact("heads", keyHeads, heads),
		cfg.Fact("windows", keyWindows, fmt.Sprintf("%v tokens, global attention in blocks %v", windows, global))},
		c.SAM2.Facts(cfg, "")...)
}
