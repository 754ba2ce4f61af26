package isa

import (
	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// xgetbv returns the low half of extended control register 0: a bit for each register set that the operating system
// saves.
func xgetbv() uint32

// hasAMX reports whether this process may use AMX tiles of bfloat16. The processor must have them, the operating system
// must save them, and it must grant the process permission, which hasAMX requests. Permission holds for all threads of
// the process.
func hasAMX() bool {
	const (
		archReqXcompPerm = 0x1023 // an operation of arch_prctl
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
