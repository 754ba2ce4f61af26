// Package device defines the interface of a backend: it loads a program and runs it. The interface does not list ops,
// and there is no RPC here.
//
// It imports core/program and below, never format, plugins, models or a command.
package device

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
)

// A Backend gives access to the devices of one kind. Its methods may be called from several goroutines.
type Backend interface {
	// Info describes the backend and lists its devices.
	Info(ctx context.Context) (Info, error)
	// Load prepares a verified program. The weights stay valid until Close of the Executable and must not be written.
	Load(ctx context.Context, l Load) (Executable, error)
	// NewState allocates zeroed memory of a size in bytes on a device. If the ID is empty, the backend chooses the same
	// device as Load does.
	NewState(ctx context.Context, device string, size int64) (State, error)
}

// Info describes a backend. `rlxrun devices` prints it, and programs are checked against it before Load.
type Info struct {
	Name    string // "cpu"
	Version string // of the backend
	// Target describes the nodes that it runs; its name is the backend's.
	Target *target.Description
	// Levels are those of Target.Levels that this machine has, best first.
	Levels   []string
	Devices  []Device // at least one, or the backend is unavailable
	MaxAlloc int64    // largest arena in bytes; 0 means no limit of its own

	Precisions []string // the values of Load.Precision; nil means "f32" only
}

// CheckPrecision returns ErrUnsupported for a value of Load.Precision that the backend does not list.
func (i Info) CheckPrecision(name string) error {
	have := i.Precisions
	if len(have) == 0 {
		have = []string{DefaultPrecision}
	}
	if slices.Contains(have, cmp.Or(name, DefaultPrecision)) {
		return nil
	}
	return diag.New(ErrUnsupported, "backend "+i.Name, "does not compute in %s; it has %s", name, strings.Join(have, ", "))
}

// DefaultPrecision is what an empty Load.Precision means, and what every backend has.
const DefaultPrecision = "f32"

// Precisions lists the names that Load.Precision may have.
func Precisions() []string { return []string{DefaultPrecision, "bf16"} }

// Device is one device of a backend.
type Device struct {
	ID       string   // the value for --device, unique within the backend
	Name     string   // product name
	Type     string   // one of DeviceTypes
	Memory   int64    // bytes
	Features []string // for example "avx512f", "4 threads"
}

// Load is a request to load a program.
type Load struct {
	Program *program.Program
	Weights []byte // the weights section, read-only
	Mapped  bool   // Weights are whole pages of a mapping, which lasts until Close has returned; so a backend may use them in place
	Device  string // Device.ID; if empty, the backend chooses
	Threads int    // 0 means all that the process may use
	// Precision of the operands of matrix products and attention: "" or "f32", or "bf16", which rounds them to bfloat16.
	// Sums and everything else are f32 either way. A backend that lacks it returns ErrUnsupported and never uses another.
	Precision string
}

// An Executable is a loaded program. Runs of one Executable do not overlap.
type Executable interface {
	// Kernels reports how each distinct op of the program is run.
	Kernels() []Kernel
	// Memory is an upper bound of the bytes that runs use beside arena, weights, inputs and outputs: the scratch memory
	// of kernels and definitions. It counts only what grows with the program's sizes.
	Memory() int64
	// Run executes the program once. A cancelled context ends it between two steps.
	Run(ctx context.Context, r Run) (Stats, error)
	Close() error
}

// Kernel is how an op is run.
type Kernel struct {
	Op     string
	Native bool // false means the slow reference implementation
}

// Run is one execution.
type Run struct {
	Syms map[string]int64 // value of each symbol, within its range
	// IO is the program's IO space (Program.IOSize bytes, aligned to 64): inputs lie at their places, outputs are written
	// to theirs. Each is dense and takes the first bytes of its place, as many as its shape under Syms needs.
	IO   []byte
	Opts RunOptions

	// State is the memory that the program keeps between runs, at least Program.StateSize bytes; nil if that is 0. If
	// the program updates it, its contents are undefined after a run that fails or is cancelled.
	State State
	// Feeds are inputs that come from a state, not from IO; Keeps are outputs that are also stored in one, after the
	// last step. No two keeps may overlap.
	Feeds, Keeps []Transfer
	// Outputs selects the outputs that are wanted; nil means all. The others, unless they are kept, are not computed, and their bytes
	// in IO are undefined.
	Outputs []bool

	// Progress, if not nil, is called with the index of each step just before it runs, and with len(Steps) at the end.
	Progress func(step int)
}

// RunOptions request more from a run than its outputs.
type RunOptions struct {
	Profile  bool  // fill Stats.Steps
	CheckNaN bool  // stop at the first step whose output has a NaN
	Dump     []int // nodes whose values Observe gets, in the order of steps and of a step's results
	// Observe gets the value of a node of Dump. The data belongs to the backend and may change after Observe returns.
	// An error ends the run, which returns it.
	Observe func(node int, shape []int, data []byte) error
}

// Stats are what a run reports about itself.
type Stats struct {
	Total    time.Duration
	Steps    []Step // when RunOptions.Profile is set
	Clock    string // that measured Steps: HostClock or DeviceClock; empty means HostClock
	PeakRSS  int64  // bytes, of the backend's process; set by what serves the backend
	FirstNaN int    // node; -1 for none, or not checked

	// DeviceMemory is the size of the executable's buffers in a device's own memory, in bytes; 0 if the device uses the host's.
	DeviceMemory int64
}

// Values of Stats.Clock. The host's clock measures a step until the host notices its end. The device's clock is read on
// the device, between the steps, and excludes the host's overhead.
const (
	HostClock   = "host"
	DeviceClock = "device"
)

// Step is the time of one step.
type Step struct {
	Node  int           // in the program's graph
	Start time.Duration // since the start of the run
	Time  time.Duration
}

// The codes that callers act on. Messages add the backend, the step and the op.
var (
	ErrUnavailable = diag.Define("RLX6001", "no device", `
The backend started but found no device that it can use. For a GPU backend this usually means that no driver is installed.`)
	ErrLost = diag.Define("RLX5001", "backend lost", `
The backend's process ended, missed a deadline, or broke the protocol. The message names the step if it is known. The artifact and
the host are unharmed. Run again, and report the backend's log if it happens again.`)
	ErrDevice = diag.Define("RLX6002", "device error", `
The device or its library reported an error. The message names the step if it is known.`)
	ErrDeviceLost = diag.Define("RLX6004", "device lost", `
The driver lost the device, usually because a shader ran too long, or because the device failed or was removed. Run again. The
system's log may have the driver's reason.`)
	ErrUnsupported = diag.Define("RLX7001", "unsupported op", `
The backend does not run an op, element type or size of the program, or does not support the precision given with --precision.
Compile for another target, choose another backend, or leave --precision out.`)
	ErrMemory = diag.Define("RLX8001", "not enough memory", `
The program's arena, weights, inputs and the scratch memory of its kernels do not fit the memory that is free or allowed. The message
lists them. --memory changes the limit.`)
	ErrInput = diag.Define("RLX3001", "bad input tensor", `
An input's type, shape or value is not what the program takes; the message names the input.`)
	ErrState = diag.Define("RLX3002", "state is not valid", `
A run failed or was cancelled while it updated the state, so the state is incomplete. Reset it, import its contents, or clone another
one.`)
	ErrNaN = diag.Define("RLX1003", "a step produced NaN", `
With --check-nan, the run stops at the first step whose result has a NaN. The message names it.`)
)
