package sam

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

// readEncoder reads the sizes of the image encoder.
func (c *config) readEncoder(w *nn.Weights, cfg arch.Config) error {
	for key, flag := range map[string]*bool{keyAbsPos: &c.absPos, keyRelPos: &c.relPos, keyQKVBias: &c.qkvBias,
		keyRelPosH: &c.relRows, keyRelPosW: &c.relColumns} {
		v, ok, err := cfg.Bool(key)
		if err != nil {
			return err
		}
		*flag = v || !ok
	}
	patch, err := w.Dims("image_encoder.patch_embed.proj.weight", "[width, 3, patch, patch]", 4)
	if err != nil {
		return err
	}
	if patch[1] != 3 || patch[2] != patch[3] {
		return diag.New(arch.ErrTensor, w.Source("image_encoder.patch_embed.proj.weight"),
			"tensor is %v; expected [width, 3, patch, patch] with a square patch", ir.ShapeOf(patch...))
	}
	c.width, c.patch = patch[0], patch[2]
	if err := c.readGrid(w, cfg); err != nil {
		return err
	}
	if err := c.readBlocks(w, cfg); err != nil {
		return err
	}
	neck, err := w.Dims("image_encoder.neck.0.weight", "[channels, width, 1, 1]", 4)
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

// readGrid finds the size of the image, from the absolute positions if there are any.
func (c *config) readGrid(w *nn.Weights, cfg arch.Config) error {
	if !c.absPos {
		w.Skip(fmt.Sprintf("absolute positions, which %s=false leaves out", keyAbsPos), absPos)
		return c.readImageSize(cfg)
	}
	pos, err := w.Dims(absPos, "[1, grid, grid, width]", 4)
	if err != nil {
		if e, ok := err.(*diag.Error); ok {
			e.WithHint("if the encoder has no absolute positions, say so with --set %s=false or in config.json",
				keyAbsPos)
		}
		return err
	}
	if pos[0] != 1 || pos[1] != pos[2] || pos[3] != c.width {
		return diag.New(arch.ErrTensor, w.Source(absPos),
			"tensor is %v; expected [1, grid, grid, %d] with a square grid", ir.ShapeOf(pos...), c.width)
	}
	c.grid = pos[1]
	c.imageSize = c.grid * c.patch
	return nil
}

// readImageSize reads the size of the image from the configuration. A config.json need not repeat the default of
// Transformers.
func (c *config) readImageSize(cfg arch.Config) error {
	key := keyEncoderImage
	if !cfg.Given(key) && cfg.Given(keyImageSize) {
		key = keyImageSize
	}
	size, ok, err := cfg.Int(key, 1, maxGrid)
	switch {
	case err != nil:
		return err
	case !ok && !cfg.Given("model_type"):
		return diag.New(arch.ErrConfig, key,
			"is not given, and an encoder without absolute positions has no tensor that determines it").
			WithHint("give the checkpoint's config.json with --model-config, or --set %s=N", key)
	case !ok:
		size = 1024
	}
	if size%c.patch != 0 {
		return diag.New(arch.ErrConfig, cfg.Origin(key), "%s is %d; want a multiple of the patch, %d", key, size,
			c.patch)
	}
	c.imageSize, c.grid = size, size/c.patch
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
			if err := c.readTables(w, block+"attn."); err != nil {
				return err
			}
		} else {
			c.windows = append(c.windows, 0)
		}
		mlp, err := w.Dims(block+"mlp.lin1.weight", "[hidden, width]", 2)
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

// readTables reads the sizes of a block from one of its tables of relative positions. The configuration may leave out
// those of one axis or both, whether the checkpoint has them or not.
func (c *config) readTables(w *nn.Weights, attn string) error {
	table := ""
	for _, x := range []struct {
		name, key string
		used      bool
	}{{"rel_pos_h", keyRelPosH, c.relRows}, {"rel_pos_w", keyRelPosW, c.relColumns}} {
		if _, ok := w.Type(attn + x.name); ok && table == "" {
			table = attn + x.name
		}
		if !x.used {
			w.Skip(fmt.Sprintf("relative positions, which %s=false leaves out", x.key), attn+x.name)
		}
	}
	return c.readRelPos(w, cmp.Or(table, attn+"rel_pos_h"))
}

// readRelPos derives heads and window of a block from its table of relative positions. The table has 2n-1 rows, where n
// is the side of the area that queries attend to, and one column for each element of a head.
func (c *config) readRelPos(w *nn.Weights, name string) error {
	rel, err := w.Dims(name, "[2*window-1, head width]", 2)
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
