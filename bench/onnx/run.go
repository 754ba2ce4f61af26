package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

var nodeName = regexp.MustCompile(`^.*?: node .*? \((\w+)\)[^:]*: `)

// A test is a folder with a model, inputs and outputs.
type test struct {
	dir, backend string
	rtol, atol   float64
	largest      bool // errors are measured by the largest value of the output
	given        bool // inputs were given at compile time
	random       bool // the outputs are random numbers, of which only shapes and types can be compared
	nearer       bool // an element is outside the tolerance, and nearer to the exact value than the expected one
}

// errNoTensor is the reason for tests of sequences and optional values.
var errNoTensor = errors.New("inputs or outputs are not tensors")

// unknownSize is part of the error for values that decide shapes.
const unknownSize = "not known before the model runs"

// run runs a test.
func (t *test) run(ctx context.Context) (verdict, why string) {
	defer func() {
		if r := recover(); r != nil {
			verdict, why = "failed", fmt.Sprint("panic: ", r)
		}
	}()
	if err := t.tolerance(); err != nil {
		return "refused", err.Error()
	}
	dirs, err := filepath.Glob(filepath.Join(t.dir, "size*"))
	if err != nil {
		return "refused", err.Error()
	}
	var sets []dataset
	for _, dir := range append([]string{t.dir}, dirs...) {
		var d dataset
		if d.in, err = tensors(dir, "input"); err == nil {
			d.want, err = tensors(dir, "output")
		}
		if err == nil {
			d.exact, err = tensors(dir, "exact")
		}
		if err != nil {
			return "refused", err.Error()
		}
		sets = append(sets, d)
	}
	artifact := filepath.Join(os.TempDir(), fmt.Sprintf("onnx-%d-%s.rlx", os.Getpid(), filepath.Base(t.dir)))
	defer os.Remove(artifact)
	if err := t.compile(ctx, artifact, sets); err != nil {
		return "refused",
			nodeName.ReplaceAllString(strings.TrimPrefix(err.Error(), filepath.Join(t.dir, "model.onnx")+": "), "$1: ")
	}
	session, err := rlx.Load(ctx, artifact, t.backend)
	if err != nil {
		return "failed", err.Error()
	}
	defer session.Close()
	for i, d := range sets {
		if err := t.check(ctx, session, d); err != nil {
			return "failed", fmt.Sprintf("inputs %d: %v", i, err)
		}
	}
	if t.random {
		return "passed by shape and type", ""
	}
	if t.nearer {
		return "passed, nearer to the exact value", ""
	}
	if t.given {
		return "passed with constant inputs", ""
	}
	return "passed", ""
}

// dataset has inputs, the outputs that a model should return for them, and, for some tests, these outputs in float64.
type dataset struct{ in, want, exact []named }

// check runs the model.
func (t *test) check(ctx context.Context, session *rlx.Session, d dataset) error {
	method := session.Model().Methods()[0]
	request := rlx.Request{Method: method.Name, Inputs: map[string]rlx.Tensor{}}
	for _, v := range method.Inputs {
		for _, x := range d.in {
			if onnx.Name(x.name) == v.Name {
				request.Inputs[v.Name] = rlx.Tensor{DType: elementType(x.t.DType), Shape: x.t.Shape, Data: x.t.Data}
			}
		}
	}
	result, err := session.Run(ctx, request)
	if err != nil {
		return err
	}
	for i, v := range method.Outputs {
		if i >= len(d.want) { // the number of rows of another one
			break
		}
		y := result.Outputs[v.Name]
		got := tensor.Tensor{Shape: y.Shape, Data: y.Data}
		got.DType, _ = dtype.Parse(y.DType.String())
		if n, ok := result.Outputs[v.Name+"_count"]; ok {
			got = firstRows(got, int(int64(binary.LittleEndian.Uint64(n.Data))), d.want[i].t.Shape)
		}
		var exact *tensor.Array
		if i < len(d.exact) {
			exact = d.exact[i].t.Array()
		}
		if err := t.compare(got.Array(), d.want[i].t.Array(), exact); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	return nil
}

// compile compiles the model. Inputs that decide shapes, such as axes, are given at compile time if it needs them.
func (t *test) compile(ctx context.Context, artifact string, sets []dataset) error {
	o := compile.Options{Output: artifact, Targets: []string{t.backend}}
	model := filepath.Join(t.dir, "model.onnx")
	var err error
	if o.Ranges, err = t.ranges(model, sets, false); err != nil {
		return err
	}
	in := sets[0].in
	_, err = compile.Checkpoint(ctx, model, o)
	if err != nil && strings.Contains(err.Error(), "on: --size ") { // a size may not be as small as 1
		if o.Ranges, err = t.ranges(model, sets, true); err == nil {
			_, err = compile.Checkpoint(ctx, model, o)
		}
	}
	for _, floats := range []bool{false, true} {
		if err == nil || !strings.Contains(err.Error(), unknownSize) {
			break
		}
		o.Values = map[string][]float64{}
		for i, x := range in {
			open := slices.ContainsFunc(sets, func(d dataset) bool { return !slices.Equal(d.in[i].t.Shape, x.t.Shape) })
			if !open && len(x.t.Shape) <= 1 && (floats || !x.t.DType.IsFloat()) {
				o.Values[x.name] = numbers(x.t.Array())
			}
		}
		t.given = true
		_, err = compile.Checkpoint(ctx, model, o)
	}
	return err
}

// ranges returns, for each size that the model leaves open and names, the range from 1, or the smallest of the inputs,
// to the largest. It also notes whether the outputs are random.
func (t *test) ranges(model string, sets []dataset, smallest bool) (map[string][2]int64, error) {
	b, err := os.ReadFile(model)
	if err != nil {
		return nil, err
	}
	var p onnxpb.ModelProto
	if err := proto.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	out := map[string][2]int64{}
	for _, n := range p.GetGraph().GetNode() {
		drops := strings.Contains(t.dir, "training_dropout") && !strings.Contains(t.dir, "zero_ratio")
		name := n.GetOpType()
		t.random = t.random || name == "Bernoulli" || strings.HasPrefix(name, "Random") || name == "Dropout" && drops
	}
	for _, in := range p.GetGraph().GetInput() {
		for i, d := range in.GetType().GetTensorType().GetShape().GetDim() {
			for _, set := range sets {
				k := slices.IndexFunc(set.in, func(x named) bool { return x.name == in.GetName() })
				if name := d.GetDimParam(); name != "" && k >= 0 && i < len(set.in[k].t.Shape) {
					size := int64(set.in[k].t.Shape[i])
					least := size
					if old, ok := out[name]; ok {
						least = min(old[0], size)
					}
					if !smallest {
						least = min(least, 1) // an input may have no elements
					}
					out[name] = [2]int64{least, max(out[name][1], size, 2)}
				}
			}
		}
	}
	return out, nil
}

// firstRows returns the first elements on the axis on which a bounded result has another size than the wanted one.
func firstRows(t tensor.Tensor, count int, want []int) tensor.Tensor {
	for axis := range t.Shape {
		if len(want) != len(t.Shape) || t.Shape[axis] == want[axis] || count > t.Shape[axis] {
			continue
		}
		inner := t.DType.Size() * tensor.Numel(t.Shape[axis+1:])
		out := tensor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape)}
		out.Shape[axis] = count
		for i := range tensor.Numel(t.Shape[:axis]) {
			row := t.Data[i*t.Shape[axis]*inner:]
			out.Data = append(out.Data, row[:count*inner]...)
		}
		return out
	}
	return t
}

// tolerance reads the tolerance of the test.
func (t *test) tolerance() error {
	b, err := os.ReadFile(filepath.Join(t.dir, "tolerance"))
	switch text := string(b); {
	case err != nil:
		return err
	case strings.Contains(text, "skip"):
		return errNoTensor
	case strings.HasPrefix(text, "largest"):
		t.largest = true
		_, err = fmt.Sscanf(text, "largest %g", &t.rtol)
	default:
		_, err = fmt.Sscan(text, &t.rtol, &t.atol)
	}
	return err
}

type named struct {
	name string
	t    tensor.Tensor
}

// tensors reads input_0.pb and so on.
func tensors(dir, kind string) (out []named, err error) {
	for i := 0; ; i++ {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s_%d.pb", kind, i)))
		if errors.Is(err, os.ErrNotExist) {
			return out, nil
		}
		var p onnxpb.TensorProto
		if err == nil {
			err = proto.Unmarshal(b, &p)
		}
		if err != nil {
			return nil, err
		}
		v, err := onnx.Tensor(&p)
		if err != nil {
			return nil, err
		}
		out = append(out, named{p.GetName(), v})
	}
}

// numbers returns the elements of a tensor.
func numbers(a *tensor.Array) []float64 {
	out := []float64{}
	for i := range a.Len() {
		out = append(out, a.At(i))
	}
	return out
}

// compare compares an output. Types of 16 bits may differ in their last place, because PyTorch and NumPy round more
// often than we do. An element outside the tolerance passes if it is at least as near to the exact value as the
// expected element; exact may be nil.
func (t *test) compare(got, want, exact *tensor.Array) error {
	if !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("shape is %v, want %v", got.Shape, want.Shape)
	}
	if got.DType != want.DType {
		return fmt.Errorf("type is %v, want %v", got.DType, want.DType)
	}
	if t.random {
		return nil
	}
	rtol, atol := t.rtol, t.atol
	switch got.DType {
	case dtype.BF16:
		rtol = max(rtol, 1.0/128)
	case dtype.F16:
		rtol = max(rtol, 1.0/1024)
	}
	if t.largest {
		top := 0.0
		for i := range want.Len() {
			if v := math.Abs(want.At(i)); v > top { // not for NaN
				top = v
			}
		}
		rtol, atol = 0, rtol*top
	}
	for i := range got.Len() {
		x, y := got.At(i), want.At(i)
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		if !(math.Abs(x-y) <= atol+rtol*math.Abs(y)) {
			if exact != nil && math.Abs(x-exact.At(i)) <= math.Abs(y-exact.At(i)) {
				t.nearer = true
				continue
			}
			return fmt.Errorf("element %d is %g, want %g", i, x, y)
		}
	}
	return nil
}

// elementType returns the type as package rlx has it.
func elementType(d dtype.DType) rlx.DType {
	for t := rlx.F32; t.Size() > 0; t++ {
		if t.String() == d.String() {
			return t
		}
	}
	return 0
}
