package sandbox

import "golang.org/x/sys/unix"

// nativeArch is seccomp's number for this architecture. 32-bit arm has other numbers for the same calls.
const nativeArch = unix.AUDIT_ARCH_AARCH64

var archForbidden []uint32
