package sandbox

import "golang.org/x/sys/unix"

// nativeArch is what seccomp calls this architecture; 32-bit arm has numbers of its own for the same calls.
const nativeArch = unix.AUDIT_ARCH_AARCH64

var archForbidden []uint32
