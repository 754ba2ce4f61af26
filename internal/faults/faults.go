//go:build linux && amd64

package faults

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Class is a kind of system call and the way it fails.
type Class struct {
	Name  string
	Calls map[uint64]string // number -> name
	Errno syscall.Errno
	// Match selects calls by their arguments; nil means all.
	Match func(r *syscall.PtraceRegs) bool
	// Sockets selects reads and writes of sockets; if false, of everything else.
	Sockets bool
	// Harmless: the call may be repeated or continued, so the command must succeed.
	Harmless bool
	// Short: instead of failing, the call transfers only one byte.
	Short bool
	// Fatal: if such a call fails, the Go runtime itself ends the process, with its own message.
	Fatal bool
}

// minAlloc is the least size of a mapping that the classes "memory" and "map" count, in bytes.
const minAlloc = 1 << 16

func large(r *syscall.PtraceRegs) bool { return r.Rsi >= minAlloc }

func private(r *syscall.PtraceRegs) bool {
	const want = unix.MAP_ANON | unix.MAP_PRIVATE
	return r.R10&want == want && large(r)
}

// Classes are the classes that tests use.
var Classes = []Class{
	{Name: "read", Calls: reads, Errno: syscall.EIO, Match: notRuntime},
	{Name: "write", Calls: writes, Errno: syscall.ENOSPC, Match: notRuntime},
	{Name: "quota", Calls: writes, Errno: syscall.EDQUOT, Match: notRuntime},
	{Name: "interrupt", Calls: union(reads, writes, opens, syncs), Errno: syscall.EINTR, Match: mayWait,
		Harmless: true},
	{Name: "short",
		Calls: map[uint64]string{unix.SYS_READ: "read", unix.SYS_PREAD64: "pread64", unix.SYS_WRITE: "write",
			unix.SYS_PWRITE64: "pwrite64"},
		Match: func(r *syscall.PtraceRegs) bool { return notRuntime(r) && r.Rdx > 1 }, Harmless: true, Short: true},
	{Name: "sync", Calls: syncs, Errno: syscall.EIO},
	{Name: "name", Errno: syscall.EACCES,
		Calls: map[uint64]string{unix.SYS_RENAME: "rename", unix.SYS_RENAMEAT: "renameat",
			unix.SYS_RENAMEAT2: "renameat2",
			unix.SYS_LINKAT:    "linkat", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_FCHMOD: "fchmod",
			unix.SYS_FCHMODAT: "fchmodat"}},
	{Name: "open", Errno: syscall.EMFILE,
		Calls: map[uint64]string{unix.SYS_OPEN: "open", unix.SYS_OPENAT: "openat",
			unix.SYS_MEMFD_CREATE: "memfd_create",
			unix.SYS_PIPE2:        "pipe2"}},
	{Name: "stat", Errno: syscall.EIO,
		Calls: map[uint64]string{unix.SYS_NEWFSTATAT: "newfstatat", unix.SYS_FSTAT: "fstat",
			unix.SYS_READLINKAT: "readlinkat",
			unix.SYS_FLOCK:      "flock"}},
	{Name: "socket", Errno: syscall.ENOBUFS,
		Calls: map[uint64]string{unix.SYS_SOCKET: "socket", unix.SYS_BIND: "bind", unix.SYS_LISTEN: "listen",
			unix.SYS_CONNECT: "connect", unix.SYS_ACCEPT4: "accept4"}},
	{Name: "map", Calls: map[uint64]string{unix.SYS_MMAP: "mmap"}, Errno: syscall.ENOMEM,
		Match: func(r *syscall.PtraceRegs) bool { return large(r) && !private(r) }},
	{Name: "process", Errno: syscall.EAGAIN, Match: notThread,
		Calls: map[uint64]string{unix.SYS_CLONE: "clone", unix.SYS_CLONE3: "clone3", unix.SYS_FORK: "fork",
			unix.SYS_VFORK: "vfork", unix.SYS_EXECVE: "execve", unix.SYS_PIDFD_OPEN: "pidfd_open"}},
	{Name: "memory", Calls: map[uint64]string{unix.SYS_MMAP: "mmap"}, Errno: syscall.ENOMEM, Match: private,
		Fatal: true},
	{Name: "receive", Calls: reads, Errno: syscall.ECONNRESET, Sockets: true},
	{Name: "send", Calls: writes, Errno: syscall.EPIPE, Sockets: true},
}

var (
	reads = map[uint64]string{unix.SYS_READ: "read", unix.SYS_PREAD64: "pread64", unix.SYS_READV: "readv",
		unix.SYS_GETDENTS64: "getdents64",
		unix.SYS_RECVMSG:    "recvmsg", unix.SYS_RECVFROM: "recvfrom"}
	opens  = map[uint64]string{unix.SYS_OPEN: "open", unix.SYS_OPENAT: "openat"}
	syncs  = map[uint64]string{unix.SYS_FSYNC: "fsync"}
	writes = map[uint64]string{unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_WRITEV: "writev",
		unix.SYS_FTRUNCATE: "ftruncate",
		unix.SYS_SENDMSG:   "sendmsg", unix.SYS_SENDTO: "sendto"}
)

func union(sets ...map[uint64]string) map[uint64]string {
	all := map[uint64]string{}
	for _, s := range sets {
		maps.Copy(all, s)
	}
	return all
}

// notRuntime excludes calls of 8 bytes: the Go runtime wakes threads with them, and os.StartProcess reports a failed
// exec. They never fail in a real kernel, and their callers do not handle that.
func notRuntime(r *syscall.PtraceRegs) bool {
	return r.Orig_rax != unix.SYS_READ && r.Orig_rax != unix.SYS_WRITE || r.Rdx != 8
}

// mayWait is like notRuntime, but also excludes opens with O_PATH, which never block.
func mayWait(r *syscall.PtraceRegs) bool {
	return notRuntime(r) && (r.Orig_rax != unix.SYS_OPENAT || r.Rdx&unix.O_PATH == 0)
}

func notThread(r *syscall.PtraceRegs) bool {
	return r.Orig_rax != unix.SYS_CLONE || r.Rdi&unix.CLONE_THREAD == 0
}

// FindClass returns the class of that name.
func FindClass(name string) (Class, bool) {
	for _, c := range Classes {
		if c.Name == name {
			return c, true
		}
	}
	return Class{}, false
}

// Command is the command to run.
type Command struct {
	Args []string // the first is the program's path
	Dir  string
	Env  []string
}

// Fault selects the call that fails.
type Fault struct {
	Class Class
	N     int  // number of the call, from 1; 0: no call fails, all are counted
	Kill  bool // kill the process at the call instead
	// Do, if not nil, is called instead of the failure. Then the call is made.
	Do func()
}

// Result describes how the command ended.
type Result struct {
	Status         int // exit status, or the negative signal number
	Stdout, Stderr string
	Calls          int    // calls of the class
	Hit            string // name of the call that failed; empty if there were fewer than N
	Hung           bool   // whether the command did not end and was killed
	Orphans        int    // processes that outlived the command and were killed
}

// Time limits for the command, and for processes that outlive it.
const (
	hangAfter   = 30 * time.Second
	orphanAfter = 5 * time.Second
)

const trampolineEnv = "RLX_FAULTS_STOP_AT"

// Main must be called at the start of main or TestMain. Run starts the same program again to install the filter; Main
// does not return in that process.
func Main() {
	calls, ok := os.LookupEnv(trampolineEnv)
	if !ok {
		return
	}
	os.Unsetenv(trampolineEnv)
	err := stopAt(calls)
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "faults:", err)
	os.Exit(99)
}

// stopAt installs a filter that stops for the tracer at the given calls, which are numbers separated by commas.
func stopAt(calls string) error {
	runtime.LockOSThread()
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // load the number of the call
	for _, c := range strings.Split(calls, ",") {
		n, err := strconv.Atoi(c)
		if err != nil {
			return err
		}
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(n)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&prog))); e != 0 {
		return fmt.Errorf("seccomp: %w", e)
	}
	return nil
}

// Run runs a command with one fault. It returns an error only if the harness itself fails, for example because ptrace
// is not permitted.
func Run(c Command, f Fault) (Result, error) {
	type answer struct {
		r   Result
		err error
	}
	done := make(chan answer)
	go func() {
		runtime.LockOSThread() // ptrace identifies the tracer by its thread; the thread ends with this goroutine
		r, err := run(c, f)
		done <- answer{r, err}
	}()
	a := <-done
	return a.r, a.err
}

// tracer traces one run.
type tracer struct {
	fault  Fault
	main   int
	armed  bool // whether the command itself has started
	result Result

	mu    sync.Mutex
	alive map[int]bool // threads
	ended *time.Timer  // set when the command has ended; kills what outlives it
}

func run(c Command, f Fault) (Result, error) {
	out, err := os.CreateTemp("", "faults")
	if err != nil {
		return Result{}, err
	}
	errs, err := os.CreateTemp("", "faults")
	if err != nil {
		return Result{}, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return Result{}, err
	}
	for _, f := range []*os.File{out, errs, null} {
		defer f.Close()
		if f != null {
			os.Remove(f.Name())
		}
	}
	self, err := os.Executable()
	if err != nil {
		return Result{}, err
	}
	var calls []string
	for n := range f.Class.Calls {
		calls = append(calls, strconv.FormatUint(n, 10))
	}
	p, err := os.StartProcess(self, append([]string{self}, c.Args...),
		&os.ProcAttr{Dir: c.Dir, Files: []*os.File{null, out, errs},
			Env: append(c.Env, trampolineEnv+"="+strings.Join(calls, ",")), Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return Result{}, err
	}
	t := &tracer{fault: f, main: p.Pid, alive: map[int]bool{p.Pid: true}}
	var ws syscall.WaitStatus
	if _, err := wait(p.Pid, &ws); err != nil {
		return Result{}, err
	}
	if !ws.Stopped() {
		return Result{}, fmt.Errorf("the command cannot be traced: status %v", ws)
	}
	const options = syscall.PTRACE_O_TRACECLONE | syscall.PTRACE_O_TRACEFORK | syscall.PTRACE_O_TRACEVFORK |
		syscall.PTRACE_O_TRACEEXEC |
		unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL
	if err := syscall.PtraceSetOptions(p.Pid, options); err != nil {
		return Result{}, err
	}
	hang := time.AfterFunc(hangAfter, t.hang)
	defer hang.Stop()
	if err := syscall.PtraceCont(p.Pid, 0); err != nil {
		return Result{}, err
	}
	if err := t.loop(); err != nil {
		return Result{}, err
	}
	t.ended.Stop()
	p.Release()
	if !t.armed {
		return Result{}, errors.New("the command did not start")
	}
	for f, to := range map[*os.File]*string{out: &t.result.Stdout, errs: &t.result.Stderr} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err != nil {
			return Result{}, err
		}
		*to = string(bytes.ToValidUTF8(b, []byte("?")))
	}
	return t.result, nil
}

func wait(pid int, ws *syscall.WaitStatus) (int, error) {
	for {
		got, err := syscall.Wait4(pid, ws, syscall.WALL, nil)
		if err != syscall.EINTR {
			return got, err
		}
	}
}

// killAll kills every process of the run and returns their number.
func (t *tracer) killAll() (n int) {
	pids := map[int]bool{}
	for tid := range t.alive {
		pids[processOf(tid)] = true
	}
	for pid := range pids {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

func (t *tracer) hang() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return
	}
	t.result.Hung = true
	syscall.Kill(t.main, syscall.SIGQUIT) // Go then prints all goroutines
	time.AfterFunc(2*time.Second, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.killAll()
	})
}

// loop handles reports about all threads until no thread is left.
func (t *tracer) loop() error {
	for {
		var ws syscall.WaitStatus
		tid, err := wait(-1, &ws)
		if err == syscall.ECHILD {
			return nil
		}
		if err != nil {
			return err
		}
		t.mu.Lock()
		signal, goOn := t.event(tid, ws)
		t.mu.Unlock()
		if !goOn {
			continue
		}
		// A thread that was killed meanwhile cannot be continued. The next wait reports its end.
		if err := syscall.PtraceCont(tid, signal); err != nil && err != syscall.ESRCH {
			return err
		}
	}
}

// event handles one report about a thread. It returns whether the thread continues, and with which signal.
func (t *tracer) event(tid int, ws syscall.WaitStatus) (signal int, goOn bool) {
	if !ws.Stopped() {
		delete(t.alive, tid)
		if tid == t.main {
			t.result.Status = ws.ExitStatus()
			if ws.Signaled() {
				t.result.Status = -int(ws.Signal())
			}
			t.ended = time.AfterFunc(orphanAfter, func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				t.result.Orphans = t.killAll()
			})
		}
		return 0, false
	}
	known := t.alive[tid]
	t.alive[tid] = true
	switch cause := ws.TrapCause(); {
	case cause == unix.PTRACE_EVENT_SECCOMP:
		if t.armed {
			t.call(tid)
		}
		return 0, true
	case cause == syscall.PTRACE_EVENT_EXEC:
		if tid == t.main {
			t.armed = true
		}
		return 0, true
	case cause > 0:
		return 0, true
	case !known && ws.StopSignal() == syscall.SIGSTOP: // the first stop of a new thread
		return 0, true
	}
	return int(ws.StopSignal()), true
}

// call handles a system call that a thread is about to make.
func (t *tracer) call(tid int) {
	var r syscall.PtraceRegs
	if syscall.PtraceGetRegs(tid, &r) != nil {
		return // the thread was killed
	}
	c := t.fault.Class
	name, ok := c.Calls[r.Orig_rax]
	if !ok || c.Match != nil && !c.Match(&r) {
		return
	}
	if reads[r.Orig_rax] != "" || writes[r.Orig_rax] != "" {
		file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, r.Rdi))
		if strings.HasPrefix(file, "socket:") != c.Sockets {
			return
		}
	}
	if t.result.Calls++; t.result.Calls != t.fault.N {
		return
	}
	t.result.Hit = describe(tid, name, &r)
	switch {
	case t.fault.Kill:
		syscall.Kill(processOf(tid), syscall.SIGKILL)
		return
	case t.fault.Do != nil:
		t.fault.Do()
		return
	case c.Short:
		r.Rdx = 1
	default:
		r.Orig_rax = ^uint64(0) // makes the kernel skip the call
		r.Rax = uint64(-int64(c.Errno))
	}
	_ = syscall.PtraceSetRegs(tid, &r)
}

func describe(tid int, name string, r *syscall.PtraceRegs) string {
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", tid))
	file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, r.Rdi))
	switch name {
	case "openat", "newfstatat", "readlinkat", "mkdirat":
		file = stringAt(tid, uintptr(r.Rsi))
	case "open", "rename", "execve":
		file = stringAt(tid, uintptr(r.Rdi))
	case "mmap":
		file = fmt.Sprintf("%d bytes, flags %#x", r.Rsi, r.R10)
	}
	if name == "read" || name == "write" {
		file += fmt.Sprintf(" (%d bytes)", r.Rdx)
	}
	return fmt.Sprintf("%s %s in %s", name, filepath.Clean(file), strings.TrimSpace(string(comm)))
}

func stringAt(tid int, addr uintptr) string {
	b := make([]byte, 256)
	n, _ := syscall.PtracePeekData(tid, addr, b)
	s, _, _ := bytes.Cut(b[:max(n, 0)], []byte{0})
	return string(s)
}

// processOf returns the process of a thread.
func processOf(tid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	for line := range strings.Lines(string(b)) {
		var pid int
		if n, _ := fmt.Sscanf(line, "Tgid: %d", &pid); n == 1 {
			return pid
		}
	}
	return tid
}
