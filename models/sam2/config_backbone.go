package sam2

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

const trunk = "image_encoder.trunk."

// readBackbone reads the sizes of the backbone and the neck.
func (c *config) readBackbone(w *nn.Weights, cfg arch.Config) error {
	c.stride, c.padding, c.eps, c.act, c.ImageSize = 4, 3, 1e-6, "gelu", 1024
	patch, err := w.Dims(trunk+"patch_embed.proj.weight", "[width, 3, kernel, kernel]", 4)
	if err != nil {
		return err
	}
	if patch[1] != 3 || patch[2] != patch[3] {
		return diag.New(arch.ErrTensor, w.Source(trunk+"patch_embed.proj.weight"),
			"tensor is %v; expected [width, 3, kernel, kernel] with a square kernel", ir.ShapeOf(patch...))
	}
	c.kernel = patch[2]
	background, err := w.Dims(trunk+"pos_embed", "[1, width, rows, columns]", 4)
	if err != nil {
		return err
	}
	c.background = [2]int64{background[2], background[3]}
	window, err := w.Dims(trunk+"pos_embed_window", "[1, width, window, window]", 4)
	if err != nil {
		return err
	}
	c.window0 = window[2]
	pools, pool, pixels := int64(3), int64(2), int64(16)
	if err := ints(cfg, 1, maxSide, map[string]*int64{keyStride: &c.stride, keyImageSize: &c.ImageSize, keyPool: &pool,
		keyPatchSize: &pixels}); err != nil {
		return err
	}
	if err := ints(cfg, 0, maxSide, map[string]*int64{keyPadding: &c.padding, keyPools: &pools}); err != nil {
		return err
	}
	if err := floats(cfg, 1, map[string]*float64{keyEps: &c.eps}); err != nil {
		return err
	}
	if err := activations(cfg, map[string]*string{keyAct: &c.act}); err != nil {
		return err
	}
	if pool != 2 {
		return unsupported(cfg, keyPool, "is %d; want 2, because the decoder takes levels of which each halves the side",
			pool)
	}
	if err := c.readStages(w, patch[0], pools); err != nil {
		return err
	}
	if err := c.readWindows(cfg); err != nil {
		return err
	}
	c.Grid = c.ImageSize / pixels
	return c.checkSides(cfg, pixels)
}

// readStages finds the stages: the width changes at the first block of each.
func (c *config) readStages(w *nn.Weights, width, pools int64) error {
	for i := int64(0); ; i++ {
		name := fmt.Sprintf("%sblocks.%d.attn.qkv.weight", trunk, i)
		if _, ok := w.Type(name); !ok && i > 0 {
			break
		}
		qkv, err := w.Dims(name, "[3*out, in]", 2)
		if err != nil {
			return err
		}
		out := qkv[0] / 3
		if qkv[0]%3 != 0 || qkv[1] != width {
			return diag.New(arch.ErrTensor, w.Source(name), "tensor is %v; expected [3*out, %d]", ir.ShapeOf(qkv...),
				width)
		}
		if i == 0 || out != width {
			mlp, err := w.Dims(fmt.Sprintf("%sblocks.%d.mlp.layers.0.weight", trunk, i), "[hidden, width]", 2)
			if err != nil {
				return err
			}
			n := int64(len(c.stages))
			c.stages = append(c.stages, stage{number: n, width: out, hidden: mlp[0], pool: n > 0 && n <= pools})
		}
		s := &c.stages[len(c.stages)-1]
		s.blocks = append(s.blocks, block{number: i, in: width, pool: s.pool && len(s.blocks) == 0})
		width = out
	}
	if n := len(c.stages); n < 3 || n > maxStages {
		return diag.New(arch.ErrTensor, w.Source(trunk+"blocks.0.attn.qkv.weight"),
			"the backbone has %d widths, each of a stage; want 3 to %d", n, maxStages)
	}
	return nil
}

// readWindows reads what is not in the tensors: heads, windows and blocks without windows.
func (c *config) readWindows(cfg arch.Config) (err error) {
	last := c.stages[len(c.stages)-1].blocks
	blocks := last[len(last)-1].number + 1
	known := sizes[[2]int64{c.stages[0].width, blocks}]
	if cfg.Given("model_type") {
		known = sizes[[2]int64{96, 12}] // the defaults of Transformers, which a config.json need not repeat
	}
	read := func(key string, fallback []int, lo, n int64) []int {
		list, e := cfg.Ints(key, lo, maxSide)
		switch {
		case e != nil:
		case !cfg.Given(key):
			if list = fallback; list == nil {
				e = unsupported(cfg, key, "is not given, and this is no published size: width %d, %d blocks",
					c.stages[0].width, blocks)
			}
		}
		if e == nil && n > 0 && int64(len(list)) != n {
			e = unsupported(cfg, key, "is %v; want a number for each of %d stages", list, n)
		}
		if err == nil {
			err = e
		}
		return list
	}
	stages := int64(len(c.stages))
	heads, windows := read(keyHeads, known.heads, 1, stages), read(keyWindows, known.windows, 1, stages)
	global := read(keyGlobal, known.global, 0, 0)
	if err != nil {
		return err
	}
	for _, i := range global {
		if int64(i) >= blocks {
			return unsupported(cfg, keyGlobal, "names block %d; there are 0 to %d", i, blocks-1)
		}
	}
	for i := range c.stages {
		s := &c.stages[i]
		s.heads, s.window = int64(heads[i]), windows[i]
		if s.width%s.heads != 0 {
			return unsupported(cfg, keyHeads, "is %v; %d heads do not divide the width %d", heads, s.heads, s.width)
		}
		for k := range s.blocks {
			b := &s.blocks[k]
			switch {
			case slices.Contains(global, int(b.number)):
			case k == 0 && i > 0: // the first block still has the windows of the stage before
				b.window = windows[i-1]
			default:
				b.window = windows[i]
			}
		}
	}
	if int64(windows[0]) != c.window0 {
		return unsupported(cfg, keyWindows, "is %v; the table of positions inside windows says %d for the first stage",
			windows, c.window0)
	}
	return nil
}

// checkSides computes the sides of all stages. It refuses those that do not fit each other or the decoder.
func (c *config) checkSides(cfg arch.Config, pixels int64) error {
	side := c.ImageSize + 2*c.padding - c.kernel
	if side < 0 {
		return unsupported(cfg, keyImageSize, "is %d; want at least the kernel of the patches, %d", c.ImageSize,
			c.kernel)
	}
	side = side/c.stride + 1
	if side%c.window0 != 0 {
		return unsupported(cfg, keyImageSize, "is %d, which makes %d tokens on a side; want a multiple of the window, "+
			"%d", c.ImageSize, side, c.window0)
	}
	for i := range c.stages {
		s := &c.stages[i]
		if w := int64(s.blocks[0].window); s.pool {
			if w == 1 || side < 2 || w > 0 && (side+w-1)/w != (side/2+w/2-1)/(w/2) {
				return unsupported(cfg, keyWindows,
					"has windows of %d, which cannot be halved with the %d tokens on a side before stage %d", w, side, i)
			}
			side /= 2
		}
		s.side = side
		if want := c.Grid << (2 - min(i, 2)); i < 3 && side != want {
			return unsupported(cfg, keyImageSize, "is %d, of which stage %d makes %d tokens on a side; want %d with "+
				"%d pixels (%s) for each token of the decoder", c.ImageSize, i, side, want, pixels, keyPatchSize)
		}
	}
	c.topDown = []int{2, 3}
	if cfg.Given(keyTopDown) {
		list, err := cfg.Ints(keyTopDown, 0, maxStages)
		if err != nil {
			return err
		}
		c.topDown = list
	}
	for c.top = 2; c.top+1 < len(c.stages) && slices.Contains(c.topDown, c.top); c.top++ {
	}
	for i := range c.top {
		if a, b := c.stages[i].side, c.stages[i+1].side; slices.Contains(c.topDown, i) && a != 2*b {
			return unsupported(cfg, keyTopDown, "adds level %d, with %d tokens on a side, to level %d, with %d; want half "+
				"as many", i+1, b, i, a)
		}
	}
	return nil
}
