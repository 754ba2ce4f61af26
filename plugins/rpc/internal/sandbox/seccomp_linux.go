//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The filter forbids a list of calls and allows all others, because GPU drivers differ too much to list the calls that
// they need. docs/rationale.md explains why the filter is assembled here.

// forbidden lists calls that fail with EPERM.
var forbidden = []uint32{
	// Namespaces, and execution of files without a path, which Landlock does not check.
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_EXECVEAT,
	// Memory, descriptors and groups of other processes.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
	unix.SYS_PROCESS_MADVISE,
	unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_SETPGID, unix.SYS_SETSID,
	// A backend accepts connections and never makes any. Unix sockets of other programs may be anywhere.
	unix.SYS_CONNECT,
	// io_uring makes calls that the filter does not see.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	// Operations that Landlock does not restrict: modes, owners, times and attributes of files, watching directories
	// and, before version 3, truncation.
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_TRUNCATE,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT, unix.SYS_FILE_SETATTR,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_INOTIFY_ADD_WATCH,
	// System V and POSIX IPC objects, which all processes of a user share.
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
	unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	// Administration, and parts of the kernel with a history of bugs.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY,
	unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG,
	unix.SYS_VHANGUP,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_ADJTIMEX,
}

// ioctls lists what every program may do with ioctl: ask whether a descriptor is a terminal and how large it is, ask
// for the number of bytes to read, and set the descriptor's own flags. C libraries and interpreters need these. All
// others change or reveal something outside the process: flags and attributes of files that are open for reading only,
// terminals, network interfaces, the receiver of signals.
var ioctls = []uint32{unix.TCGETS, unix.TCGETS2, unix.TIOCGWINSZ, unix.TIOCINQ, fioclex, fionclex, fionbio}

const fioclex, fionclex, fionbio = 0x5451, 0x5450, 0x5421

// A program with GPUs needs many others, of each driver. forbiddenTypes are types (the second byte of a number) of
// ioctls that it may not use even so: of sockets, block devices, namespaces, and files: of all file systems and ext4
// ('f'), XFS and freezing ('X'), versions ('v'), FAT ('r'), Btrfs and clones (0x94), CIFS (0xcf), FUSE (0xe5) and F2FS
// (0xf5). forbiddenTops are numbers without their last byte, of terminals and consoles. A driver has the same type ('T'
// of NVIDIA's nvgpu), but its numbers have a direction and a size in the upper half.
var (
	forbiddenTypes = []uint32{0x89, 0x12, 0xb7, 'f', 'X', 'v', 'r', 0x94, 0xcf, 0xe5, 0xf5}
	forbiddenTops  = []uint32{'T', 'V'}
)

// controls returns the rule for ioctl.
func controls(devices bool) []bpf.Instruction {
	deny := refuse(unix.EPERM)
	do := []bpf.Instruction{argument(1)}
	if !devices {
		return of(unix.SYS_IOCTL, append(do, unless(ioctls, deny, permit)...)...)
	}
	n, tops, types := len(ioctls), len(forbiddenTops), len(forbiddenTypes)
	equal := func(v uint32, skip int) {
		do = append(do, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(skip)})
	}
	for i, v := range ioctls {
		equal(v, n-i+1+tops+types) // to permit
	}
	do = append(do, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xffffff00})
	for i, v := range forbiddenTops {
		equal(v<<8, tops-i+1+types) // to deny
	}
	do = append(do, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xff00})
	for i, v := range forbiddenTypes {
		equal(v<<8, types-i) // to deny
	}
	return of(unix.SYS_IOCTL, append(do, permit, deny)...)
}

// newestCall is the highest call number that existed when this list was written. Calls with higher numbers fail with
// ENOSYS, including those of the x32 ABI.
const newestCall = unix.SYS_RSEQ_SLICE_YIELD

// Offsets into struct seccomp_data.
const offsetCall, offsetArch, offsetArgs = 0, 4, 16

// refuse makes the call fail with e.
func refuse(e unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
}

var permit = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

// load reads 32 bits of struct seccomp_data.
func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }

// argument loads the lower half of argument n. If the argument is an int, the kernel reads only this half.
func argument(n int) bpf.Instruction { return load(offsetArgs + 8*uint32(n)) }

// of returns instructions that execute do if the call has the number nr. do must end with a return.
func of(nr uint32, do ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: uint8(len(do))}}, do...)
}

// unless returns instructions that execute otherwise unless the loaded word is one of the values, and then if it is.
func unless(values []uint32, otherwise, then bpf.Instruction) (out []bpf.Instruction) {
	for i, v := range values {
		out = append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - i)})
	}
	return append(out, otherwise, then)
}

// filter returns the seccomp program for process pid. devices tells whether it may control devices.
func filter(pid int, l Layers, devices bool) []bpf.Instruction {
	deny := refuse(unix.EPERM)
	p := []bpf.Instruction{
		load(offsetArch),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: nativeArch, SkipTrue: 1},
		deny,
		load(offsetCall),
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newestCall, SkipFalse: 1},
		refuse(unix.ENOSYS),
	}
	add := func(more []bpf.Instruction) { p = append(p, more...) }
	// Threads are allowed, processes are not. A filter cannot read the flags of clone3, because they are in memory. If
	// clone3 fails, C libraries fall back to clone.
	add(of(unix.SYS_CLONE, argument(0), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipTrue: 1}, deny,
		permit))
	add(of(unix.SYS_CLONE3, refuse(unix.ENOSYS)))
	// Only unix stream sockets are allowed, because a datagram socket can reach other sockets without connect. CUDA
	// makes a socket of packets, which cannot do that.
	types := []uint32{unix.SOCK_STREAM}
	if devices {
		types = append(types, unix.SOCK_SEQPACKET)
	}
	var streams []uint32
	for _, t := range types {
		for flags := range uint32(4) {
			streams = append(streams, t|flags&1*unix.SOCK_NONBLOCK|flags>>1*unix.SOCK_CLOEXEC)
		}
	}
	for _, nr := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		add(
			of(
				nr, append(
					[]bpf.Instruction{argument(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1},
						deny, argument(1)},
					unless(streams, deny, permit)...)...))
	}
	// Signals, limits and process descriptors are allowed only for this process and its group.
	own := []uint32{uint32(pid), 0, uint32(-pid)}
	for _, nr := range []uint32{unix.SYS_KILL, unix.SYS_PIDFD_OPEN, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO,
		unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PRLIMIT64} {
		add(of(nr, append([]bpf.Instruction{argument(0)}, unless(own, deny, permit)...)...))
	}
	// The process must die with the host, so it may not clear the parent-death signal.
	add(
		of(
			unix.SYS_PRCTL,
			append([]bpf.Instruction{argument(0)}, unless([]uint32{unix.PR_SET_PDEATHSIG}, permit, deny)...)...))
	// Leases make other programs wait when they open the artifact. Notifications report what they do.
	operations := []uint32{unix.F_SETLEASE, unix.F_NOTIFY}
	if l.Landlock < ScopeABI {
		// The filter cannot see the target of these signals. Landlock could.
		add(of(unix.SYS_TKILL, deny))
		operations = append(operations, unix.F_SETOWN, unix.F_SETOWN_EX)
	}
	add(of(unix.SYS_FCNTL, append([]bpf.Instruction{argument(1)}, unless(operations, permit, deny)...)...))
	add(controls(devices))
	if !devices {
		add(of(unix.SYS_FLOCK, deny)) // a lock on the artifact would stop other programs; shader caches need locks
	}
	for _, nr := range append(forbidden, archForbidden...) {
		add(of(nr, deny))
	}
	return append(p, permit)
}

// restrictCalls installs the filter for this thread and for the program that it executes.
func restrictCalls(l Layers, devices bool) error {
	raw, err := bpf.Assemble(filter(os.Getpid(), l, devices))
	if err != nil {
		return err
	}
	prog := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		prog[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	// Without SPEC_ALLOW, Linux before 5.16 disables speculative store bypass for the process, which slows all its code
	// down.
	err = seccomp(unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, unsafe.Pointer(&fprog))
	if errors.Is(err, unix.EINVAL) { // Linux before 4.17 lacks the flag
		err = seccomp(unix.SECCOMP_SET_MODE_FILTER, 0, unsafe.Pointer(&fprog))
	}
	return err
}

// haveSeccomp reports whether the kernel supports filters that return an error.
func haveSeccomp() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	return seccomp(unix.SECCOMP_GET_ACTION_AVAIL, 0, unsafe.Pointer(&action)) == nil
}

func seccomp(op, flags uintptr, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, op, flags, uintptr(arg)); e != 0 {
		return e
	}
	return nil
}
