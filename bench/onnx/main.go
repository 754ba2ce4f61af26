// Onnx runs the node tests of ONNX, which nodes.py writes, and prints a table of what passed, what was refused with
// which reason, and what failed.
//
//	go run ./bench/onnx [-only REGEXP] DIR
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

func main() {
	log.SetFlags(0)
	only := flag.String("only", "", "run only the tests whose names match")
	verbose := flag.Bool("v", false, "print every test")
	flag.Parse()
	pattern := regexp.MustCompile(*only)
	folders, err := filepath.Glob(filepath.Join(flag.Arg(0), "*", "model.onnx"))
	if err != nil {
		log.Fatal(err)
	}
	count := map[string]int{}
	reasons := map[string][]string{}
	for _, model := range folders {
		dir := filepath.Dir(model)
		name := filepath.Base(dir)
		if !pattern.MatchString(name) {
			continue
		}
		verdict, why := run(dir)
		count[verdict]++
		if verdict != "passed" {
			reasons[verdict+": "+why] = append(reasons[verdict+": "+why], name)
		}
		if *verbose {
			fmt.Println(verdict, name, why)
		}
	}
	var keys []string
	for k := range reasons {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return len(reasons[b]) - len(reasons[a]) })
	for _, k := range keys {
		l := reasons[k]
		if len(l) > 6 {
			l = append(slices.Clone(l[:6]), "...")
		}
		fmt.Printf("%4d %s (%s)\n", len(reasons[k]), k, strings.Join(l, " "))
	}
	fmt.Println(count)
}

var nodeName = regexp.MustCompile(`^.*?: node .*? \((\w+)\)[^:]*: `)

// run runs one test.
func run(dir string) (verdict, why string) {
	defer func() {
		if r := recover(); r != nil {
			verdict, why = "failed", fmt.Sprint("panic: ", r)
		}
	}()
	f, err := onnx.Open(filepath.Join(dir, "model.onnx"))
	if err != nil {
		return "refused", err.Error()
	}
	defer f.Close()
	ins, err := inputs(dir)
	if err != nil {
		return "refused", err.Error()
	}
	// Inputs that decide shapes, such as axes, are given at compile time if the model needs them.
	m, err := onnx.Import(f, onnx.Options{})
	if err != nil && strings.Contains(err.Error(), "not known before the model runs") {
		values := map[string][]float64{}
		for name, a := range ins {
			if !a.DType.IsFloat() && len(a.Shape) <= 1 {
				values[name] = numbers(a)
			}
		}
		if m, err = onnx.Import(f, onnx.Options{Values: values}); err != nil && strings.Contains(err.Error(), "not known before the model runs") {
			for name, a := range ins {
				if len(a.Shape) <= 1 {
					values[name] = numbers(a)
				}
			}
			m, err = onnx.Import(f, onnx.Options{Values: values})
		}
	}
	if err != nil {
		return "refused", nodeName.ReplaceAllString(err.Error(), "$1: ")
	}
	tol, err := os.ReadFile(filepath.Join(dir, "tolerance"))
	if err != nil {
		return "failed", err.Error()
	}
	var rtol, atol float64
	fmt.Sscan(string(tol), &rtol, &atol)
	if strings.Contains(string(tol), "skip") {
		return "refused", "inputs or outputs are no tensors"
	}
	syms := map[string]int64{}
	for _, n := range m.Graph.Inputs() {
		for i, d := range n.Type.Shape {
			if !d.IsStatic() {
				syms[d.String()] = int64(ins[n.Name].Shape[i])
			}
		}
	}
	for name := range ins {
		if !slices.ContainsFunc(m.Graph.Inputs(), func(n *ir.Node) bool { return n.Name == name }) {
			delete(ins, name)
		}
	}
	out, err := interp.Run(m.Graph, syms, ins, func(name string) (*tensor.Array, error) {
		t, err := m.Param(name)
		if err != nil {
			return nil, err
		}
		return t.Array(), nil
	})
	if err != nil {
		return "failed", err.Error()
	}
	for i, o := range m.Graph.Outputs {
		want, err := read(filepath.Join(dir, fmt.Sprintf("output_%d.pb", i)))
		if err != nil {
			return "failed", err.Error()
		}
		if err := compare(out[o.Name].Tensor().Array(), want, rtol, atol); err != nil {
			return "failed", err.Error()
		}
	}
	return "passed", ""
}

// inputs reads the inputs of a test.
func inputs(dir string) (map[string]*tensor.Array, error) {
	list, err := filepath.Glob(filepath.Join(dir, "input_*.pb"))
	if err != nil {
		return nil, err
	}
	out := map[string]*tensor.Array{}
	for _, path := range list {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var p onnxpb.TensorProto
		if err := proto.Unmarshal(b, &p); err != nil {
			return nil, err
		}
		t, err := onnx.Tensor(&p)
		if err != nil {
			return nil, err
		}
		out[p.GetName()] = t.Array()
	}
	return out, nil
}

// numbers returns the elements of a tensor.
func numbers(a *tensor.Array) []float64 {
	out := []float64{}
	for i := range a.Len() {
		out = append(out, a.At(i))
	}
	return out
}

// read reads a tensor.
func read(path string) (*tensor.Array, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var p onnxpb.TensorProto
	if err := proto.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	t, err := onnx.Tensor(&p)
	if err != nil {
		return nil, err
	}
	return t.Array(), nil
}

func compare(got, want *tensor.Array, rtol, atol float64) error {
	if !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("shape is %v, want %v", got.Shape, want.Shape)
	}
	if got.DType != want.DType {
		return fmt.Errorf("type is %v, want %v", got.DType, want.DType)
	}
	for i := range got.Len() {
		x, y := got.At(i), want.At(i)
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		if !(math.Abs(x-y) <= atol+rtol*math.Abs(y)) {
			return fmt.Errorf("element differs: %g, want %g", x, y)
		}
	}
	return nil
}
