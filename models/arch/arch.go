// Package arch defines the interface between the compiler and model families. A family recognises a checkpoint by its
// tensors and builds the graphs. Families register themselves; the compiler knows none by name.
//
// It imports core/ir, core/task and below, never models/weights or a family.
package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/task"
)

// Checkpoint is what a family may know of a checkpoint: names and types, no values. Types are those in which the tensors
// will be stored.
type Checkpoint interface {
	Names() []string // sorted
	Type(name string) (ir.Type, bool)
}

// Architecture is a model family.
type Architecture struct {
	Name  string // "sam"
	Title string // "SAM v1 (Segment Anything)"
	// Recognise weighs the evidence for this family. It must be quick and must not fail.
	Recognise func(c Checkpoint) Evidence
	// Types are the values of model_type, in a configuration, that the family builds; none: its name.
	Types []string
	// Keys are the configuration keys that the family takes, with their meaning.
	Keys map[string]string
	// Build makes the graphs. Errors name the tensor, what was found and what was expected.
	Build func(c Checkpoint, cfg Config) (*Model, error)
}

// Builds reports whether a configuration with this model_type describes a model of the family.
func (a Architecture) Builds(modelType string) bool {
	return a.Name == modelType || slices.Contains(a.Types, modelType)
}

// Evidence is how well a checkpoint fits a family.
type Evidence struct {
	Found   []string // evidence for the family
	Missing []string // what the family needs and the checkpoint lacks
}

// Sure reports that everything the family looks for is there.
func (e Evidence) Sure() bool { return len(e.Found) > 0 && len(e.Missing) == 0 }

// Param is a tensor of the checkpoint that the graphs use.
type Param struct {
	Name   string // of the param node, and in the artifact
	Source string // in the checkpoint
}

// Attachment is a file that the artifact stores as a weight u8[n] that no graph reads. A task refers to it by its name.
type Attachment struct {
	Name string // "tokenizer.json"
	Data []byte // not empty
}

// Fact is one line of what was recognised.
type Fact struct{ Name, Value string }

// Unused is a tensor of the checkpoint that no method uses.
type Unused struct{ Tensor, Reason string }

// Model is what Build makes.
type Model struct {
	Arch    string
	Facts   []Fact // sizes and choices, for the user to see
	Methods []*ir.Graph
	Params  []Param
	// Skipped are tensors of the family that no method uses.
	Skipped []Unused
	Task    task.Task // nil for a model that is used by tensors alone
	// Attachments are the files that Task refers to.
	Attachments []Attachment
}

var registered = map[string]Architecture{}

// Register adds a family.
func Register(a Architecture) struct{} {
	if registered[a.Name].Name != "" {
		panic("BUG: architecture " + a.Name + " is registered twice")
	}
	registered[a.Name] = a
	return struct{}{}
}

// All lists the families by name.
func All() []Architecture {
	var out []Architecture
	for _, a := range registered {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Architecture) int { return strings.Compare(a.Name, b.Name) })
	return out
}

var (
	// ErrUnknown is a checkpoint that no family recognises for sure.
	ErrUnknown = code.Architecture
	// ErrTensor is a tensor that is missing, superfluous or of another shape than its model needs.
	ErrTensor = code.ModelTensor
	// ErrConfig is a configuration value that is unknown, malformed or contradicts the tensors.
	ErrConfig = code.ModelConfig
)

// Find chooses the family: by name, or for "auto" the only one that is sure.
func Find(name string, c Checkpoint, file string) (Architecture, error) {
	if name != "auto" {
		a, ok := registered[name]
		if !ok {
			return a, diag.New(diag.Usage, "--arch", "unknown architecture %q; known are auto, %s", name, names())
		}
		return a, nil
	}
	var sure []Architecture
	var report, likely []string
	for _, a := range All() {
		e := a.Recognise(c)
		if e.Sure() {
			sure = append(sure, a)
		}
		if len(e.Found) > 0 {
			likely = append(likely, a.Name)
		}
		report = append(report, fmt.Sprintf("%s (%s): found %s; missing %s", a.Name, a.Title, brief(e.Found), brief(e.Missing)))
	}
	if len(sure) == 1 {
		return sure[0], nil
	}
	example, choice := c.Names(), "NAME"
	if len(likely) == 1 {
		choice = likely[0] // the command to rerun, as it is
	}
	return Architecture{}, diag.New(ErrUnknown, file, "architecture not recognised among %d tensors (%s); evidence for %s", len(example), brief(example), strings.Join(report, "; for ")).
		WithHint("if it is one of these, rerun with: rlxc %s --arch %s -o OUT.rlx", file, choice)
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
