//go:build !amd64

package kernels

func withoutQuads(*isa) {}
