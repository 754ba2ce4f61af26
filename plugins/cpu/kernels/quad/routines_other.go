//go:build !amd64

package quad

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// WithoutVNNI returns nil, because only amd64 has VNNI.
func WithoutVNNI() []*isa.Set { return nil }
