package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// launcherName is argument 0 of a launcher.
const launcherName = "rlx-sandbox"

// Messages on a launcher's status pipe.
const (
	restricted = "R" // all layers are applied, and the launcher is about to execute the program
	failed     = "F" // followed by the reason
)

// Command returns the path and arguments that start a launcher, for exec.Cmd.
func Command(s Spec) (path string, args []string) {
	b, err := json.Marshal(s)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return "/proc/self/exe", []string{launcherName, string(b)}
}

// Result reads the launcher's report. It returns when the program runs or has failed to start. If executing the program
// failed, the error is a unix.Errno.
func Result(status io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(status, 4<<10))
	if err != nil {
		return err
	}
	rest, ok := strings.CutPrefix(string(b), restricted)
	reason, bad := strings.CutPrefix(rest, failed)
	switch {
	case bad && ok:
		var e int
		fmt.Sscan(reason, &e)
		return unix.Errno(e)
	case bad:
		return errors.New(reason)
	case !ok:
		return Unlaunched{}
	}
	return nil
}

// init makes this process a launcher if Command started it. Packages are initialised on the process's first thread, and
// execve keeps that thread.
func init() {
	if len(os.Args) == 2 && os.Args[0] == launcherName {
		launch(os.Args[1])
		os.Exit(1)
	}
}

// launch restricts this process and executes the program. It returns only if that fails.
func launch(arg string) {
	var s Spec
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		fmt.Fprintln(os.Stderr, launcherName+":", err)
		return
	}
	// not supported before Linux 5.11
	if unix.CloseRange(uint(s.Status), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil {
		unix.CloseOnExec(s.Status)
	}
	report := func(text string) {
		for {
			if _, err := unix.Write(s.Status, []byte(text)); err != unix.EINTR {
				return
			}
		}
	}
	if err := restrict(s); err != nil {
		report(failed + err.Error())
		return
	}
	report(restricted)
	err := unix.Exec(s.Path, s.Args, os.Environ())
	var e unix.Errno
	errors.As(err, &e)
	report(failed + fmt.Sprint(int(e)))
}

// restrict applies the layers. The seccomp filter comes last, because it forbids system calls that the other layers
// need.
func restrict(s Spec) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if s.Layers.Landlock > 0 {
		// go-landlock would apply fewer restrictions without an error
		if has := landlockABI(); has < s.Layers.Landlock {
			return fmt.Errorf("landlock: the kernel has version %d; want %d", has, s.Layers.Landlock)
		}
		if err := restrictFiles(s.Grants); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	// If the host runs as root, the program would inherit its capabilities, which override permissions that the layers
	// rely on.
	none := [2]unix.CapUserData{}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if s.Layers.Seccomp {
		devices := slices.ContainsFunc(s.Grants, func(g Grant) bool { return g.Access == Device })
		if err := restrictCalls(s.Layers, devices); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	}
	return nil
}
