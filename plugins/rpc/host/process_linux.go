package host

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/internal/peakrss"
)

// execPath returns the path by which a child executes the open file that it inherits as descriptor fd.
func execPath(_ *os.File, fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// restrictThread sets attributes that the child inherits from the forking thread: the kernel kills the child when this
// host dies, and neither the child nor its children can gain rights through set-uid files.
func restrictThread(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGKILL
	unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// markCloseOnExec marks all descriptors from 3 up close-on-exec. It fails on kernels before 5.11.
func markCloseOnExec() error { return unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// maxFiles is the limit on a backend's open files (RLIMIT_NOFILE).
const maxFiles = 1024

// limitProcess sets resource limits, which cannot be set before exec. It disables core files, because they would
// contain the user's tensors.
func limitProcess(pid int) {
	unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: maxFiles, Max: maxFiles}, nil)
}

// reap waits for the child, kills its group and then reaps it. In this order the group's number cannot have been
// reused.
func (p *process) reap() {
	for errors.Is(unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	syscall.Kill(-p.pid, syscall.SIGKILL)
	p.cmd.Wait()
	p.reaped = true
}

// execErrors are errors of exec that are caused by the file.
var execErrors = []error{syscall.ENOEXEC, syscall.EACCES, syscall.ENOENT, syscall.EPERM, syscall.EINVAL,
	syscall.ELIBBAD}

// peakRSS returns the peak resident size in bytes while the process lives, and 0 afterwards.
func (p *process) peakRSS() int64 {
	select {
	case <-p.exited:
		return 0
	default:
		return peakrss.Of(p.pid)
	}
}
