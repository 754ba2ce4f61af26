//go:build linux || darwin

package host

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a started backend, the leader of its own process group.
type process struct {
	cmd    *exec.Cmd
	pid    int
	exited chan struct{} // closed when the process has been reaped and its group killed

	mu     sync.Mutex
	reaped bool
}

// startProcess starts cmd on its own thread, which then waits for the process. The kernel ties the parent-death signal
// to the thread that forked, not to the process, so that thread must live as long as the child. A child also inherits
// attributes of its thread; setting them here leaves the rest of the host unchanged.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	keepFiles()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with this goroutine
		restrictThread(cmd.SysProcAttr)
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		limitProcess(p.pid)
		started <- nil
		p.reap()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// inherit lets the command inherit files, and returns the files whose descriptor numbers the backend needs to know.
func (r *backendRunner) inherit(files []*os.File) ([]*os.File, error) {
	r.cmd.ExtraFiles = files
	return files, nil
}

// keepFiles marks the host's descriptors close-on-exec. Those that the host itself inherited may not be marked yet, and
// a backend must inherit only the files in ExtraFiles.
func keepFiles() {
	if markCloseOnExec() == nil {
		return
	}
	list, _ := os.ReadDir("/dev/fd") // for systems without close_range
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// signal sends sig to the process group unless the process is gone.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		syscall.Kill(-p.pid, sig)
	}
}

func (p *process) kill()      { p.signal(syscall.SIGKILL) }
func (p *process) terminate() { p.signal(syscall.SIGTERM) }

// ending describes how the process ended. Call it once exited is closed.
func (p *process) ending() string {
	st := p.cmd.ProcessState
	if st == nil {
		return "ended"
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return "was ended by " + cmp.Or(unix.SignalName(ws.Signal()), ws.Signal().String()) // some signals have no name
	}
	return "ended with " + st.String()
}

// notExecutable reports whether an error of exec is caused by the file rather than the system.
func notExecutable(err error) bool {
	for _, e := range execErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
