//go:build cgo && (darwin || amd64)

package backend

import (
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// TestPages checks attention to keys in pages. Each commit draws three of the cases.
func TestPages(t *testing.T) {
	for _, c := range devicetest.SomeOf(t, 3, devicetest.PagedAttentions()) {
		t.Run(c.String(), func(t *testing.T) {
			c.Test(t, func(p *program.Program) device.Executable { return load(t, shared, p, nil) },
				ir.Tolerance{Abs: 1e-5, Rel: 1e-5})
		})
	}
}
