package host

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// inMemory reports whether a file with a digest to check is executed as a copy in memory.
const inMemory = true

// sealedCopy copies f to memory that can no longer be written to, and hashes it.
func sealedCopy(f *os.File, name string) (*os.File, []byte, error) {
	m, err := wire.NewMemfd(name, unix.MFD_EXEC)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	h := sha256.New()
	if _, err = io.Copy(io.MultiWriter(m, h), io.NewSectionReader(f, 0, st.Size())); err == nil {
		err = wire.AddSeals(m, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	// A file that is open for writing cannot be executed, so reopen it for reading.
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", m.Fd()))
	m.Close()
	return r, h.Sum(nil), err
}
