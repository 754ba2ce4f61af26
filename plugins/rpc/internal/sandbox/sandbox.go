// Package sandbox starts a program that can access only what it was granted. Landlock restricts its files, and a seccomp filter
// its system calls. The program need not cooperate and may be hostile.
//
// A process inherits the restrictions of the process that starts it. The host cannot restrict itself, and the filter forbids new
// processes, so the host starts a launcher: its own executable once more (Command). The launcher restricts itself in an init function
// and then executes the program.
//
// The package imports nothing of this module.
package sandbox

// Layers are mechanisms that a kernel supports or that confine a process.
type Layers struct {
	Landlock int  // ABI version, 0 for none
	Seccomp  bool // the filter of this package
}

// Access is what a program may do with a path and, where that is a directory, with everything below it.
type Access string

// No access allows changing the owner, mode, times or extended attributes of a file.
const (
	Read   Access = "read"
	Run    Access = "run"    // read and execute
	Write  Access = "write"  // read, write, make and remove files, directories and sockets
	Device Access = "device" // read, write and control by ioctl
)

// Grant is one rule. Paths that do not exist are skipped.
type Grant struct {
	Access Access
	Paths  []string
}

// Spec holds the arguments of a launcher.
type Spec struct {
	Path   string   // of the executable; must be valid in the launcher
	Args   []string // of the program, including its name
	Grants []Grant
	Layers Layers // layers to apply; it is an error if one cannot be applied
	Status int    // descriptor of the pipe that the launcher reports to
}

// Unlaunched is the error of Result if no launcher wrote a report.
type Unlaunched struct{}

func (Unlaunched) Error() string {
	return "this program's executable did not answer as a launcher, which needs a main in Go"
}
