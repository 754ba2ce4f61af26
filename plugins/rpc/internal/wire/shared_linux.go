package wire

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// HaveShared is true, because this system can share memory by descriptor and seal it against truncation.
const HaveShared = true

// NewMemfd creates an anonymous file that can be shared by descriptor.
func NewMemfd(name string, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if errors.Is(err, unix.EINVAL) { // kernels before 6.3 do not know the exec flags
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// newShared creates an anonymous file that can be shared by descriptor, for data.
func newShared(name string) (*os.File, error) { return NewMemfd(name, 0) }

// sealShrink forbids making f smaller. sealShape forbids all changes of its size, and further seals. Without seals, one
// process could truncate the file, and the other process would receive SIGBUS.
func sealShrink(f *os.File) error { return AddSeals(f, unix.F_SEAL_SHRINK) }
func sealShape(f *os.File) error {
	return AddSeals(f, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
}

// sealWrites forbids writing to f, except through the mappings that exist. Kernels before 5.1 lack this seal.
func sealWrites(f *os.File) { _ = AddSeals(f, unix.F_SEAL_FUTURE_WRITE) }

// AddSeals adds seals to f, which NewMemfd made.
func AddSeals(f *os.File, seals int) error {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("sealing shared memory: %w", err)
	}
	return nil
}

// isSealed reports whether the size of f can no longer change.
func isSealed(f *os.File) bool {
	got, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	const want = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	return err == nil && got&want == want
}

// yieldThread lets another thread that waits for this processor run first.
func yieldThread() { unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
