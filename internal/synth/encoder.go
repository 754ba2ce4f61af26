package synth

import (
	"fmt"
	"slices"
	"strings"
)

// Encoder has the sizes of a SAM image encoder.
type Encoder struct {
	Name                string
	Width, Depth, Heads int
	Global              []int // blocks whose attention covers the whole image
	// window: rows of relative positions in blocks with windowed attention; grid: in the blocks of Global
	window, grid int
}

// Encoders returns the encoders of the published SAMs, smallest first.
func Encoders() []Encoder {
	return []Encoder{
		{"sam_vit_b", 768, 12, 12, []int{2, 5, 8, 11}, 27, 127},
		{"sam_vit_l", 1024, 24, 16, []int{5, 11, 17, 23}, 27, 127},
		{"sam_vit_h", 1280, 32, 16, []int{7, 15, 23, 31}, 27, 127},
	}
}

// FindEncoder returns the encoder of that name.
func FindEncoder(name string) (Encoder, error) {
	var names []string
	for _, e := range Encoders() {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Encoder{}, fmt.Errorf("encoder %q; allowed are %s", name, strings.Join(names, ", "))
}

// Manifest returns the manifest of sam_vit_b with this encoder instead of its own. All blocks have the tensors of block
// 0 under their own names.
func (e Encoder) Manifest(base []Entry) []Entry {
	from := Encoders()[0]
	widths := map[int]int{from.Width: e.Width, 3 * from.Width: 3 * e.Width, 4 * from.Width: 4 * e.Width}
	var out []Entry
	for _, t := range base {
		if !strings.HasPrefix(t.Name, "image_encoder.") {
			out = append(out, t)
			continue
		}
		t.Shape = slices.Clone(t.Shape)
		for i, d := range t.Shape {
			if to, ok := widths[d]; ok {
				t.Shape[i] = to
			}
		}
		rest, first := strings.CutPrefix(t.Name, "image_encoder.blocks.0.")
		if !first {
			if !strings.HasPrefix(t.Name, "image_encoder.blocks.") {
				out = append(out, t)
			}
			continue
		}
		for i := range e.Depth {
			block := t
			block.Name = fmt.Sprintf("image_encoder.blocks.%d.%s", i, rest)
			if strings.Contains(rest, "rel_pos") {
				rows := e.window
				if slices.Contains(e.Global, i) {
					rows = e.grid
				}
				block.Shape = []int{rows, e.Width / e.Heads}
			}
			out = append(out, block)
		}
	}
	return out
}
