package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// execPath is the path by which a child executes the open file that it gets as descriptor fd.
func execPath(_ *os.File, fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// restrictThread sets what the child inherits from the forking thread: it dies with this host, and neither it nor
// what it starts can gain rights through set-uid files.
func restrictThread(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGKILL
	unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// markCloseOnExec marks every descriptor from 3 up. Kernels before 5.11 cannot.
func markCloseOnExec() error { return unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// maxFiles is RLIMIT_NOFILE of a backend.
const maxFiles = 1024

// limitProcess sets limits that cannot be set before exec. Core files are off, since they would contain the user's tensors.
func limitProcess(pid int) {
	unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: maxFiles, Max: maxFiles}, nil)
}

// reap waits for the child and kills its group. It kills the group before it reaps the leader: until then the group's number
// cannot be reused.
func (p *process) reap() {
	for errors.Is(unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	syscall.Kill(-p.pid, syscall.SIGKILL)
	p.cmd.Wait()
	p.reaped = true
}

// execErrors are errors of exec that are about the file.
var execErrors = []error{syscall.ENOEXEC, syscall.EACCES, syscall.ENOENT, syscall.EPERM, syscall.EINVAL, syscall.ELIBBAD}

// peakRSS is the peak resident size in bytes while the process lives, else 0.
func (p *process) peakRSS() int64 {
	select {
	case <-p.exited:
		return 0
	default:
		return peakRSSOf(p.pid)
	}
}

// OwnPeakRSS is the peak resident size of this process in bytes, 0 if the system does not report it.
func OwnPeakRSS() int64 { return peakRSSOf(os.Getpid()) }

// peakRSSOf is the peak resident size of a live process in bytes, 0 where it is not known. It does not use getrusage or
// wait, whose peak includes that of the parent process.
func peakRSSOf(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(v), []byte("kB")))), 10, 64)
			return n << 10
		}
	}
	return 0
}
