package sandbox

import "golang.org/x/sys/unix"

// nativeArch is seccomp's number for this architecture. The processor also runs calls of i386 (int 0x80), which have
// other numbers.
const nativeArch = unix.AUDIT_ARCH_X86_64

// archForbidden are forbidden calls that other architectures lack.
var archForbidden = []uint32{unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN,
	unix.SYS_UTIME, unix.SYS_UTIMES,
	unix.SYS_FUTIMESAT, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS__SYSCTL,
	unix.SYS_SYSFS}
