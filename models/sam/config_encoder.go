package sam

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

// readEncoder reads the sizes of the image encoder.
func (c *config) readEncoder(w *nn.Weights, cfg arch.Config) error {
	pos, err := dims(w, "image_encoder.pos_embed", "[1, grid, grid, width]", 4)
	if err != nil {
		return err
	}
	patch, err := dims(w, "image_encoder.patch_embed.proj.weight", "[width, 3, patch, patch]", 4)
	if err != nil {
		return err
	}
	if pos[0] != 1 || pos[1] != pos[2] || pos[3] != patch[0] {
		return diag.New(arch.ErrTensor, w.Source("image_encoder.pos_embed"),
			"tensor is %v; expected [1, grid, grid, %d] with a square grid", ir.ShapeOf(pos...), patch[0])
	}
	if patch[1] != 3 || patch[2] != patch[3] {
		return diag.New(arch.ErrTensor, w.Source("image_encoder.patch_embed.proj.weight"),
			"tensor is %v; expected [width, 3, patch, patch] with a square patch", ir.ShapeOf(patch...))
	}
	c.grid, c.width, c.patch = pos[1], pos[3], patch[2]
	c.imageSize = c.grid * c.patch
	for key, flag := range map[string]*bool{keyRelPos: &c.relPos, keyQKVBias: &c.qkvBias} {
		v, ok, err := cfg.Bool(key)
		if err != nil {
			return err
		}
		*flag = v || !ok
	}
	if err := c.readBlocks(w, cfg); err != nil {
		return err
	}
	neck, err := dims(w, "image_encoder.neck.0.weight", "[channels, width, 1, 1]", 4)
	if err != nil {
		return err
	}
	c.embed = neck[0]
	if c.embed%8 != 0 {
		return diag.New(arch.ErrTensor, w.Source("image_encoder.neck.0.weight"),
			"tensor is %v; expected a multiple of 8 channels", ir.ShapeOf(neck...))
	}
	return nil
}

// readBlocks finds the depth, the heads and the windows.
func (c *config) readBlocks(w *nn.Weights, cfg arch.Config) error {
	for i := 0; ; i++ {
		block := fmt.Sprintf("image_encoder.blocks.%d.", i)
		if _, ok := w.Type(block + "norm1.weight"); !ok && i > 0 {
			break
		}
		if c.relPos {
			if err := c.readRelPos(w, block+"attn.rel_pos_h"); err != nil {
				return err
			}
		} else {
			c.windows = append(c.windows, 0)
		}
		mlp, err := dims(w, block+"mlp.lin1.weight", "[hidden, width]", 2)
		if err != nil {
			return err
		}
		c.hidden = mlp[0]
	}
	if c.relPos {
		return nil
	}
	return c.readWindows(cfg)
}

// readRelPos derives heads and window of a block from its table of relative positions. The table has 2n-1 rows, where n
// is the side of the area that queries attend to, and one column for each element of a head.
func (c *config) readRelPos(w *nn.Weights, name string) error {
	rel, err := dims(w, name, "[2*window-1, head width]", 2)
	if err != nil {
		if e, ok := err.(*diag.Error); ok {
			e.WithHint("if the encoder has no relative positions, say so with --set %s=false or in config.json",
				keyRelPos)
		}
		return err
	}
	if rel[0]%2 == 0 || c.width%rel[1] != 0 || c.heads != 0 && c.heads != c.width/rel[1] {
		return diag.New(arch.ErrTensor, w.Source(name),
			"tensor is %v; expected [2*window-1, head width] with a head width that divides %d, the same in every block",
			ir.ShapeOf(rel...), c.width)
	}
	c.heads = c.width / rel[1]
	window := (rel[0] + 1) / 2
	if window == c.grid {
		window = 0 // the window is the whole grid
	}
	c.windows = append(c.windows, int(window))
	return nil
}

// readWindows reads heads and windows from the configuration if no tensor determines them.
func (c *config) readWindows(cfg arch.Config) error {
	var window int64
	for key, v := range map[string]*int64{keyEncoderHeads: &c.heads, keyWindow: &window} {
		least := int64(1)
		if key == keyWindow {
			least = 0
		}
		n, ok, err := cfg.Int(key, least, maxGrid)
		if err != nil {
			return err
		}
		if !ok {
			return diag.New(
				arch.ErrConfig, key,
				"is not given, and an encoder without relative positions has no tensor that determines it").
				WithHint("give the checkpoint's config.json with --model-config, or --set %s=N", key)
		}
		*v = n
	}
	if c.width%c.heads != 0 {
		return diag.New(arch.ErrConfig, cfg.Origin(keyEncoderHeads), "%s is %d, which does not divide the width %d",
			keyEncoderHeads, c.heads, c.width)
	}
	global, err := cfg.Ints(keyGlobal, 0, maxGrid)
	if err != nil {
		return err
	}
	if !cfg.Given(keyGlobal) && window != 0 {
		return diag.New(arch.ErrConfig, keyGlobal,
			"is not given, and an encoder without relative positions has no tensor that determines it").
			WithHint("give the checkpoint's config.json with --model-config, or --set %s=[2,5,8,11]", keyGlobal)
	}
	for _, i := range global {
		if i < 0 || i >= len(c.windows) {
			return diag.New(arch.ErrConfig, cfg.Origin(keyGlobal), "%s names block %d; there are 0 to %d", keyGlobal, i,
				len(c.windows)-1)
		}
	}
	for i := range c.windows {
		if !slices.Contains(global, i) {
			c.windows[i] = int(window)
		}
	}
	return nil
}
