// Package onnx reads ONNX models: it turns the graph of a file into a graph of core ops. Each ONNX op is converted by
// one function, and each family of ops has a file.
//
// Exporters compute sizes with Shape, Gather, Concat and arithmetic. The import evaluates these nodes, with symbols for
// open sizes, so a model with open sizes becomes one program (symbolic.go). If the number of rows of a value depends on
// the data, the value has the largest number of rows, and the import keeps track of how many are used (bounded.go,
// rows.go).
//
// It imports core/op, core/hir, core/interp and below, and models/arch for the result; compile uses it.
package onnx

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// Options say how to import a model.
type Options struct {
	// Sizes gives dimensions that the model leaves open a size or a range. The names are those of the model (its
	// dim_param), or INPUT_AXIS for a dimension without a name, such as image_0.
	Sizes map[string]Range
	// Values gives inputs a value at compile time. They are not inputs of the method. It is for models whose inputs
	// decide shapes, such as the axes of a reduction.
	Values map[string][]float64
	// Method is the name of the method. Empty means "main".
	Method string
	// Custom defines ops of other domains than ONNX's own: com.acme.gatedunit stands for the op GatedUnit of the domain
	// com.acme. It may be nil.
	Custom *custom.Library
	// Weights are shared with other models of an artifact; nil for a model alone. Sizes may then have names that only
	// another model has.
	Weights *Weights
}

// Weights are the params of several models. Those with equal types and bytes are one.
type Weights struct {
	params map[string]*initializer
	names  map[[sha256.Size]byte]string
}

// NewWeights returns weights for the first of several models.
func NewWeights() *Weights {
	return &Weights{map[string]*initializer{}, map[[sha256.Size]byte]string{}}
}

// Param returns the value of a param of any of the models.
func (w *Weights) Param(name string) (tensor.Tensor, error) {
	p := w.params[name]
	if p == nil {
		return tensor.Tensor{}, fmt.Errorf("onnx: no param %q", name)
	}
	return p.read()
}

// Range is a range of sizes, both ends included.
type Range struct{ Min, Max int64 }

// DefaultRange is the range of a dimension that Options.Sizes does not have. Memory is planned for the upper end.
var DefaultRange = Range{1, 256}

// Model is an imported model.
type Model struct {
	Graph *ir.Graph
	// Sizes are the dimensions that the model leaves open, with the names that Options.Sizes has.
	Sizes []Size
	// Producer is the program that wrote the file, such as "pytorch 2.11.0".
	Producer string
	Opset    int64

	weights *Weights
}

// Size is a dimension that the model leaves open.
type Size struct {
	Name, Symbol string // the symbol is the name, with the characters that a symbol may have
	Range
	Given bool // Options.Sizes has it
	Past  bool // it is the length of a past, which may be empty
}

// Import builds the graph of a file. The range of a size that is not given begins later than DefaultRange if the model
// needs it, such as at 4 for a model that reads the last four elements of an axis, or ends before it, such as at the
// number of positions that the model has. That of the length of a past begins at 0.
func Import(f *File, o Options) (*Model, error) {
	ranges := map[string]Range{}
	for range maxNeeds {
		m, need, err := imported(f, o, ranges)
		if err == nil {
			return withoutPast(f, o, ranges, m), nil
		}
		if need == nil || need.Given {
			return nil, err
		}
		ranges[need.Name] = need.Range
	}
	m, _, err := imported(f, o, ranges)
	return m, err
}

// maxNeeds bounds how often a size gets a smaller range.
const maxNeeds = 64

// imported builds the graph of a file. ranges has those of sizes whose range is not given, where they are not
// DefaultRange. If the import ends because one is too large, need has a smaller one.
func imported(f *File, o Options, ranges map[string]Range) (model *Model, need *Size, err error) {
	m := &Model{weights: o.Weights, Opset: f.opset("")}
	if o.Weights == nil {
		m.weights = NewWeights()
	}
	m.Producer = printable(f.proto.GetProducerName() + " " + f.proto.GetProducerVersion())
	name := o.Method
	if name == "" {
		name = "main"
	}
	if len(f.proto.GetTrainingInfo()) > 0 {
		return nil, nil, f.errorf("has training information; want a model for inference")
	}
	b := &builder{model: m, file: f, sizes: o.Sizes, ranges: ranges, given: o.Values, several: o.Weights != nil,
		g: ir.NewGraph(name), names: map[string]bool{}, graphs: map[string]bool{}, custom: o.Custom}
	b.scope = &scope{values: map[string]*value{}}
	if err := b.build(f.proto.GetGraph()); err != nil {
		return nil, b.need, err
	}
	m.Graph = b.g
	for name := range o.Sizes {
		if o.Weights == nil && !slices.ContainsFunc(m.Sizes, func(s Size) bool { return s.Name == name }) {
			var known []string
			for _, s := range m.Sizes {
				known = append(known, s.Name)
			}
			return nil, nil, diag.New(diag.Usage, "--size "+name, "the model has no such size; its open sizes are %s",
				orNone(known))
		}
	}
	return m, nil, nil
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// Param returns the value of a param of the graph.
func (m *Model) Param(name string) (tensor.Tensor, error) { return m.weights.Param(name) }

// errorf returns an error about the file.
func (f *File) errorf(format string, args ...any) *diag.Error {
	return diag.New(code.GraphText, f.path, format, args...)
}

// opset returns the version of a domain that the model uses, or 0.
func (f *File) opset(domain string) int64 {
	for _, s := range f.proto.GetOpsetImport() {
		if canonical(s.GetDomain()) == domain {
			return s.GetVersion()
		}
	}
	return 0
}

// canonical returns the empty string for the default domain, which has two names.
func canonical(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// printable returns text in one line of at most 200 characters, without those that do not print. CatBoost writes a
// paragraph as its version.
func printable(text string) string {
	space := func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }
	words := strings.FieldsFunc(strings.ToValidUTF8(text, ""), space)
	line := []rune(strings.Join(words, " "))
	return string(line[:min(len(line), 200)])
}

// functionKey names a function that the file defines.
func functionKey(domain, name string) string { return canonical(domain) + "." + name }

// functions lists the functions that the file defines.
func (f *File) functions() map[string]*onnxpb.FunctionProto {
	if f.funcs == nil {
		f.funcs = map[string]*onnxpb.FunctionProto{}
		for _, fn := range f.proto.GetFunctions() {
			f.funcs[functionKey(fn.GetDomain(), fn.GetName())] = fn
		}
	}
	return f.funcs
}
