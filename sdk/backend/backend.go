// Package backend makes a backend of RLX from kernels that are written in Go and compute in the memory of the process.
// A kernel is a function and the rules for the nodes that it runs; this package does everything else: it describes the
// backend, loads programs, gives each step its operands, keeps states, measures steps, and serves the protocol.
//
//	func main() {
//		backend.Main(backend.Config{Name: "mine", Version: "1", Kernels: []backend.Kernel{
//			{Op: "neg", Takes: []string{"(f32)"}, Run: neg},
//		}})
//	}
//
// The executable is called rlx-backend-NAME. spec/ops.md says what ops compute, spec/target.md what rules can require,
// and docs/backend-tutorial.md how to test and install a backend. A backend for a device with its own memory implements
// device.Backend instead.
package backend

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
)

// Config describes a backend.
type Config struct {
	// Name is the backend's name, as in "rlxrun --backend NAME": lower-case letters, digits, _ and -.
	Name string
	// Version is the version of the backend; "1" if empty.
	Version string
	// Device is the name of the device that "rlxrun devices" shows. If empty, it is that of the processor's
	// architecture.
	Device string
	// Types are the element types of all values, including inputs and weights. Nil means those that the kernels' rules
	// name.
	Types []dtype.DType
	// Kernels has a kernel for each op.
	Kernels []Kernel
	// Reference makes the backend run ops without a kernel by their definitions, slowly, in float64. Otherwise the
	// compiler rewrites these ops with others, or refuses the model.
	Reference bool
	// Log receives what the backend logs; nil means standard error, at level info. The host shows it with --log-level.
	Log *slog.Logger
}

// Kernel runs the nodes of one op that one of its rules accepts.
type Kernel struct {
	Op string // such as "neg", or the name of a custom op such as "acme.wave" (docs/custom-ops.md)
	// Takes has the rules, each as in a target description but without "run" and the op's name: "(f32)", "(f32, i32) if
	// axis = 0".
	Takes []string
	// Run computes a step. Its error says which value of an operand is bad, such as an index out of range. The op's
	// name is put in front of the message.
	Run func(c *Call) error
	// Prepare, in place of Run, is called for each node when a program is loaded. It may make tables, and returns the
	// function that runs the node.
	Prepare func(n *ir.Node) (func(c *Call) error, error)
	// Scratch returns how many bytes of Call.Scratch a node needs for the largest sizes that the program allows; nil
	// means none.
	Scratch func(n *ir.Node) int64
}

// Call is one step of a run.
type Call struct {
	// Node is the step's node. Its attributes are Node.Attrs, for example op.SoftmaxAttrs.
	Node *ir.Node
	// In and Out are the operands and results, dense and row-major; View makes slices of their elements. In has a place
	// for each operand that the op declares. The place of an absent operand holds the zero Tensor, and nil in Node.In.
	// A result may share the memory of an operand: of any operand if the op is elementwise, of the residual of
	// fused_matmul, and of the state that an op such as kv_append updates.
	In, Out []tensor.Tensor
	// Scratch is memory for the kernel's own use, aligned to 64 bytes. Its contents are undefined.
	Scratch []byte
	// Threads is how many goroutines the kernel should use at most.
	Threads int
}

// View returns the elements of a tensor without copying them. It panics if T is not the element type's size.
func View[T tensor.Element](t tensor.Tensor) []T { return tensor.View[T](t.Data) }

// Attr returns the value of a node's attribute: a bool, int64, float64, string, []int64 or dtype.DType. For a custom
// op, the attributes are those of its definition. Attr returns nil if the node has no attribute of that name. It is
// slow: a fast kernel calls it in Prepare, not in each call.
func Attr(n *ir.Node, name string) any {
	list := n.Op.Attrs(n.Attrs)
	if a, ok := n.Attrs.(op.CustomAttrs); ok {
		list = a.Own
	}
	for _, a := range list {
		if a.Name == name {
			return a.Value
		}
	}
	return nil
}

// Main serves the backend to the host that started the process, and returns when the host ends the session. If the
// configuration is wrong, it prints why and exits with status 1.
func Main(c Config) {
	b, err := New(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	log := c.Log
	if log == nil {
		log = serve.NewLogger(slog.LevelInfo)
	}
	serve.Backend(serve.Config{Name: c.Name, Backend: b, Decode: format.DecodeProgram, Log: log})
}

// New returns the backend without serving it, for tests in the same process; devicetest.Run is the conformance suite.
// An error names what is wrong with the configuration.
func New(c Config) (device.Backend, error) {
	b := &backend{Config: c, kernels: map[string]Kernel{}}
	b.Version = cmp.Or(c.Version, "1")
	b.Device = cmp.Or(c.Device, runtime.GOARCH)
	if !target.IsName(c.Name) {
		return nil, fmt.Errorf("backend: the name is %q; want lower-case letters, digits, _ and -", c.Name)
	}
	d := &target.Description{Name: b.Name, Version: b.Version, Types: c.Types}
	for _, k := range c.Kernels {
		rules, err := k.rules()
		if err != nil {
			return nil, fmt.Errorf("backend %s: kernel of %q: %w", c.Name, k.Op, err)
		}
		if _, twice := b.kernels[k.Op]; twice {
			return nil, fmt.Errorf("backend %s: op %s has two kernels; want one, with a rule for each kind of node",
				c.Name, k.Op)
		}
		b.kernels[k.Op] = k
		d.Rules = append(d.Rules, rules...)
	}
	if d.Types == nil {
		d.Types = typesOf(d.Rules)
	}
	if c.Reference {
		d.Rules = append(d.Rules, target.Rule{How: target.Reference, Op: target.AnyOp})
	}
	b.target = d.Sort()
	if err := b.target.Check(); err != nil {
		return nil, fmt.Errorf("backend %s: %w", c.Name, err)
	}
	return b, nil
}

// rules parses the kernel's rules.
func (k Kernel) rules() (out []target.Rule, err error) {
	switch {
	case (k.Run == nil) == (k.Prepare == nil):
		return nil, fmt.Errorf("want Run or Prepare, one of them")
	case len(k.Takes) == 0:
		return nil, fmt.Errorf(`no rule in Takes; want one or more, such as "(f32)"`)
	}
	custom := op.IsCustomName(k.Op)
	for _, takes := range k.Takes {
		name := k.Op
		if custom {
			name = op.CustomDef.Name
		}
		r, err := target.ParseRule("run " + name + takes)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", takes, err)
		}
		if custom {
			r.If = append(r.If, target.Condition{Attr: "name", Rel: "=", Values: []any{k.Op}})
		}
		out = append(out, r)
	}
	return out, nil
}

// kernelOf returns the name under which the kernel of a node is registered.
func kernelOf(n *ir.Node) string {
	if a, ok := n.Attrs.(op.CustomAttrs); ok {
		return a.Name
	}
	return n.Op.Name
}

// typesOf returns the element types that rules name.
func typesOf(rules []target.Rule) (out []dtype.DType) {
	for _, r := range rules {
		for _, o := range append(slices.Clone(r.In), r.Out...) {
			for _, t := range o.Types {
				if !slices.Contains(out, t) {
					out = append(out, t)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

type backend struct {
	Config
	target  *target.Description
	kernels map[string]Kernel // by op
}

// Info describes the backend.
func (b *backend) Info(context.Context) (device.Info, error) {
	return device.Info{
		Name: b.Name, Version: b.Version, Target: b.target,
		Devices:     []device.Device{{ID: "0", Name: b.Device, Type: "cpu"}},
		SetsWeights: true,
	}, nil
}

func (b *backend) checkDevice(id string) error {
	if id != "" && id != "0" {
		return diag.New(device.ErrUnavailable, b.Name, "device %q does not exist; the only device is 0", id)
	}
	return nil
}

// NewState allocates memory that outlives runs.
func (b *backend) NewState(_ context.Context, id string, size int64) (device.State, error) {
	if err := b.checkDevice(id); err != nil {
		return nil, err
	}
	return device.NewHostState(tensor.AlignedBytes(int(size)), nil), nil
}
