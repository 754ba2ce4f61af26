package host

import (
	"os"
	"syscall"
)

// execPath returns the file's path, because there is no /proc to execute an open file.
func execPath(f *os.File, _ int) string { return f.Name() }

// restrictThread does nothing: there is no parent-death signal here, and only the lifeline ends a backend whose host
// was killed.
func restrictThread(*syscall.SysProcAttr) {}

func limitProcess(int) {}

func markCloseOnExec() error { return syscall.ENOSYS }

// reap waits for the child and then kills its group. By then the group's number may have been reused, but this system
// cannot wait for a process without reaping it.
func (p *process) reap() {
	p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	syscall.Kill(-p.pid, syscall.SIGKILL)
	p.reaped = true
}

// execErrors are errors of exec that are caused by the file.
var execErrors = []error{syscall.ENOEXEC, syscall.EACCES, syscall.ENOENT, syscall.EPERM, syscall.EBADARCH,
	syscall.EBADEXEC}

// peakRSS returns the peak resident size in bytes once exited is closed, and 0 before, when it is unknown.
func (p *process) peakRSS() int64 {
	select {
	case <-p.exited:
	default:
		return 0
	}
	st := p.cmd.ProcessState
	if st == nil { // the wait failed
		return 0
	}
	if ru, ok := st.SysUsage().(*syscall.Rusage); ok {
		return ru.Maxrss
	}
	return 0
}
