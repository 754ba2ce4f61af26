//go:build linux

package shim

import (
	"errors"
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// TestPages checks attention to keys in pages, with few queries or with matrices.
func TestPages(t *testing.T) {
	b, all := New(Options{Cache: dir, Level: "-O0"}), devicetest.PagedAttentions()
	load := func(p *program.Program) device.Executable {
		x, err := b.Load(t.Context(), device.Load{Program: p})
		if errors.Is(err, ErrNoCompiler) && os.Getenv("RLX_REQUIRE_CXX") == "" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { x.Close() })
		return x
	}
	cases := []devicetest.PagedAttention{all[0], all[3]}
	for _, i := range devicetest.Some(t, 1, uint64(len(cases))) {
		c := cases[i]
		t.Run(c.String(), func(t *testing.T) { c.Test(t, load, ir.Tolerance{Abs: 2e-5, Rel: 1e-5}) })
	}
}
