package sam3

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/promptable"
)

// config holds the sizes and options of a SAM 3.
type config struct {
	trunk         bool // the checkpoint has the trunk
	transformers  bool // tensors have the names of the Transformers library
	grid          int64
	width, fpn    int64
	patch         int64
	pretrained    int64 // side of the position embeddings in tokens
	positions     int64 // rows of pos_embed: pretrained², and one for a class token, which is not used
	heads, hidden int64
	windows       []int // per block: side of its windows in tokens; 0 for global attention
	window        int64
	tiled         bool // windows cover the grid without padding
	theta, eps    float64
	sam2          bool // also build the heads of the tracker
	act           string
	detector      *detector        // nil if the checkpoint has none
	tracker       *promptable.SAM2 // nil if the checkpoint has none
}

const backbone = "vision_config.backbone_config."

// Configuration keys, as in a Transformers config.json.
const (
	keyImage   = backbone + "image_size"
	keyPatch   = backbone + "patch_size"
	keyHeads   = backbone + "num_attention_heads"
	keyWindow  = backbone + "window_size"
	keyGlobal  = backbone + "global_attn_indexes"
	keyTheta   = backbone + "rope_theta"
	keyThetas  = backbone + "rope_parameters.rope_theta"
	keyEps     = backbone + "layer_norm_eps"
	keyAct     = backbone + "hidden_act"
	keyScales  = "vision_config.scale_factors"
	keySAM2    = "sam2_convs"
	maxSide    = 1 << 14
	maxSize    = 1 << 20
	levelScale = "[4, 2, 1, 0.5]"
)

var keys = map[string]string{
	keyImage:  "side of the image in pixels (default 1008)",
	keyPatch:  "side of a patch in pixels, for a checkpoint without the trunk (default 14)",
	keyHeads:  "attention heads (default 16)",
	keyWindow: "side of the windows in tokens (default 24)",
	keyGlobal: "numbers of the blocks without windows (default 7, 15, 23, 31)",
	keyTheta:  "base of the rotary frequencies (default 10000)",
	keyThetas: "the newer name of rope_theta",
	keyEps:    "epsilon of the layer norms (default 1e-6)",
	keyAct:    "activation of the MLPs (default gelu)",
	keySAM2:   "whether to build method sam2_neck, of the neck's heads for the tracker (default false)",
	keyScales: "scales of the neck's levels; they must be " + levelScale,
}

// dims returns the shape of a tensor and checks its rank. The neck's are those of its largest level.
func dims(w *nn.Weights, name, want string, rank int) ([]int64, error) {
	if branch, _, _ := strings.Cut(name, "."); branches[branch] != "" {
		want += ", in " + levelName(branch, 0)
	}
	t, ok := w.Type(name)
	if !ok {
		return nil, diag.New(arch.ErrTensor, w.Source(name), "tensor is missing; expected %s", want)
	}
	out := make([]int64, 0, rank)
	for _, d := range t.Shape {
		out = append(out, d.Const)
	}
	if len(out) != rank || slices.Min(out) < 1 || slices.Max(out) > maxSize {
		return nil, diag.New(arch.ErrTensor, w.Source(name), "tensor is %v; expected dims from 1 to %d as %s", t,
			maxSize, want)
	}
	return out, nil
}

// readConfig derives the sizes from shapes and checks the configuration against them.
func readConfig(w *nn.Weights, n naming, cfg arch.Config) (c config, err error) {
	c.transformers = n.transformers
	in, err := dims(w, "convs.0.dconv_2x2_0.weight", "[width, width/2, 2, 2]", 4)
	if err != nil {
		return c, err
	}
	out, err := dims(w, "convs.0.conv_3x3.weight", "[channels, channels, 3, 3]", 4)
	if err != nil {
		return c, err
	}
	c.width, c.fpn = in[0], out[0]
	if c.width%4 != 0 || c.fpn%4 != 0 {
		return c,
			diag.New(arch.ErrTensor, w.Source("convs.0.conv_3x3.weight"),
				"%s has %d channels of %d; want multiples of 4", branches["convs"], c.fpn, c.width)
	}
	_, c.trunk = w.Type(trunkLandmark)
	image, patch := int64(1008), int64(14) // as in the published model
	c.heads, c.window, c.theta, c.eps, c.act = 16, 24, 10000, 1e-6, "gelu"
	for key, v := range map[string]*int64{keyImage: &image, keyPatch: &patch, keyHeads: &c.heads,
		keyWindow: &c.window} {
		if n, ok, err := cfg.Int(key, 1, maxSide); err != nil {
			return c, err
		} else if ok {
			*v = n
		}
	}
	if c.trunk {
		p, err := dims(w, trunkLandmark, "[width, 3, patch, patch]", 4)
		if err != nil {
			return c, err
		}
		if p[0] != c.width || p[1] != 3 || p[2] != p[3] {
			return c,
				diag.New(arch.ErrTensor, w.Source(trunkLandmark),
					"tensor is %v; expected [%d, 3, patch, patch] with a square patch", ir.ShapeOf(p...), c.width)
		}
		if err := cfg.Agree(keyPatch, p[2]); err != nil {
			return c, err
		}
		patch = p[2]
	}
	if c.sam2, _, err = cfg.Bool(keySAM2); err != nil {
		return c, err
	}
	c.patch, c.grid = patch, image/patch
	c.tiled = c.grid%c.window == 0
	if image%patch != 0 || c.grid < 2 {
		return c,
			diag.New(arch.ErrConfig, cfg.Origin(keyImage),
				"%s is %d; want a multiple of the patch, %d, and two patches at least, which the smallest level joins",
				keyImage, image, patch)
	}
	if _, ok := w.Type(queryLandmark); ok {
		if c.detector, err = readDetector(w, c, cfg); err != nil {
			return c, err
		}
	}
	if c.tracker, err = readTracker(w, n, c, cfg); err != nil {
		return c, err
	}
	if err := c.readScales(cfg); err != nil || !c.trunk {
		return c, err
	}
	if err := c.readTrunk(w, cfg); err != nil {
		return c, err
	}
	for key, v := range map[string]int64{backbone + "hidden_size": c.width, "vision_config.fpn_hidden_size": c.fpn,
		backbone + "num_hidden_layers": int64(len(c.windows)),
		backbone + "intermediate_size": c.hidden, backbone + "pretrain_image_size": c.pretrained * c.patch} {
		if err := cfg.Agree(key, v); err != nil {
			return c, err
		}
	}
	return c, nil
}

// readScales refuses scales that the neck does not implement.
func (c config) readScales(cfg arch.Config) error {
	given, err := cfg.Floats(keyScales)
	if err == nil && given != nil && !slices.Equal(given, scales) {
		err = diag.New(arch.ErrConfig, cfg.Origin(keyScales), "%s is %v; want %s", keyScales, given, levelScale)
	}
	return err
}

// readTrunk reads the sizes of the trunk.
func (c *config) readTrunk(w *nn.Weights, cfg arch.Config) error {
	if err := c.readPositions(w, cfg); err != nil {
		return err
	}
	if err := c.readConstants(cfg); err != nil {
		return err
	}
	if err := c.readWindows(w, cfg); err != nil {
		return err
	}
	mlp, err := dims(w, "trunk.blocks.0.mlp.fc1.weight", "[hidden, width]", 2)
	if err != nil {
		return err
	}
	c.hidden = mlp[0]
	return nil
}

// readPositions reads the size of the square of positions that the trunk was pretrained with.
func (c *config) readPositions(w *nn.Weights, cfg arch.Config) error {
	pos, err := dims(w, "trunk.pos_embed", "[1, side*side, width], or one row more for a class token", 3)
	if err != nil {
		return err
	}
	c.positions = pos[1]
	c.pretrained = int64(math.Sqrt(float64(pos[1])))
	if n := c.pretrained * c.pretrained; c.pretrained < 1 || n != pos[1] && n+1 != pos[1] {
		return diag.New(arch.ErrTensor, w.Source("trunk.pos_embed"),
			"tensor is %v; expected [1, side*side, %d], or one row more for a class token", ir.ShapeOf(pos...), c.width)
	}
	if c.width%(4*c.heads) != 0 {
		return diag.New(arch.ErrConfig, cfg.Origin(keyHeads),
			"%s is %d; heads of the width %d must be multiples of 4, because x and y each rotate pairs of half a head",
			keyHeads, c.heads, c.width)
	}
	return nil
}

// readConstants reads the constants of rotary embedding and normalization, and the activation.
func (c *config) readConstants(cfg arch.Config) error {
	for _, k := range []struct {
		key string
		to  *float64
	}{{keyTheta, &c.theta}, {keyThetas, &c.theta}, {keyEps, &c.eps}} {
		x, ok, err := cfg.Float(k.key)
		if err == nil && ok && !(x >= 0 && x <= math.MaxFloat32) {
			err = diag.New(arch.ErrConfig, cfg.Origin(k.key), "%s is %v; want a positive number", k.key, x)
		}
		if err != nil {
			return err
		}
		if ok {
			*k.to = x
		}
	}
	if c.theta < 1 {
		return diag.New(arch.ErrConfig, cfg.Origin(keyTheta), "rope_theta is %v; want 1 or more", c.theta)
	}
	act, ok, err := cfg.String(keyAct)
	if err != nil || !ok {
		return err
	}
	if act == "" || !op.IsActivation(act) {
		return diag.New(arch.ErrConfig, cfg.Origin(keyAct), "%s is %q; want one of %s", keyAct, act,
			strings.Join(op.Activations(), ", "))
	}
	c.act = act
	return nil
}

// readWindows reads the number of blocks, and which of them attend within windows.
func (c *config) readWindows(w *nn.Weights, cfg arch.Config) (err error) {
	global, given := []int{7, 15, 23, 31}, cfg.Given(keyGlobal)
	if given {
		if global, err = cfg.Ints(keyGlobal, 0, maxSide); err != nil {
			return err
		}
	}
	for i := 0; ; i++ {
		if _, ok := w.Type(fmt.Sprintf("trunk.blocks.%d.norm1.weight", i)); !ok && i > 0 {
			break
		}
		window := int(c.window)
		if slices.Contains(global, i) {
			window = 0
		}
		c.windows = append(c.windows, window)
	}
	for _, i := range global {
		if given && (i < 0 || i >= len(c.windows)) {
			return diag.New(arch.ErrConfig, cfg.Origin(keyGlobal), "%s names block %d; there are 0 to %d", keyGlobal, i,
				len(c.windows)-1)
		}
	}
	return nil
}

// facts returns the lines that describe the model to the user.
func (c config) facts(cfg arch.Config) []arch.Fact {
	names := "original SAM 3"
	if c.transformers {
		names = "Transformers"
	}
	out := []arch.Fact{{Name: "names", Value: names},
		cfg.Fact(
			"image", keyImage, fmt.Sprintf("%d px, patch %d, %dx%d tokens", c.grid*c.patch, c.patch, c.grid, c.grid))}
	if c.trunk {
		global := 0
		for _, w := range c.windows {
			if w == 0 {
				global++
			}
		}
		out = append(
			out, cfg.Fact(
				"trunk", keyHeads,
				fmt.Sprintf("%d blocks of width %d, %d heads, MLP %d", len(c.windows), c.width, c.heads, c.hidden)),
			cfg.Fact("windows", keyWindow, fmt.Sprintf("%d tokens, %d blocks global", c.window, global)))
	}
	out = append(
		out, arch.Fact{Name: "neck",
			Value: fmt.Sprintf("4 levels of %d channels, %d to %d tokens a side", c.fpn, 4*c.grid, c.grid/2)})
	if d := c.detector; d != nil {
		out = append(out,
			arch.Fact{Name: "text", Value: fmt.Sprintf("%d layers of width %d, %d tokens of %d", d.text.layers,
				d.text.width, d.text.positions, d.text.vocabulary)},
			arch.Fact{Name: "detector", Value: fmt.Sprintf("%d and %d layers, %d queries", d.encoder.layers,
				d.decoder.layers, d.queries)})
	}
	if c.tracker != nil {
		clicks := c.tracker.Facts(cfg, trackerPart)
		clicks[0].Name, clicks[1].Name = "clicks", "click heads"
		out = append(out, clicks...)
	}
	return out
}
