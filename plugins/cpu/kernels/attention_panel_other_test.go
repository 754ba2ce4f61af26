//go:build !amd64

package kernels

import "testing"

func withPanels(t *testing.T, f func(t *testing.T, p *Pool)) { eachTiledPool(t, f) }
