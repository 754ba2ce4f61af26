//go:build !amd64

package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func withoutQuads() *isa.Set { panic("BUG: called without AVX-512") }
