//go:build linux || darwin

package wire

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// number returns the number by which a child knows the i-th file that it inherits.
func number(_ *os.File, i int) string { return strconv.Itoa(3 + i) }

// inherited opens the file that this process inherited with a number, and keeps it from its own children.
func inherited(number, name string) (*os.File, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 || fd > 1023 {
		return nil, fmt.Errorf("%q is no descriptor", number)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		return nil, fmt.Errorf("descriptor %d is not open", fd)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name), nil
}
