//go:build !amd64

package product

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// EmulatedTiles returns nil, because only amd64 has tiles.
func EmulatedTiles() []*isa.Set { return nil }
