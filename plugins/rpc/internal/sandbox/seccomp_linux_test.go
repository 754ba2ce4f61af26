//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// TestFilter runs the filter in a simulator. Tests in plugins/rpc check what the kernel does with real calls.
func TestFilter(t *testing.T) {
	const pid = 4711
	const high = 0xdeadbeef << 32 // garbage above a 32-bit int
	const deny, gone, fine = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS),
		unix.SECCOMP_RET_ALLOW
	check := func(what string, program []bpf.Instruction, arch, nr uint32, args [6]uint64, want uint32) {
		t.Helper()
		if got, err := simulate(t, program, arch, nr, args); err != nil || got != want {
			t.Errorf("%s: %#x, %v; want %#x", what, got, err, want)
		}
	}
	full, old := Layers{Landlock: ScopeABI, Seccomp: true}, Layers{Seccomp: true}
	for _, c := range []struct {
		what   string
		arch   uint32
		nr     uint32
		args   [6]uint64
		layers Layers
		want   uint32
	}{
		{"read", nativeArch, unix.SYS_READ, [6]uint64{}, full, fine},
		{"execve, which Landlock controls", nativeArch, unix.SYS_EXECVE, [6]uint64{}, full, fine},
		{"newest", nativeArch, newestCall, [6]uint64{}, full, fine},
		{"newer", nativeArch, newestCall + 1, [6]uint64{}, full, gone},
		{"x32", nativeArch, 0x40000000 | unix.SYS_READ, [6]uint64{}, full, gone},
		{"another architecture", nativeArch ^ 1, unix.SYS_READ, [6]uint64{}, full, deny},
		{"ptrace", nativeArch, unix.SYS_PTRACE, [6]uint64{}, full, deny},
		{"a thread", nativeArch, unix.SYS_CLONE, [6]uint64{unix.CLONE_THREAD | unix.CLONE_VM}, full, fine},
		{"a process", nativeArch, unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD) | unix.CLONE_VM | unix.CLONE_VFORK},
			full, deny},
		{"a process with garbage", nativeArch, unix.SYS_CLONE, [6]uint64{unix.CLONE_THREAD << 32}, full, deny},
		{"clone3", nativeArch, unix.SYS_CLONE3, [6]uint64{}, full, gone},
		{"unix stream", nativeArch, unix.SYS_SOCKET,
			[6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, full, fine},
		{"unix datagram", nativeArch, unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, full, deny},
		{"unix packets", nativeArch, unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, full, deny},
		{"unix datagrams", nativeArch, unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, full, deny},
		{"inet with garbage", nativeArch, unix.SYS_SOCKET, [6]uint64{high | unix.AF_INET, unix.SOCK_STREAM}, full,
			deny},
		{"kill itself", nativeArch, unix.SYS_KILL, [6]uint64{pid, 9}, full, fine},
		{"kill itself with garbage", nativeArch, unix.SYS_KILL, [6]uint64{high | pid, 9}, full, fine},
		{"kill its group", nativeArch, unix.SYS_KILL, [6]uint64{1<<64 - pid, 9}, full, fine},
		{"kill another", nativeArch, unix.SYS_KILL, [6]uint64{pid + 1, 9}, full, deny},
		{"kill all", nativeArch, unix.SYS_KILL, [6]uint64{1<<64 - 1, 9}, full, deny},
		{"own limits", nativeArch, unix.SYS_PRLIMIT64, [6]uint64{0, unix.RLIMIT_NOFILE}, full, fine},
		{"limits of another", nativeArch, unix.SYS_PRLIMIT64, [6]uint64{1, unix.RLIMIT_NOFILE}, full, deny},
		{"name a thread", nativeArch, unix.SYS_PRCTL, [6]uint64{unix.PR_SET_NAME}, full, fine},
		{"outlive the host", nativeArch, unix.SYS_PRCTL, [6]uint64{high | unix.PR_SET_PDEATHSIG}, full, deny},
		{"tkill under Landlock", nativeArch, unix.SYS_TKILL, [6]uint64{1, 9}, full, fine},
		{"tkill", nativeArch, unix.SYS_TKILL, [6]uint64{1, 9}, old, deny},
		{"owner of signals", nativeArch, unix.SYS_FCNTL, [6]uint64{3, high | unix.F_SETOWN}, old, deny},
		{"owner of signals under Landlock", nativeArch, unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN}, full, fine},
		{"another fcntl", nativeArch, unix.SYS_FCNTL, [6]uint64{3, unix.F_GETFL}, old, fine},
		{"a lease", nativeArch, unix.SYS_FCNTL, [6]uint64{3, high | unix.F_SETLEASE}, full, deny},
		{"watch a folder", nativeArch, unix.SYS_FCNTL, [6]uint64{3, unix.F_NOTIFY}, old, deny},
		{"a lock", nativeArch, unix.SYS_FLOCK, [6]uint64{3, unix.LOCK_EX}, full, deny},
		{"a descriptor of itself", nativeArch, unix.SYS_PIDFD_OPEN, [6]uint64{pid}, full, fine},
		{"a descriptor of another", nativeArch, unix.SYS_PIDFD_OPEN, [6]uint64{pid + 1}, full, deny},
		{"owner of signals by ioctl", nativeArch, unix.SYS_IOCTL, [6]uint64{3, high | 0x8901}, full, deny},
		{"is it a terminal", nativeArch, unix.SYS_IOCTL, [6]uint64{3, high | unix.TCGETS}, full, fine},
		{"set a terminal", nativeArch, unix.SYS_IOCTL, [6]uint64{3, unix.TCSETS}, full, deny},
		{"type into a terminal", nativeArch, unix.SYS_IOCTL, [6]uint64{3, unix.TIOCSTI}, full, deny},
		{"bytes to read", nativeArch, unix.SYS_IOCTL, [6]uint64{3, unix.TIOCINQ}, full, fine},
		{"do not wait", nativeArch, unix.SYS_IOCTL, [6]uint64{3, 0x5421}, full, fine},
		{"flags of a file", nativeArch, unix.SYS_IOCTL, [6]uint64{3, 0x40086602}, full, deny},
		{"flags of a file with garbage", nativeArch, unix.SYS_IOCTL, [6]uint64{3, high | 0x40086602}, full, deny},
		{"a call to a GPU", nativeArch, unix.SYS_IOCTL, [6]uint64{3, 0xc0206444}, full, deny},
	} {
		check(c.what, filter(pid, c.layers, false), c.arch, c.nr, c.args, c.want)
	}
	for _, c := range []struct {
		what string
		cmd  uint64
		want uint32
	}{
		{"a call to a GPU", 0xc0206444, fine}, {"NVIDIA", 0xc020462a, fine}, {"nvgpu", 0x40045401, fine},
		{"switch consoles", 0x5606, deny}, {"set a terminal", unix.TCSETS, deny},
		{"is it a terminal", unix.TCGETS, fine}, {"do not wait", 0x5421, fine},
		{"type into a terminal", unix.TIOCSTI, deny}, {"type with garbage", high | unix.TIOCSTI, deny},
		{"owner of signals", 0x8901, deny},
		{"flags of a file", 0x40086602, deny}, {"attributes of a file", 0x401c5820, deny},
		{"freeze a file system", 0xc0045877, deny}, {"clone a file", 0x40049409, deny},
		{"FAT attributes", 0x40047211, deny}, {"discard blocks", 0x1277, deny}, {"user of a namespace", 0xb701, deny},
	} {
		check("with GPUs: "+c.what, filter(pid, full, true), nativeArch, unix.SYS_IOCTL, [6]uint64{3, c.cmd}, c.want)
	}
	check("with GPUs: unix packets", filter(pid, full, true), nativeArch, unix.SYS_SOCKET,
		[6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC}, fine)
	check("with GPUs: unix datagrams", filter(pid, full, true), nativeArch, unix.SYS_SOCKET,
		[6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, deny)
	check("with GPUs: a lock", filter(pid, full, true), nativeArch, unix.SYS_FLOCK, [6]uint64{3, unix.LOCK_EX}, fine)
}

// simulate runs a filter in a simulator.
func simulate(t *testing.T, program []bpf.Instruction, arch, nr uint32, args [6]uint64) (uint32, error) {
	t.Helper()
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	// The simulator reads words in network byte order, and the kernel in the byte order of the processor.
	data := binary.BigEndian.AppendUint32(nil, nr)
	data = binary.BigEndian.AppendUint32(data, arch)
	data = append(data, make([]byte, 8)...) // instruction pointer
	for _, a := range args {
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	got, err := vm.Run(data)
	return uint32(got), err
}

// TestFilterOnce checks that each call has only one rule, because a second one would never be reached.
func TestFilterOnce(t *testing.T) {
	seen := map[uint32]bool{}
	for _, devices := range []bool{false, true} {
		clear(seen)
		for _, i := range filter(1, Layers{Seccomp: true}, devices) {
			// Only comparisons with call numbers skip exactly the instructions for that number.
			if j, ok := i.(bpf.JumpIf); ok && j.Cond == bpf.JumpEqual && j.SkipFalse > 0 {
				if seen[j.Val] {
					t.Errorf("call %d has two rules", j.Val)
				}
				seen[j.Val] = true
			}
		}
		if len(seen) < 90 {
			t.Errorf("%d rules", len(seen))
		}
	}
}
