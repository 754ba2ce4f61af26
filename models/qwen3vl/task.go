package qwen3vl

import (
	"math"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/task"
)

// keyMerge is the side, in patches, of the blocks that the language model sees as one token.
const keyMerge = "vision_config.spatial_merge_size"

// processor is the file with the settings of the image processor.
const processor = "preprocessor_config.json"

// describe returns the task for the patch embedding. Sizes and colours that tensors do not determine come from the file
// of the image processor, or have the published values. It returns nil if patches are not RGB.
func describe(channels, frames, patch int64, cfg arch.Config) (*task.Patches, error) {
	t := &task.Patches{Method: "patch_embed", PixelsInput: "pixel_values", Embeddings: "embeddings", Patch: int(patch),
		Frames: int(frames), MaxPatches: maxPatches, ImageMethod: "embed_image", ImageInput: "image"}
	if channels != 3 {
		return nil, nil
	}
	merge, ok, err := cfg.Int(keyMerge, 1, 1<<6)
	if err != nil {
		return nil, err
	}
	if !ok {
		merge = 2
	}
	t.Merge = int(merge)
	t.MaxSide = max(1, int(math.Sqrt(maxPatches))/t.Merge) // a square image then has at most maxPatches patches
	if err := readProcessor(t, cfg); err != nil {
		return nil, err
	}
	if err := t.Validate(); err != nil {
		return nil, diag.New(arch.ErrConfig, processor, "%w", err)
	}
	return t, nil
}

// readProcessor reads how images are resized and normalised.
func readProcessor(t *task.Patches, cfg arch.Config) error {
	var file arch.Config
	raw, ok, err := cfg.File(processor, 1<<20)
	if err == nil && ok {
		err = file.Decode(raw, processor)
	}
	if err != nil {
		return err
	}
	t.MinPixels, t.MaxPixels, t.Mean, t.Std = 1<<16, 1<<24, [3]float64{0.5, 0.5, 0.5}, [3]float64{0.5, 0.5, 0.5}
	// These keys hold areas. The older names count if both are given, as in Transformers.
	for _, area := range []struct {
		key string
		n   *int
	}{{"size.shortest_edge", &t.MinPixels}, {"size.longest_edge", &t.MaxPixels}, {"min_pixels", &t.MinPixels},
		{"max_pixels", &t.MaxPixels}} {
		if v, ok, err := file.Int(area.key, 1, 1<<28); err != nil {
			return err
		} else if ok {
			*area.n = int(v)
		}
	}
	for key, to := range map[string]*[3]float64{"image_mean": &t.Mean, "image_std": &t.Std} {
		v, err := file.Floats(key)
		if err != nil {
			return err
		}
		if v != nil && len(v) != 3 {
			return diag.New(arch.ErrConfig, processor, "%s has %d numbers; want 3, of red, green and blue", key,
				len(v))
		}
		copy(to[:], v)
	}
	for key, n := range map[string]int{"patch_size": t.Patch, "temporal_patch_size": t.Frames, "merge_size": t.Merge} {
		if err := file.Agree(key, int64(n)); err != nil {
			return err
		}
	}
	return checkProcessor(file)
}

// checkProcessor refuses settings of an image processor that would give other pixels.
func checkProcessor(file arch.Config) error {
	for _, key := range []string{"do_resize", "do_rescale", "do_normalize"} {
		if on, ok, err := file.Bool(key); err != nil {
			return err
		} else if ok && !on {
			return diag.New(arch.ErrConfig, processor, "%s is false; want true", key)
		}
	}
	if filter, ok, err := file.Int("resample", 0, 1<<10); err != nil {
		return err
	} else if ok && filter != bicubic {
		return diag.New(arch.ErrConfig, processor, "resample is %d; want %d, bicubic", filter, bicubic)
	}
	if factor, ok, err := file.Float("rescale_factor"); err != nil {
		return err
	} else if ok && !(math.Abs(factor*255-1) < 1e-6) {
		return diag.New(arch.ErrConfig, processor, "rescale_factor is %v; want 1/255", factor)
	}
	return nil
}

// bicubic is the number of a filter in Pillow.
const bicubic = 3
