// Package arch defines the interface between the compiler and model families. A family recognises a checkpoint by its
// tensors and builds the graphs. Families register themselves, so the compiler depends on no family.
//
// It imports core/ir, task and below, never models/weights or a family.
package arch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/task"
)

// Checkpoint tells a family the names and types of the tensors of a checkpoint, but not their values. Types are those
// in which the tensors will be stored.
type Checkpoint interface {
	Names() []string // sorted
	Type(name string) (ir.Type, bool)
}

// Architecture describes a model family.
type Architecture struct {
	Name  string // "sam"
	Title string // "SAM v1 (Segment Anything)"
	// Recognise returns the evidence for this family. It must be quick, and cannot fail.
	Recognise func(c Checkpoint) Evidence
	// Types lists the values of model_type that the family builds. If empty, it builds its own name.
	Types []string
	// Keys lists the configuration keys that the family reads, with their meaning.
	Keys map[string]string
	// Build builds the graphs. Errors name the tensor, its shape and the expected one.
	Build func(c Checkpoint, cfg Config) (*Model, error)
}

// Builds reports whether the family builds models with this model_type.
func (a Architecture) Builds(modelType string) bool {
	return a.Name == modelType || slices.Contains(a.Types, modelType)
}

// Evidence tells how well a checkpoint fits a family.
type Evidence struct {
	Found   []string // tensors that the family recognises
	Missing []string // tensors that the family needs and the checkpoint lacks
	// Usual lists tensors that the checkpoint lacks and that few models of the family do without. It fits for sure only
	// if its config.json has the family's model_type.
	Usual []string
}

// Sure reports whether all tensors that the family looks for are present. declared tells whether a config.json says
// that the checkpoint belongs to the family.
func (e Evidence) Sure(declared bool) bool {
	return len(e.Found) > 0 && len(e.Missing) == 0 && (declared || len(e.Usual) == 0)
}

// Param is a tensor of the checkpoint that the graphs use.
type Param struct {
	Name   string // of the param node and of the weight in the artifact
	Source string // in the checkpoint
}

// An Attachment is a file that the artifact stores as a weight u8[n]. No graph reads it; a task refers to it by name.
type Attachment struct {
	Name string // "tokenizer.json"
	Data []byte // not empty
}

// A Fact is a line about the model, shown to the user.
type Fact struct{ Name, Value string }

// An Unused is a tensor of the checkpoint that no method uses.
type Unused struct{ Tensor, Reason string }

// A Model is the result of Build.
type Model struct {
	Arch    string
	Facts   []Fact // sizes and choices, shown to the user
	Methods []*ir.Graph
	Params  []Param
	// Loss builds the graph of a loss to train the model with: input_ids and targets i64[B,T] -> loss f32[]. Nil if the
	// family cannot be trained. Its params are among Params.
	Loss func() (*ir.Graph, error)
	// Train builds the graphs of the family's own form of training, in place of Loss. Nil means that it has no such
	// form.
	Train func(o TrainOptions) (*Training, error)
	// Skipped lists tensors of the family that no method uses.
	Skipped []Unused
	Task    task.Task // nil if the model has no task and is used by tensors only
	// Attachments lists the files to which Task refers.
	Attachments []Attachment
}

// TrainOptions say how to train.
type TrainOptions struct {
	Mode      string // the value of rlxc --train
	Method    string // the name of the method of a step
	Optimizer string // one of task.Optimizers
	Batch     int    // examples of a step
}

// Training has the graphs and settings with which a family trains.
type Training struct {
	// Loss computes task.TrainLoss f32[], and perhaps other results, from inputs, params and states. The trained values
	// are its states, called task.TrainParam and a name, or become states where Trained selects params.
	Loss    *ir.Graph
	Trained func(param string) bool // nil if Loss has states
	// Init sets the states to the values of the checkpoint. Nil means a graph that sets the states of Trained.
	Init *ir.Graph
	// Rates means that each trained value has an input whose name is task.TrainRate and the value's name. It multiplies
	// the step size.
	Rates bool
	// Observe, if not nil, adds other states to a step, which read the trained values and their gradients. The names
	// are without task.TrainParam.
	Observe func(g *ir.Graph, values, gradients map[string]*ir.Node)
	Methods []*ir.Graph // others
	Task    task.Task
}

var registered = map[string]Architecture{}

// Register registers a family.
func Register(a Architecture) struct{} {
	if registered[a.Name].Name != "" {
		panic("BUG: architecture " + a.Name + " is registered twice")
	}
	registered[a.Name] = a
	return struct{}{}
}

// All returns the families, sorted by name.
func All() []Architecture {
	var out []Architecture
	for _, a := range registered {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Architecture) int { return strings.Compare(a.Name, b.Name) })
	return out
}

var (
	// ErrUnknown reports a checkpoint that fits no family for sure.
	ErrUnknown = code.Architecture
	// ErrTensor reports a tensor that is missing, unknown or misshapen.
	ErrTensor = code.ModelTensor
	// ErrConfig reports a configuration value that is unknown, malformed or contradicts the tensors.
	ErrConfig = code.ModelConfig
)

// Find returns a family by name or, for "auto", the only family that is sure. modelType is the model_type of the
// checkpoint's config.json, or empty.
func Find(name string, c Checkpoint, file, modelType string) (Architecture, error) {
	if name != "auto" {
		a, ok := registered[name]
		if !ok {
			return a, diag.New(diag.Usage, "--arch", "unknown architecture %q; known are auto, %s", name, names())
		}
		return a, nil
	}
	var all, sure []candidate
	for _, a := range All() {
		x := candidate{a, a.Recognise(c)}
		if x.Sure(a.Builds(modelType)) {
			sure = append(sure, x)
		}
		all = append(all, x)
	}
	if len(sure) == 1 {
		return sure[0].Architecture, nil
	}
	return Architecture{}, unknown(all, sure, c.Names(), file)
}

// A candidate is a family with the evidence for it.
type candidate struct {
	Architecture
	Evidence
}

// String returns "sam (SAM v1): found X, Y; missing Z".
func (x candidate) String() string {
	return fmt.Sprintf("%s (%s): found %s; missing %s", x.Name, x.Title, brief(x.Found), x.lacks())
}

// lacks lists the missing tensors.
func (x candidate) lacks() string {
	if len(x.Missing) == 0 && len(x.Usual) > 0 {
		return fmt.Sprintf("%s, or a config.json that says model_type %s", brief(x.Usual), x.Name)
	}
	return brief(append(slices.Clone(x.Usual), x.Missing...))
}

// unknown returns the error for a checkpoint for which not exactly one family is sure. It names the likeliest, and all
// in More.
func unknown(all, sure []candidate, tensors []string, file string) error {
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(len(b.Found)-len(a.Found), len(a.Missing)-len(b.Missing))
	})
	likely := slices.DeleteFunc(slices.Clone(all), func(x candidate) bool { return len(x.Found) == 0 })
	choice := "NAME"
	if len(likely) == 1 {
		choice = likely[0].Name // the hint then is a command that the user can run as it is
	}
	text := ""
	switch {
	case len(sure) > 0:
		var fit []string
		for _, x := range sure {
			fit = append(fit, x.Name)
		}
		text = "; it may be " + strings.Join(fit, " or ")
	case len(likely) > 0:
		text = fmt.Sprintf("; the likeliest is %s (%s), missing %s", likely[0].Name, likely[0].Title, likely[0].lacks())
	default:
		text = fmt.Sprintf("; none, such as %s, is evidence for a family; known are %s",
			brief(tensors[:min(1, len(tensors))]), names())
	}
	err := diag.New(ErrUnknown, file, "architecture not recognised among %d tensors%s", len(tensors), text)
	err.More = append(err.More, "tensors: "+brief(tensors))
	for _, x := range all {
		err.More = append(err.More, x.String())
	}
	return err.WithHint("if it is one of these, rerun with: rlxc %s --arch %s -o OUT.rlx", file, choice)
}

func names() string {
	var n []string
	for _, a := range All() {
		n = append(n, a.Name)
	}
	return strings.Join(n, ", ")
}

func brief(list []string) string {
	switch {
	case len(list) == 0:
		return "nothing"
	case len(list) > 4:
		return strings.Join(list[:3], ", ") + fmt.Sprintf(" and %d more", len(list)-3)
	}
	return strings.Join(list, ", ")
}
