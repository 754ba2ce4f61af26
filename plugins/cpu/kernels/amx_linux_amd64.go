package kernels

import (
	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// xgetbv is the low half of extended control register 0: the register sets that the kernel saves.
func xgetbv() uint32

// hasAMX reports whether this process may use tiles of bfloat16: the processor has them, the kernel saves them, and it grants them
// to this process, which has to ask. Permission holds for all threads of the process.
func hasAMX() bool {
	const (
		archReqXcompPerm = 0x1023 // of arch_prctl
		tileData         = 18     // the state component
		tileBits         = 3 << 17
	)
	x := &cpu.X86
	if !x.HasOSXSAVE || !x.HasAMXTile || !x.HasAMXBF16 || xgetbv()&tileBits != tileBits {
		return false
	}
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archReqXcompPerm, tileData, 0)
	return errno == 0
}
