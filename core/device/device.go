// Package device defines the interface of a backend, which loads and runs programs. The interface does not list ops,
// and does not depend on RPC.
//
// The package imports core/program and what that imports, but not format, plugins, models or a command.
package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
)

// A Backend gives access to the devices of one kind. Its methods may be called from several goroutines.
type Backend interface {
	// Info describes the backend and lists its devices.
	Info(ctx context.Context) (Info, error)
	// Load prepares a verified program. The weights are valid until the Executable is closed and must not be written.
	Load(ctx context.Context, l Load) (Executable, error)
	// NewState allocates size bytes of zeroed memory on a device. If device is empty, the backend chooses the same
	// device as Load.
	NewState(ctx context.Context, device string, size int64) (State, error)
}

// Info describes a backend. `rlxrun devices` prints it, and programs are checked against it before Load.
type Info struct {
	Name    string // such as "cpu"
	Version string // of the backend
	// Target describes the nodes that the backend runs. It has the same name as the backend.
	Target *target.Description
	// Levels are the levels of Target that this machine has, best first.
	Levels   []string
	Devices  []Device // without devices, the backend is unavailable
	MaxAlloc int64    // largest arena in bytes; 0 means no limit

	Precisions []string // values that Load.Precision may have; nil means only "f32"
	// SetsWeights reports whether the weights of a loaded program can be replaced; see WeightSetter.
	SetsWeights bool
	// RowBounds says which numbers of rows give the same bits. Nil means that no two need to.
	RowBounds *RowBounds
}

// RowBounds are numbers of rows, ascending, between which a backend changes how it adds. The result of a row has the
// same bits in two runs, whatever the other rows are, unless there is a bound of which one run has at most as many rows
// and the other one more.
type RowBounds struct {
	Products []int // of rows of the left operand
	Queries  []int // of attention
}

func (r *RowBounds) check() error {
	if r == nil {
		return nil
	}
	for _, list := range [][]int{r.Products, r.Queries} {
		for i, b := range list {
			if b < 1 || i > 0 && b <= list[i-1] {
				return fmt.Errorf("bounds of rows are %v; want positive numbers in ascending order", list)
			}
		}
	}
	return nil
}

// CheckPrecision returns ErrUnsupported unless the backend lists the precision.
func (i Info) CheckPrecision(name string) error {
	have := i.Precisions
	if len(have) == 0 {
		have = []string{DefaultPrecision}
	}
	if slices.Contains(have, cmp.Or(name, DefaultPrecision)) {
		return nil
	}
	return diag.New(ErrUnsupported, "backend "+i.Name, "does not compute in %s; it has %s", name,
		strings.Join(have, ", "))
}

// DefaultPrecision is the precision that an empty Load.Precision selects. Every backend has it.
const DefaultPrecision = "f32"

// Precisions returns all values that Load.Precision may have.
func Precisions() []string { return append(UsualPrecisions(), "tf32") }

// UsualPrecisions returns the precisions that a run may choose, unless the compiler was given others for the artifact.
func UsualPrecisions() []string { return []string{DefaultPrecision, "bf16", "f16"} }

// Device is one device of a backend.
type Device struct {
	ID       string   // selects the device with --device; unique within the backend
	Name     string   // product name
	Type     string   // one of DeviceTypes
	Memory   int64    // bytes
	Features []string // for example "avx512f", "4 threads"
}

// Load is a request to load a program.
type Load struct {
	Program *program.Program
	Weights []byte // the weights section, read-only
	// Weights are whole pages of a mapping that lasts until Close returns, so a backend may use them in place
	Mapped bool
	// IO, if not nil, is the IO of all runs: whole pages of a mapping that lasts until Close returns, so a backend may
	// use them in place. It then may write up to the next multiple of program.Align after an output, and leave outputs
	// half written when a run fails.
	IO      []byte
	Device  string // a Device.ID; if empty, the backend chooses
	Threads int    // number of threads; 0 means all that the process may use
	// Precision of the operands of matrix products and attention: "" or "f32", or "bf16" or "f16", which round them to
	// that type, or "tf32", which rounds those of products to 11 bits. Sums and all other ops use f32. A backend that
	// lacks the precision returns ErrUnsupported; it never uses another one.
	Precision string
}

// An Executable is a loaded program. Runs of one Executable do not overlap.
type Executable interface {
	// Kernels reports how the backend runs each distinct op of the program.
	Kernels() []Kernel
	// Memory returns an upper bound, in bytes, for the scratch memory of kernels and reference evaluations during a
	// run. The arena, weights, inputs and outputs are not included, and neither is memory that does not grow with the
	// program's sizes.
	Memory() int64
	// Run executes the program once. If ctx ends, Run stops between two steps and returns its error.
	Run(ctx context.Context, r Run) (Stats, error)
	Close() error
}

// Kernel says how an op runs.
type Kernel struct {
	Op     string
	Native bool // false means the slow reference implementation
}

// Run is a request to run a program once.
type Run struct {
	Syms map[string]int64 // value of each symbol, within its range
	// IO is the program's IO space: Program.IOSize bytes, aligned to 64. Inputs and outputs are at their places. Each
	// is dense and takes the first bytes of its place, as many as its shape needs.
	IO   []byte
	Opts RunOptions

	// State is the memory that the program keeps between runs, at least Program.StateSize bytes. It is nil if that
	// is 0. If the program updates the state and the run fails or is cancelled, the contents are undefined.
	State State
	// Feeds are inputs that the run reads from a state instead of IO. Keeps are outputs that are also stored in a state
	// after the last step. No two keeps may overlap.
	Feeds, Keeps []Transfer
	// Outputs selects the outputs to compute; nil means all. Outputs in Keeps are always computed. The bytes of the
	// others in IO are undefined.
	Outputs []bool

	// Progress, if not nil, is called with the index of each step before it runs, and with the number of steps at the
	// end.
	Progress func(step int)
	// Ready, if not nil, may be called during the run with the index of an output and a number of bytes: that many
	// bytes at the beginning of the output are in IO, and the run does not write them again. The number only grows.
	Ready func(output int, bytes int64)
}

// RunOptions request more from a run than its outputs.
type RunOptions struct {
	Profile  bool  // fill Stats.Steps
	CheckNaN bool  // stop at the first step that has a NaN in a result
	Dump     []int // nodes whose values Observe gets, in the order of the steps and of the results of each step
	// Observe is called with the value of each node in Dump. The data belongs to the backend and may change after
	// Observe returns. If Observe returns an error, the run ends and returns it.
	Observe func(node int, shape []int, data []byte) error
}

// Stats describe a finished run.
type Stats struct {
	Total    time.Duration
	Steps    []Step // set if RunOptions.Profile is
	Clock    string // the clock that measured Steps: HostClock or DeviceClock; empty means HostClock
	PeakRSS  int64  // of the backend's process, in bytes; set by the server of the backend
	FirstNaN int    // the first node with a NaN; -1 if there is none or NaN was not checked

	// DeviceMemory is the size in bytes of the executable's buffers in the device's own memory. It is 0 if the device
	// uses the host's memory.
	DeviceMemory int64
}

// Values of Stats.Clock. The host's clock measures a step until the host notices its end. The device's clock is read on
// the device between steps and excludes the host's overhead.
const (
	HostClock   = "host"
	DeviceClock = "device"
)

// Step is the time of one step.
type Step struct {
	Node  int           // in the program's graph
	Start time.Duration // since the start of the run
	Time  time.Duration
	FLOPs *int64 // arithmetic of the iterations of a loop that ran; nil means the number of the op's definition
}

// StepError returns the error of a step that refused the values of its operands or failed in another way. Its subject
// is the op. err comes from a kernel, which does not name the op, or from ir.OpDef.Eval, which does; StepError drops
// that name, so the message has it once. The error wraps an AtNode.
func StepError(code diag.Code, n *ir.Node, err error) *diag.Error {
	var reference *ir.EvalError
	if errors.As(err, &reference) && reference.Op == n.OpName() {
		err = reference.Err
	}
	return diag.New(code, n.OpName()+" "+n.Label(), "%w", &AtNode{n.ID, err})
}

// AtNode wraps an error of a run to say which node's step it is about. Without one, callers take it to be about the
// last step that Run.Progress reported. A backend that submits many steps at once reports progress late, so its errors
// need an AtNode.
type AtNode struct {
	Node int // in the program's graph; NoNode if the error is about several steps
	Err  error
}

// NoNode is AtNode.Node of an error that is not about one step.
const NoNode = -1

func (e *AtNode) Error() string { return e.Err.Error() }
func (e *AtNode) Unwrap() error { return e.Err }

// Error codes that backends report and that callers may act on. Messages add the backend, the step and the op.
var (
	ErrUnavailable = code.NoDevice
	ErrLost        = code.Lost
	ErrSoftware    = code.SoftwareDevice
	ErrDevice      = code.Device
	ErrDeviceLost  = code.DeviceLost
	ErrLevel       = code.Level // the processor lacks the level of the artifact's target
	ErrUnsupported = code.Unsupported
	ErrMemory      = code.Memory
	ErrInput       = code.Input
	ErrState       = code.State
	ErrNaN         = code.NaN
)
