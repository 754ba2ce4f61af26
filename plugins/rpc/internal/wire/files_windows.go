package wire

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/windows"
)

// number returns the number of a handle, which is the same in a child that inherits it.
func number(f *os.File, _ int) string { return strconv.FormatUint(uint64(f.Fd()), 10) }

// inherited opens the file that this process inherited with a number, and keeps it from its own children.
func inherited(number, name string) (*os.File, error) {
	n, err := strconv.ParseUint(number, 10, 32) // handles have 32 bits on all systems
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q is no handle", number)
	}
	h := windows.Handle(n)
	if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, 0); err != nil {
		return nil, fmt.Errorf("handle %d is not open", n)
	}
	return os.NewFile(uintptr(h), name), nil
}

// Inheritable returns copies of files for one child, which may inherit them.
func Inheritable(files []*os.File) (copies []*os.File, err error) {
	self := windows.CurrentProcess()
	for _, f := range files {
		var h windows.Handle
		err := windows.DuplicateHandle(self, windows.Handle(f.Fd()), self, &h, 0, true, windows.DUPLICATE_SAME_ACCESS)
		if err != nil {
			for _, c := range copies {
				c.Close()
			}
			return nil, os.NewSyscallError("DuplicateHandle", err)
		}
		copies = append(copies, os.NewFile(uintptr(h), f.Name()))
	}
	return copies, nil
}
