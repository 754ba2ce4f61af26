// Package sandbox starts a program that can access only what it was granted. Landlock restricts its files, and a
// seccomp filter its system calls. The program need not cooperate and may be hostile.
//
// A process inherits the restrictions of the process that starts it. The host cannot restrict itself, and the filter
// forbids starting processes. So the host starts its own executable again, as a launcher (see Command). The launcher
// restricts itself in an init function and then executes the program.
//
// The package imports nothing of this module.
package sandbox

// Layers are mechanisms that a kernel supports or that confine a process.
type Layers struct {
	Landlock int  // ABI version, or 0 for none
	Seccomp  bool // whether the filter of this package is used
}

// Access is what a program may do with a path. For a directory, it includes everything below it.
type Access string

// No access allows changing the owner, mode, times or extended attributes of a file.
const (
	Read  Access = "read"
	Run   Access = "run"   // read and execute
	Write Access = "write" // read, write, make and remove files, directories and sockets
	// read, write and control by ioctl, which a program without such a grant may hardly use at all
	Device Access = "device"
)

// Grant is one rule. Paths that do not exist are skipped.
type Grant struct {
	Access Access
	Paths  []string
}

// Spec holds the arguments of a launcher.
type Spec struct {
	Path   string   // path of the executable, valid in the launcher
	Args   []string // arguments of the program, including its name
	Grants []Grant
	Layers Layers // layers to apply; it is an error if one cannot be applied
	Status int    // descriptor of the pipe that the launcher reports to
}

// Unlaunched is the error of Result if no launcher wrote a report.
type Unlaunched struct{}

func (Unlaunched) Error() string {
	return "the host's executable did not act as a launcher, which only a program with a main in Go can do"
}
