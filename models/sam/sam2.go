package sam

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/models/arch"
)

// SAM 2 is not built. Its Hiera encoder has a position table for windows, in the original checkpoints and in
// Transformers' checkpoints. No other checkpoint with a mask decoder has a tensor of that name.
var _ = arch.RegisterMissing(arch.Missing{
	Title: "SAM 2", Instead: "of this family SAM v1 is built, and of SAM 3 the vision trunk and neck",
	Recognise: func(names []string) bool {
		has := func(part func(name string) bool) bool { return slices.ContainsFunc(names, part) }
		return has(func(name string) bool { return strings.HasSuffix(name, ".pos_embed_window") }) &&
			has(func(name string) bool { return strings.Contains(name, "mask_decoder.") })
	},
})
