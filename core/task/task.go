// Package task describes the purpose of an artifact. Each kind of task, such as "segment", is a package below this one.
// Its description is stored in the artifact, and its code uses the description to turn images or text into tensors and
// back, without knowing any model. Kinds register themselves; a reader of artifacts knows the kinds that are linked
// into it.
//
// Tasks compute on values in memory and open no files. They must not import core/program, format, plugins or models.
package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
)

// CodeSpec is reported by Validate.
var CodeSpec = diag.Define("RLX4050", "bad task description", `
The artifact's task description is damaged, or uses a feature that this version does not know. Compile the model again.`)

// A Task describes one task of one model. Its kind's type has JSON tags with the keys of Fields.
type Task interface {
	// Kind is the name that the kind is registered under.
	Kind() string
	// Fields lists the fields that the artifact stores, by ascending key, with pointers into the description. They are
	// part of the file format.
	Fields() []Field
	// Validate checks a description that was read from a file, so that code that uses it cannot divide by zero, index
	// out of range or allocate without bound. The error is a *diag.Error with CodeSpec.
	Validate() error
	// Check compares a valid description with the methods that it names. Runtimes do not check their types again, so
	// every size that the task depends on must fit for all values of the symbols. Errors are those of Methods and
	// Method.
	Check(m Methods) error
	// CheckInput checks the elements of an input of a run if wrong values would do harm inside the model. v has the
	// input's type; its bytes need not be aligned. The error says which element is wrong and what is allowed.
	CheckInput(method, input string, v tensor.Tensor) error
	// String is one line for people: what goes in, and how much of it.
	String() string
}

// Attached is a Task that uses attachments of the artifact. An attachment is a weight of type u8[n] that no method
// reads: the bytes of a file.
type Attached interface {
	Task
	// Attachments are their names, which a reader compares with the artifact's weights.
	Attachments() []string
}

// Lenient is a Task some of whose inputs may be left out of a run.
type Lenient interface {
	Task
	// Default is the value of all elements of an input that is left out; ok is false if it must be given. The shape
	// follows from the inputs that are given.
	Default(method, input string) (value float64, ok bool)
}

// A Field is one field of a description.
type Field struct {
	Key string
	// Value is where the value is: a *bool, *int, *int32, *float64, *string, *[]byte, *[]int or *[]string; a []float64,
	// which has as many elements in every description of the kind; or a []Field, a map. Integers travel as 32 bits.
	Value any
	// Max is the most bytes of a *string or *[]byte, and the most items of a list; 0: 512. Strings in lists have at
	// most 512 bytes.
	Max int
	// Added marks a field that is newer than version 1.0 of the format. It is left out if it has its zero value, and
	// artifacts without it load. Value is a pointer.
	Added bool
}

var registered = map[string]func() Task{}

// Register adds a kind of task; empty makes a description to be filled in from its fields.
func Register(kind string, empty func() Task) struct{} {
	if kind == "" || kind == "kind" || registered[kind] != nil {
		panic("BUG: a task cannot be called " + kind + ", or two are")
	}
	registered[kind] = empty
	return struct{}{}
}

// New makes a description without values. The error names the kinds that are known.
func New(kind string) (Task, error) {
	empty, ok := registered[kind]
	if !ok {
		known := "none"
		if len(registered) > 0 {
			known = strings.ReplaceAll(strings.Trim(fmt.Sprintf("%q", slices.Sorted(maps.Keys(registered))), "[]"), " ", ", ")
		}
		return nil, fmt.Errorf("task %.40q; this version knows %s", kind, known)
	}
	return empty(), nil
}
