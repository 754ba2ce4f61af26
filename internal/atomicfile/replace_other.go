//go:build !windows

package atomicfile

import "os"

// newTemp creates the file name, which must not exist. os.CreateTemp would set mode 0600; here the umask decides.
func newTemp(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
}

// replace gives f, which is called temp, the name path.
func replace(_ *os.File, temp, path string) error { return os.Rename(temp, path) }
