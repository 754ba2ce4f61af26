// Package task describes the purpose of an artifact: what a model is for, and which of its methods, inputs and outputs
// serve that. A description, such as a Segment or a Text, is stored in the artifact. The compiler makes it, and package
// format reads and checks it. Each kind is a file of this package.
//
// Programs that run models do not need this package: package segment finds objects with a model that declares a
// Segment, package text continues texts with one that declares a Text, and package patches embeds images with one that
// declares Patches.
//
// The package computes nothing but checks, and opens no files. It must not import core/program, format, plugins or
// models.
package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/tensor"
)

// A Task describes one task of one model. The type has JSON tags with the same keys as Fields.
type Task interface {
	// Kind returns the name under which the kind is registered.
	Kind() string
	// Fields lists the fields that the artifact stores, sorted by key, with pointers into the description. They are
	// part of the file format.
	Fields() []Field
	// Validate checks a description that was read from a file. It protects the code that uses the description from
	// dividing by zero, indexing out of range and unbounded allocation. The error is a *diag.Error with code.TaskSpec.
	Validate() error
	// Check compares a valid description with the methods that it names. Runtimes do not check the types again, so
	// every size that the task depends on must fit for all values of the symbols. Errors come from Methods and Method.
	Check(m Methods) error
	// CheckInput checks the elements of an input if wrong values would do harm inside the model. v has the type of the
	// input; its bytes need not be aligned. The error gives the wrong element and the allowed values.
	CheckInput(method, input string, v tensor.Tensor) error
	// String describes the inputs of the task and their sizes in one line.
	String() string
}

// Attached is a Task that uses attachments of the artifact. An attachment is a file, stored as a weight of type u8[n]
// that no method reads.
type Attached interface {
	Task
	// Attachments returns the names of the attachments. A reader checks that the artifact has weights with these names.
	Attachments() []string
}

// Lenient is a Task with inputs that a run may leave out.
type Lenient interface {
	Task
	// Default returns the value for all elements of an input that a run leaves out. ok is false if the input is
	// required. The shape follows from the other inputs.
	Default(method, input string) (value float64, ok bool)
}

// A Field is one field of the description of a task.
type Field struct {
	Key string
	// Value points to the value: a *bool, *int, *int32, *float64, *string, *[]byte, *[]int or *[]string. It may also be
	// a []float64, whose length is the same in every description of the kind, or a []Field for a nested map. Integers
	// are stored as 32 bits.
	Value any
	// Max is the maximum length of a *string or *[]byte in bytes, or the maximum number of items of a list. 0
	// means 512. Strings in lists have at most 512 bytes.
	Max int
	// Added marks a field that was added after version 1.0 of the format. Its zero value is not stored, and artifacts
	// without it load. Value must be a pointer, or a []Field, which is not stored if all of its values are zero.
	Added bool
}

var registered = map[string]func() Task{}

// Register adds a kind of task. empty returns a description whose fields a reader then fills in.
func Register(kind string, empty func() Task) struct{} {
	if kind == "" || kind == "kind" || registered[kind] != nil {
		panic("BUG: a task cannot be called " + kind + ", or two are")
	}
	registered[kind] = empty
	return struct{}{}
}

// New returns an empty description of a registered kind. The error lists the registered kinds.
func New(kind string) (Task, error) {
	empty, ok := registered[kind]
	if !ok {
		known := "none"
		if len(registered) > 0 {
			known = strings.ReplaceAll(strings.Trim(fmt.Sprintf("%q", slices.Sorted(maps.Keys(registered))), "[]"), " ",
				", ")
		}
		return nil, fmt.Errorf("task %.40q; this version knows %s", kind, known)
	}
	return empty(), nil
}
