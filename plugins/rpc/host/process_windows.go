package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/rlx-go/rlx/internal/peakrss"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// process is a started backend. It runs in a job, with all processes that it starts. The job ends when its last handle
// is closed, which only this process has: so nothing of a backend outlives its host, however that ends.
type process struct {
	cmd    *exec.Cmd
	pid    int
	exited chan struct{} // closed when the process has ended and its job is gone

	mu    sync.Mutex
	job   windows.Handle // 0 when the job is gone
	owner windows.Handle // of the process, for its peak memory
}

// execPath returns the file's path, because an open file cannot be executed.
func execPath(f *os.File, _ int) string { return f.Name() }

// inherit lets the command inherit files, and returns the files whose handles the backend needs to know. A process
// inherits only handles that are marked and listed.
func (r *backendRunner) inherit(files []*os.File) ([]*os.File, error) {
	copies, err := wire.Inheritable(files)
	if err != nil {
		return nil, err
	}
	r.copies = copies
	attr := &syscall.SysProcAttr{HideWindow: true}
	for _, f := range copies {
		attr.AdditionalInheritedHandles = append(attr.AdditionalInheritedHandles, syscall.Handle(f.Fd()))
	}
	r.cmd.SysProcAttr = attr
	return copies, nil
}

// startProcess starts cmd in a job of its own. The process is suspended until it is in the job, so that all that it
// starts is in it, too. It is in a group of its own, so that Ctrl-C in a terminal is the host's alone.
func startProcess(cmd *exec.Cmd) (*process, error) {
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP
	if err := cmd.Start(); err != nil {
		windows.CloseHandle(job)
		return nil, err
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid, exited: make(chan struct{}), job: job}
	const access = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE | windows.PROCESS_QUERY_LIMITED_INFORMATION
	p.owner, err = windows.OpenProcess(access, false, uint32(p.pid))
	if err == nil {
		err = windows.AssignProcessToJobObject(job, p.owner)
	}
	if err == nil {
		err = resume(uint32(p.pid))
	}
	if err != nil {
		cmd.Process.Kill()
	}
	go p.wait()
	if err != nil {
		<-p.exited
		return nil, err
	}
	return p, nil
}

// newJob creates a job whose processes end with it. They cannot leave it.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateJobObject", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
		windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		windows.CloseHandle(job)
		return 0, os.NewSyscallError("SetInformationJobObject", err)
	}
	return job, nil
}

// resume starts the only thread of a process that was created suspended.
func resume(pid uint32) error {
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return os.NewSyscallError("CreateToolhelp32Snapshot", err)
	}
	defer windows.CloseHandle(list)
	e := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(list, &e); err == nil; err = windows.Thread32Next(list, &e) {
		if e.OwnerProcessID != pid {
			continue
		}
		t, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, e.ThreadID)
		if err != nil {
			return os.NewSyscallError("OpenThread", err)
		}
		_, err = windows.ResumeThread(t)
		windows.CloseHandle(t)
		return os.NewSyscallError("ResumeThread", err)
	}
	return errors.New("the process has no thread to resume")
}

// wait waits for the process and ends its job.
func (p *process) wait() {
	p.cmd.Wait()
	p.mu.Lock()
	windows.TerminateJobObject(p.job, killedStatus)
	windows.CloseHandle(p.job)
	p.job = 0
	windows.CloseHandle(p.owner)
	p.owner = 0
	p.mu.Unlock()
	close(p.exited)
}

// killedStatus is the exit status of a process that the host has ended.
const killedStatus = 0xc000013a // STATUS_CONTROL_C_EXIT

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job != 0 {
		windows.TerminateJobObject(p.job, killedStatus)
	}
}

// terminate is kill: there is no signal that asks a process to end.
func (p *process) terminate() { p.kill() }

// ending describes how the process ended. Call it once exited is closed.
func (p *process) ending() string {
	st := p.cmd.ProcessState
	if st == nil {
		return "ended"
	}
	// Statuses of the system, such as 0xc0000005 for an access violation, are listed in hexadecimal.
	if n := uint32(st.ExitCode()); n >= 0x80000000 {
		return fmt.Sprintf("was ended with status %#x", n)
	}
	return "ended with " + st.String()
}

// notExecutable reports whether an error of a start is caused by the file rather than the system.
func notExecutable(err error) bool {
	for _, e := range []error{windows.ERROR_BAD_EXE_FORMAT, windows.ERROR_EXE_MACHINE_TYPE_MISMATCH,
		windows.ERROR_ACCESS_DENIED, windows.ERROR_FILE_NOT_FOUND, windows.ERROR_INVALID_EXE_SIGNATURE,
		windows.ERROR_ELEVATION_REQUIRED, exec.ErrNotFound} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// peakRSS returns the peak resident size in bytes while the process lives, and 0 afterwards.
func (p *process) peakRSS() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owner == 0 {
		return 0
	}
	return peakrss.OfHandle(p.owner)
}
