//go:build !amd64

package attention

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

func withPanels(t *testing.T, f func(t *testing.T, p *pool.Pool)) { eachTiledPool(t, f) }
