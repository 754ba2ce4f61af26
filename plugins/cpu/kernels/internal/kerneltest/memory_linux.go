package kerneltest

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/tensor"
)

// Edge returns n elements, small whole numbers, that end at a protected page: a read or write past them faults.
func Edge[T float32 | uint16 | uint8](t *testing.T, n int) []T {
	t.Helper()
	const page = 4096
	size := (n*4 + page - 1) / page * page
	mapped, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mapped) })
	if err := unix.Mprotect(mapped[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	all := tensor.View[T](mapped[:size])
	x := all[len(all)-n:]
	for i := range x {
		x[i] = T(i % 5)
	}
	return x
}
