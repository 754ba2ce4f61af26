package host

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/sandbox"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// Environment variables that name the targets of the scripted backend in mode "probe".
const (
	userDirEnv = "RLX_TEST_USER_DIR" // a directory of the user, with the files secret, gone and moved
	victimEnv  = "RLX_TEST_VICTIM"   // number of a process of the user
	tcpEnv     = "RLX_TEST_TCP"      // this and the next three are listeners of the user
	udpEnv     = "RLX_TEST_UDP"
	unixEnv    = "RLX_TEST_UNIX"
	dgramEnv   = "RLX_TEST_DGRAM"
	addressEnv = "RLX_TEST_ADDRESS" // address in the memory of the victim
	layersEnv  = "RLX_TEST_LAYERS"  // layers that confine the backend, and whether it declares gpu
)

// attempt is an action that a sandbox must prevent.
type attempt struct {
	name string
	// The layers that prevent it: landlock (from version abi on), seccomp, or both.
	landlock, seccomp bool
	abi               int
	control           bool // whether it succeeds without a sandbox; if not, it is tried only if a layer prevents it
	gpuMay            bool // whether the declaration gpu allows it
	do                func() error
}

func (a attempt) stopped(l sandbox.Layers, gpu bool) bool {
	return !(gpu && a.gpuMay) && (a.landlock && l.Landlock > 0 && l.Landlock >= a.abi || a.seccomp && l.Seccomp)
}

// victim returns the number of the process to attack.
func victim() int {
	n, _ := strconv.Atoi(os.Getenv(victimEnv))
	return n
}

func userFile(name string) string { return filepath.Join(os.Getenv(userDirEnv), name) }

// call makes a system call.
func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

// closing closes f if err is nil, and returns err.
func closing(f interface{ Close() error }, err error) error {
	if err == nil {
		f.Close()
	}
	return err
}

// cString returns the address of a C string for a system call. The string is never freed.
func cString(s string) uintptr {
	b, _ := syscall.BytePtrFromString(s)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(b))
}

var kept []*byte

// attempts returns the actions that a sandbox must prevent.
func attempts() []attempt {
	own := uintptr(os.Getpid())
	target := uintptr(victim())
	var word uint64
	local := &unix.Iovec{Base: (*byte)(unsafe.Pointer(&word)), Len: 8}
	address, _ := strconv.ParseUint(os.Getenv(addressEnv), 0, 64)
	files := []attempt{
		{name: "read a file of the user's", do: func() error { _, err := os.ReadFile(userFile("secret")); return err }},
		{name: "read /etc/passwd", do: func() error { _, err := os.ReadFile("/etc/passwd"); return err }},
		{name: "list a directory of the user's", do: func() error { _, err := os.ReadDir(userFile("")); return err }},
		{name: "list /", do: func() error { _, err := os.ReadDir("/"); return err }},
		{name: "make a file", do: func() error { return os.WriteFile(userFile("new"), nil, 0o600) }},
		{name: "append to a file",
			do: func() error { return closing(os.OpenFile(userFile("secret"), os.O_APPEND|os.O_WRONLY, 0)) }},
		{name: "open a file to empty it",
			do: func() error { return closing(os.OpenFile(userFile("secret"), os.O_TRUNC|os.O_WRONLY, 0)) }},
		{name: "remove a file", do: func() error { return os.Remove(userFile("gone")) }},
		{name: "rename a file", do: func() error { return os.Rename(userFile("moved"), userFile("moved2")) }},
		{name: "make a directory", do: func() error { return os.Mkdir(userFile("dir"), 0o700) }},
		{name: "make a link", do: func() error { return os.Symlink("/", userFile("link")) }},
		{name: "link a file into the session's directory",
			do: func() error { return os.Link(userFile("secret"), "mine") }},
		{name: "open the artifact again to write", do: func() error {
			return closing(os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", artifactFD()), os.O_WRONLY, 0))
		}},
		{name: "see the sockets of all processes", gpuMay: true,
			do: func() error { _, err := os.ReadFile("/proc/self/net/unix"); return err }},
		{name: "see them through a thread", gpuMay: true, do: func() error {
			_, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/net/unix", os.Getpid()))
			return err
		}},
		{name: "read the environment of another process", do: func() error {
			_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", victim()))
			return err
		}},
		{name: "open the memory of another process", do: func() error {
			return closing(os.OpenFile(fmt.Sprintf("/proc/%d/mem", victim()), os.O_RDWR, 0))
		}},
		{name: "see the command line of another process", do: func() error {
			_, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", victim()))
			return err
		}},
		{name: "open a terminal", do: func() error { return closing(os.OpenFile("/dev/ptmx", os.O_RDWR, 0)) }},
	}
	for i := range files {
		files[i].landlock, files[i].control = true, true
	}
	calls := []attempt{
		{name: "change a mode", do: func() error { return os.Chmod(userFile("secret"), 0o644) }},
		{name: "change times", do: func() error { return os.Chtimes(userFile("secret"), time.Now(), time.Now()) }},
		{name: "change an owner", do: func() error { return os.Chown(userFile("secret"), os.Getuid(), os.Getgid()) }},
		{name: "watch a directory of the user's", do: func() error {
			fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			_, err = unix.InotifyAddWatch(fd, userFile(""), unix.IN_CREATE)
			return err
		}},
		{name: "outlive the host", do: func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) }},
		{name: "fork", do: fork},
		{name: "fork by clone3", do: func() error {
			args := [11]uint64{4: uint64(unix.SIGCHLD)}
			return forked(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
		}},
		{name: "start a program", do: func() error { return exec.Command("/bin/true").Run() }},
		{name: "speak udp", do: func() error { return dialAndWrite("udp", os.Getenv(udpEnv)) }},
		{name: "reach a unix socket", do: func() error { return closing(net.Dial("unix", os.Getenv(unixEnv))) }},
		{name: "send a unix datagram", do: func() error { return dialAndWrite("unixgram", os.Getenv(dgramEnv)) }},
		{name: "send a unix datagram without a connection", do: func() error {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: os.Getenv(dgramEnv)})
		}},
		{name: "open a netlink socket",
			do: func() error { return call(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, 0) }},
		{name: "open a multipath tcp socket",
			do: func() error { return call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP) }},
		{name: "read the memory of another process", do: func() error {
			remote := &unix.RemoteIovec{Base: uintptr(address), Len: 8}
			_, err := unix.ProcessVMReadv(victim(), []unix.Iovec{*local}, []unix.RemoteIovec{*remote}, 0)
			return err
		}},
		{name: "limit another process",
			do: func() error { return unix.Prlimit(victim(), unix.RLIMIT_CORE, &unix.Rlimit{}, nil) }},
		{name: "make a group of its own", do: func() error { return call(unix.SYS_SETPGID, 0, target) }},
		{name: "hold a descriptor of another process", do: func() error {
			fd, err := unix.PidfdOpen(victim(), 0)
			unix.Close(fd)
			return err
		}},
		{name: "hold a descriptor of the host", do: func() error {
			fd, err := unix.PidfdOpen(os.Getppid(), 0)
			unix.Close(fd)
			return err
		}},
		{name: "lock the artifact", gpuMay: true, do: func() error { return unix.Flock(artifactFD(), unix.LOCK_SH) }},
		{name: "take shared memory", do: func() error { return call(unix.SYS_SHMGET, 0, 4096, 0o600|unix.IPC_CREAT) }},
	}
	for i := range calls {
		calls[i].seccomp, calls[i].control = true, calls[i].name != "make a group of its own"
	}
	both := []attempt{
		{name: "run a program in its place", landlock: true,
			do: func() error { return unix.Exec("/bin/false", []string{"false"}, nil) }},
		{name: "dial tcp", landlock: true, abi: 4, seccomp: true, control: true,
			do: func() error { return closing(net.Dial("tcp", os.Getenv(tcpEnv))) }},
		{name: "listen on tcp", landlock: true, abi: 4, seccomp: true, control: true, do: func() error {
			var c net.ListenConfig
			c.SetMultipathTCP(false) // Landlock does not see Multipath TCP
			return closing(c.Listen(context.Background(), "tcp", "127.0.0.1:0"))
		}},
		{name: "empty a file by its path", landlock: true, abi: 3, seccomp: true, control: true,
			do: func() error { return os.Truncate(userFile("secret"), 3) }},
		{name: "trace another process", landlock: true, seccomp: true, control: true, do: func() error {
			runtime.LockOSThread()
			err := unix.PtraceSeize(victim())
			if err == nil {
				unix.PtraceDetach(victim())
			}
			return err
		}},
		{name: "signal another process", landlock: true, abi: 6, seccomp: true, control: true,
			do: func() error { return unix.Kill(victim(), 0) }},
		{name: "signal the host", landlock: true, abi: 6, seccomp: true, control: true,
			do: func() error { return unix.Kill(os.Getppid(), 0) }},
		{name: "signal a thread of another process", landlock: true, abi: 6, seccomp: true, control: true,
			do: func() error { return unix.Tgkill(victim(), victim(), 0) }},
		{name: "signal a thread by its number alone", landlock: true, abi: 6, seccomp: true, control: true,
			do: func() error { return call(unix.SYS_TKILL, target, 0) }},
		{name: "signal by a process descriptor", landlock: true, abi: 6, seccomp: true, control: true,
			do: func() error {
				fd, err := unix.PidfdOpen(victim(), 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				return unix.PidfdSendSignal(fd, 0, nil, 0)
			}},
		{name: "take a descriptor of another process", landlock: true, seccomp: true, control: true, do: func() error {
			fd, err := unix.PidfdOpen(victim(), 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			got, err := unix.PidfdGetfd(fd, 0, 0)
			if err == nil {
				unix.Close(got)
			}
			return err
		}},
	}
	// Without a sandbox, these calls fail because of their arguments.
	for name, do := range map[string]func() error{
		"mount":       func() error { return unix.Mount("none", "/nowhere", "none", 0, "") },
		"unshare":     func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"chroot":      func() error { return unix.Chroot("/nowhere") },
		"io_uring":    func() error { return call(unix.SYS_IO_URING_SETUP, 1, cString("")) },
		"bpf":         func() error { return call(unix.SYS_BPF, 0, 0, 0) },
		"perf":        func() error { return call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0) },
		"userfaultfd": func() error { return call(unix.SYS_USERFAULTFD, 1) },
		"keyctl":      func() error { return call(unix.SYS_KEYCTL, ^uintptr(0)) },
		"execveat": func() error {
			return call(unix.SYS_EXECVEAT, own, cString("/bin/false"), 0, 0, 0)
		},
		"a future call":                           func() error { return call(newestTested + 1) },
		"change the artifact's flags":             func() error { return control(artifactFD(), fsIocSetFlags) },
		"change the artifact's flags as XFS does": func() error { return control(artifactFD(), fsIocFSSetXattr) },
		"change its own file's flags": func() error {
			f, err := os.Open("/proc/self/exe")
			if err != nil {
				return err
			}
			defer f.Close()
			return control(int(f.Fd()), fsIocSetFlags)
		},
		"type into the terminal":         func() error { return control(2, unix.TIOCSTI) },
		"direct signals of a descriptor": func() error { return control(2, fioSetOwn) },
		"make others wait for the artifact": func() error {
			_, err := unix.FcntlInt(uintptr(artifactFD()), unix.F_SETLEASE, unix.F_RDLCK)
			return err
		},
		"set attributes": func() error {
			return call(unix.SYS_SETXATTR, cString(userFile("secret")), cString("user.x"), cString("y"), 1, 0)
		},
	} {
		both = append(both, attempt{name: name, seccomp: true, do: do})
	}
	return append(append(files, calls...), both...)
}

// Numbers of ioctls.
const (
	fsIocSetFlags   = 0x40086602
	fsIocFSSetXattr = 0x401c5820
	fioSetOwn       = 0x8901
	fioNBIO         = 0x5421
	fioCLEX         = 0x5451
)

// control calls ioctl with the address of zeros.
func control(fd int, cmd uintptr) error {
	var zeros [64]byte
	return call(unix.SYS_IOCTL, uintptr(fd), cmd, uintptr(unsafe.Pointer(&zeros)))
}

// artifactFD returns the inherited descriptor of the artifact, or -1.
func artifactFD() int {
	for entry := range strings.SplitSeq(os.Getenv(wire.FilesEnv), ",") {
		if fd, ok := strings.CutPrefix(entry, "artifact="); ok {
			n, _ := strconv.Atoi(fd)
			return n
		}
	}
	return -1
}

// newestTested is the newest call that existed when the filter was written.
const newestTested = unix.SYS_RSEQ_SLICE_YIELD

func dialAndWrite(network, address string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

// fork makes a process that exits at once.
func fork() error { return forked(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0) }

//go:norace
func forked(nr, a, b uintptr) error {
	pid, _, e := syscall.RawSyscall(nr, a, b, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

// permitted lists the accesses that a backend needs in a sandbox.
func permitted() []attempt {
	return []attempt{
		{name: "write in the session's directory", do: func() error { return os.WriteFile("f", []byte("x"), 0o600) }},
		{name: "make a temporary directory", do: func() error { _, err := os.MkdirTemp("", "x"); return err }},
		{name: "listen on a unix socket", do: func() error { return closing(net.Listen("unix", "sock")) }},
		{name: "read its own status", do: func() error { _, err := os.ReadFile("/proc/self/status"); return err }},
		{name: "read about its own memory", do: func() error {
			for _, name := range []string{"maps", "auxv", "cgroup", "mountinfo", "stat", "cmdline", "limits"} {
				if _, err := os.ReadFile("/proc/self/" + name); err != nil {
					return err
				}
			}
			_, err := os.ReadDir("/proc/self/fd")
			return err
		}},
		{name: "ask about a descriptor", do: func() error {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fds[0])
			defer unix.Close(fds[1])
			for _, cmd := range []uintptr{unix.TIOCINQ, fioNBIO, fioCLEX} {
				if err := control(fds[0], cmd); err != nil {
					return err
				}
			}
			for _, cmd := range []uintptr{unix.TCGETS, unix.TIOCGWINSZ} {
				if err := control(fds[0], cmd); err != unix.ENOTTY {
					return fmt.Errorf("%#x: %w", cmd, err)
				}
			}
			return nil
		}},
		{name: "hold a descriptor of itself", do: func() error {
			fd, err := unix.PidfdOpen(os.Getpid(), 0)
			unix.Close(fd)
			return err
		}},
		{name: "read its own file", do: func() error { return closing(os.Open("/proc/self/exe")) }},
		{name: "signal itself", do: func() error { return unix.Kill(os.Getpid(), 0) }},
		{name: "signal its group", do: func() error { return unix.Kill(0, 0) }},
		{name: "start a thread", do: func() error {
			done := make(chan error)
			go func() { runtime.LockOSThread(); done <- nil }()
			return <-done
		}},
	}
}

func init() {
	rpctest.Modes["probe"] = func() {
		probe()
		rpctest.Play("good")
	}
	rpctest.Modes["folder"] = func() {
		own, err := os.ReadFile(filepath.Join(os.Getenv(wire.FolderEnv), "m", "data"))
		_, other := os.ReadFile(userFile("secret"))
		werr := os.WriteFile(filepath.Join(os.Getenv(wire.FolderEnv), "m", "more"), nil, 0o600)
		exe, _ := os.Readlink("/proc/self/exe")
		fmt.Fprintf(os.Stderr, "own %q %v; other %v; write %v; runs %s\n", own, err, other != nil, werr != nil, exe)
		os.Exit(3)
	}
}

// TestFolder checks that an installed plugin can read its own folder in its sandbox, but nothing next to it, that it
// runs as a copy in memory, and that it does not start if Verify finds changed files.
func TestFolder(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "folder")
	dir := filepath.Join(opts.TempDir, "plugin")
	if err := os.MkdirAll(filepath.Join(dir, "m"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{filepath.Join(dir, "m", "data"), filepath.Join(opts.TempDir, "secret")} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.ReadFile(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	opts.Env = append(opts.Env, userDirEnv+"="+opts.TempDir)
	opts.SHA256 = sha256.Sum256(exe)
	var changed error
	opts.Folder = &Folder{Dir: dir, Verify: func() error { return changed }}
	_, err = Start(t.Context(), opts)
	denied := sandbox.Available().Landlock > 0
	wantCode(t, err, code.Exited, fmt.Sprintf(`own "x" <nil>; other %v; write %[1]v; runs /memfd:`, denied))
	opts.Folder.Declares = "gpu home"
	_, err = Start(t.Context(), opts)
	wantCode(t, err, code.Sandbox, `its installed declaration says "home"; allowed are gpu, none`)
	changed = errors.New("m/data has changed")
	_, err = Start(t.Context(), opts)
	wantCode(t, err, code.Digest, "m/data has changed")
}

// TestShaderCache checks that a backend gets no shader cache that other users could change or replace.
func TestShaderCache(t *testing.T) {
	gpu := Confinement{Allowed: []string{wordGPU}}
	for what, c := range map[string]struct {
		change func(cache string) error
		used   bool
	}{
		"its own":     {func(string) error { return nil }, true},
		"open to all": {func(cache string) error { return os.Chmod(cache, 0o777) }, false},
		"in a folder open to all": {
			func(cache string) error { return os.Chmod(filepath.Join(cache, "../.."), 0o777) }, false},
		"in a folder of another user": {func(cache string) error { return os.Chown(filepath.Dir(cache), 12345, -1) },
			false},
	} {
		base := t.TempDir()
		t.Setenv("XDG_CACHE_HOME", base)
		cache := filepath.Join(base, "rlx", "g")
		if err := os.MkdirAll(cache, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := c.change(cache); errors.Is(err, os.ErrPermission) {
			continue // only root can
		} else if err != nil {
			t.Fatal(err)
		}
		want := "XDG_CACHE_HOME=/session"
		if c.used {
			want = "XDG_CACHE_HOME=" + cache
		}
		if env := gpu.environment("g", "/session"); !slices.Contains(env, want) {
			t.Errorf("%s: %q; want %s", what, env, want)
		}
	}
}

// TestScriptFiles checks that a script in the sandbox can read OpenSSL's configuration, without which Node.js does not
// start, but not the user's files.
func TestScriptFiles(t *testing.T) {
	t.Parallel()
	const config = "/etc/ssl/openssl.cnf"
	if _, err := os.Stat(config); err != nil || sandbox.Available().Landlock == 0 {
		t.Skip(err, ", or no Landlock")
	}
	opts, _ := testOptions(t, "")
	secret := filepath.Join(opts.TempDir, "secret")
	opts.Path = filepath.Join(opts.TempDir, "b")
	script := "#!/bin/sh\nread x < " + config + " && echo config readable >&2\nread x < " + secret +
		" && echo secret readable >&2\nexit 3\n"
	if err := errors.Join(os.WriteFile(secret, []byte("x\n"), 0o600),
		os.WriteFile(opts.Path, []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), opts)
	wantCode(t, err, code.Exited, "config readable", "Permission denied")
	if strings.Contains(err.Error(), "secret readable") {
		t.Error(err)
	}
}

// TestSealedCopy checks that the bytes that run are the bytes whose digest was checked. They cannot be changed in
// between, even through the descriptor.
func TestSealedCopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "b")
	good, evil := []byte("#!/bin/sh\necho good\n"), []byte("#!/bin/sh\necho evil\n")
	if err := os.WriteFile(path, good, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := openBackend("backend b", path, Options{SHA256: sha256.Sum256(good)})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.WriteFile(path, evil, 0o755); err != nil { // in place
		t.Fatal(err)
	}
	if w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_WRONLY, 0); err == nil {
		if _, err := w.Write(evil); err == nil {
			t.Error("the copy can be written to")
		}
		w.Close()
	}
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{f}
	if out, err := cmd.Output(); err != nil || string(out) != "good\n" {
		t.Errorf("it ran %q, %v", out, err)
	}
}

// probe makes all attempts and prints their outcomes.
func probe() {
	var layers sandbox.Layers
	var gpu bool
	fmt.Sscan(os.Getenv(layersEnv), &layers.Landlock, &layers.Seccomp, &gpu)
	needed := permitted()
	for i := range needed {
		needed[i].control = true
	}
	for _, a := range append(needed, attempts()...) {
		if !a.control && !a.stopped(layers, gpu) {
			continue
		}
		result := "done"
		if err := a.do(); err != nil {
			result = err.Error()
		}
		fmt.Fprintf(os.Stderr, "probe: %s = %s\n", a.name, result)
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "CapEff:") || strings.HasPrefix(line, "CapPrm:") {
			fmt.Fprintf(os.Stderr, "probe: %s = %s\n", line[:6], strings.Fields(line)[1])
		}
	}
	if cache := os.Getenv("XDG_CACHE_HOME"); filepath.Base(cache) == "ref" { // the backend's own cache
		os.Mkdir(filepath.Join(cache, "made"), 0o700)
	}
	fmt.Fprintln(os.Stderr, "probe: end = done")
}

// probed starts a backend in mode "probe" and returns the outcomes that it printed.
func probed(t *testing.T, opts Options, log *rpctest.LogBuffer) (map[string]string, *Session) {
	user, err := os.MkdirTemp("", "rlxuser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(user) })
	for _, f := range []string{"secret", "gone", "moved"} {
		if err := os.WriteFile(filepath.Join(user, f), []byte("hunter2"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	listen := func(network, address string) string {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l.Addr().String()
	}
	packets := func(network, address string) string {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.LocalAddr().String()
	}
	opts.Env = append(opts.Env, userDirEnv+"="+user, fmt.Sprintf("%s=%d", victimEnv, sleeper.Process.Pid),
		tcpEnv+"="+listen("tcp", "127.0.0.1:0"), unixEnv+"="+listen("unix", filepath.Join(user, "s")),
		udpEnv+"="+packets("udp", "127.0.0.1:0"), dgramEnv+"="+packets("unixgram", filepath.Join(user, "d")),
		fmt.Sprintf(addressEnv+"=%#x", stackOf(t, sleeper.Process.Pid)))
	s := start(t, opts)
	results := map[string]string{}
	line := regexp.MustCompile(`msg="probe: (.*?) = (.*?)" stream`)
	for late := time.Now().Add(rpctest.HangGuard); results["end"] == ""; time.Sleep(time.Millisecond) {
		for _, m := range line.FindAllStringSubmatch(log.String(), -1) {
			results[m[1]] = m[2]
		}
		if time.Now().After(late) {
			t.Fatal("the backend did not end its attempts: ", log.String())
		}
	}
	return results, s
}

// stackOf returns an address of readable memory in a process that may have just started.
func stackOf(t *testing.T, pid int) uint64 {
	for late := time.Now().Add(rpctest.HangGuard); time.Now().Before(late); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
		if err != nil {
			t.Fatal(err)
		}
		for ; len(b) >= 16; b = b[16:] {
			if key, v := binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:]); key == 25 { // AT_RANDOM
				return v
			}
		}
	}
	t.Fatal("no AT_RANDOM")
	return 0
}

// TestForeignLinker checks that a backend cannot read a file of the user by naming it as its dynamic linker.
func TestForeignLinker(t *testing.T) {
	for linker, granted := range map[string]bool{"/lib64/ld-linux-x86-64.so.2": true, "/nix/store/x/ld.so": true,
		"/home/u/.ssh/id_ed25519": false, "/lib/../home/u/.ssh/id_ed25519": false, "/library/x": false} {
		f, err := os.Create(filepath.Join(t.TempDir(), "elf"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		header := elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB),
				byte(elf.EV_CURRENT)},
			Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Phoff: 64,
			Ehsize: 64, Phentsize: 56, Phnum: 1}
		binary.Write(f, binary.LittleEndian, header)
		binary.Write(
			f, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 120, Filesz: uint64(len(linker) + 1)})
		f.WriteString(linker + "\x00")
		found := false
		for _, g := range (Confinement{}).grants(f, 9, false, "/d", "", nil) {
			found = found || slices.Contains(g.Paths, filepath.Clean(linker))
		}
		if found != granted {
			t.Errorf("%s is granted: %v", linker, found)
		}
	}
}

// TestSandbox runs a hostile backend that tries to access files, the network, other processes and their memory. It runs
// with all layers of this system, with each layer alone, and without any. The last run shows that the attempts work
// without a sandbox.
func TestSandbox(t *testing.T) {
	has := sandbox.Available()
	t.Logf("this system has %+v", has)
	for name, layers := range map[string]sandbox.Layers{"all": has, "gpu": has, "landlock": {Landlock: has.Landlock},
		"seccomp": {Seccomp: has.Seccomp}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			defer func() { availableLayers = sandbox.Available }()
			availableLayers = func() sandbox.Layers { return layers }
			opts, log := linkedBackend(t, "probe")
			t.Setenv("XDG_CACHE_HOME", filepath.Join(opts.TempDir, "cache"))
			if name == "gpu" {
				if err := os.WriteFile(opts.Path+".sandbox", []byte("gpu\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			opts.Env = append(
				opts.Env, fmt.Sprint(layersEnv+"=", layers.Landlock, " ", layers.Seccomp, " ", name == "gpu"))
			results, s := probed(t, opts, log)
			got := s.Sandbox()
			if got.layers() != layers || (got.Reason == "") != (layers.Landlock > 0 && layers.Seccomp) {
				t.Errorf("reported %+v under %+v", got, layers)
			}
			if made, err := os.Stat(
				filepath.Join(opts.TempDir, "cache", "rlx", "ref", "made")); (err == nil) != (name == "gpu" &&
				got.confined()) {
				t.Errorf("in the backend's cache: %v, %v", made, err)
			}
			for _, a := range permitted() {
				if results[a.name] != "done" {
					t.Errorf("%s: %s", a.name, results[a.name])
				}
			}
			for _, a := range attempts() {
				r := results[a.name]
				switch denied := regexp.MustCompile(
					"permission denied|operation not permitted|function not implemented|cross-device link").MatchString(r); {
				case a.stopped(layers, name == "gpu") && !denied:
					t.Errorf("%s: %q", a.name, r)
				case name == "none" && a.control && r != "done":
					t.Errorf("%s: %q without a sandbox, so the attempt proves nothing", a.name, r)
				}
			}
			if caps := results["CapEff"] + results["CapPrm"]; layers != (sandbox.Layers{}) &&
				strings.Trim(caps, "0") != "" {
				t.Errorf("capabilities %s", caps)
			}
			if out, err := runOnce(t.Context(), t, s, 3); err != nil ||
				string(out) != string(rpctest.WantOutput(t, rpctest.Program(t), 3, rpctest.Input(3, 1))) {
				t.Errorf("a run in the sandbox: %v", err)
			}
		})
	}
}
