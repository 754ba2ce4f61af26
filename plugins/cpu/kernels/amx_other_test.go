//go:build !amd64

package kernels

import "testing"

func withoutTiles(*testing.T, func(t *testing.T, p *Pool)) {}
