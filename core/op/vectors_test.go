package op_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// vectorFiles are made by bench/vectors, one for each family of ops.
const vectorFiles = "testdata/vectors/*.json"

// minVectors is the smallest number of vectors that an op may have.
const minVectors = 5

// exempt lists the ops that need no vectors, with the reasons.
var exempt = map[string]string{
	"input":  "a value of the caller",
	"param":  "a weight",
	"state":  "a value of earlier runs",
	"result": "part of the op before it",
	"custom": "its meaning is a graph of other ops",
	"loop":   "its meaning is graphs of other ops",
}

// pending lists ops whose vectors are still to be written. An entry must be removed when the op has enough vectors.
var pending = []string{}

// testVector has an op, its operands, and the results of another implementation.
type testVector struct {
	Line    string
	Source  string
	Inputs  map[string]string
	Results []string
	Tol     []float64 // absolute, relative
	Bits    bool      // zeros must have the same sign
	from    string    // the family, and the number of the vector in it
}

// TestVectors compares the reference with results of PyTorch, NumPy, SciPy and ONNX (bench/vectors/README.md).
func TestVectors(t *testing.T) {
	for name, vectors := range readVectors(t) {
		t.Run(name, func(t *testing.T) {
			for _, v := range vectors {
				if err := v.check(); err != nil {
					t.Errorf("%s, %s (%s): %v", v.from, v.Line, v.Source, err)
				}
			}
		})
	}
}

// TestEveryOpIsJudged checks that each op has vectors from another implementation.
func TestEveryOpIsJudged(t *testing.T) {
	vectors := readVectors(t)
	for _, def := range ir.Defs() {
		t.Run(def.Name, func(t *testing.T) {
			_, excused := exempt[def.Name]
			waits := slices.Contains(pending, def.Name)
			switch n := len(vectors[def.Name]); {
			case n < minVectors && !excused && !waits:
				t.Errorf("%s has %d vectors; want %d or more: add them to a family in bench/vectors", def.Name, n,
					minVectors)
			case n >= minVectors && waits:
				t.Errorf("%s has %d vectors; remove it from pending", def.Name, n)
			case n > 0 && excused:
				t.Errorf("%s has %d vectors; remove it from exempt", def.Name, n)
			}
		})
		delete(vectors, def.Name)
	}
	for name := range vectors {
		t.Errorf("there are vectors of %s, which is not an op", name)
	}
	for _, name := range slices.Concat(pending, slices.Collect(maps.Keys(exempt))) {
		if _, ok := ir.Find(name); !ok {
			t.Errorf("%s, in exempt or pending, is not an op", name)
		}
	}
}

// readVectors reads the vectors of all families and returns those of each op. It checks that each family has a script
// that writes it.
func readVectors(t *testing.T) map[string][]testVector {
	t.Helper()
	files, err := filepath.Glob(vectorFiles)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", vectorFiles, err)
	}
	byOp := map[string][]testVector{}
	for _, file := range files {
		family := strings.TrimSuffix(filepath.Base(file), ".json")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var vectors []testVector
		if err := json.Unmarshal(text, &vectors); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if _, err := os.Stat("../../bench/vectors/" + family + ".py"); err != nil {
			t.Errorf("%s: no script writes it: %v", file, err)
		}
		for i, v := range vectors {
			v.from = fmt.Sprintf("vector %d of %s", i, family)
			name, _, _ := strings.Cut(v.Line, " ")
			byOp[name] = append(byOp[name], v)
		}
	}
	return byOp
}

// check runs the vector's op in float64 and compares the results with those of the other implementation. It rounds
// results in f16 and bf16 first, as the other implementation did.
func (v testVector) check() error {
	tol := ir.Tolerance{Abs: 1e-11, Rel: 1e-10}
	if len(v.Tol) == 2 {
		tol = ir.Tolerance{Abs: v.Tol[0], Rel: v.Tol[1]}
	}
	g, inputs, states, want, err := v.graph()
	if err != nil {
		return err
	}
	got, err := interp.RunFrom(states, g, nil, inputs, nil)
	if err != nil {
		return err
	}
	for k, w := range want {
		x := got[fmt.Sprint("out", k)]
		if x.DType == dtype.F16 || x.DType == dtype.BF16 {
			x = x.Tensor().Array()
		}
		if err := interp.Compare(x, w, tol); err != nil {
			return fmt.Errorf("result %d: %w", k, err)
		}
		for i := range w.Floats {
			if v.Bits && math.Signbit(x.Floats[i]) != math.Signbit(w.Floats[i]) && !math.IsNaN(w.Floats[i]) {
				return fmt.Errorf("result %d: element %d is %v; want %v", k, i, x.Floats[i], w.Floats[i])
			}
		}
	}
	return nil
}

// graph returns a graph with only this op. The first operands of an op that updates states are these, one for each
// result.
func (v testVector) graph() (g *ir.Graph, inputs, states map[string]*tensor.Array, want []*tensor.Array, err error) {
	name, rest, _ := strings.Cut(v.Line, " ")
	def, ok := ir.Find(name)
	if !ok {
		return nil, nil, nil, nil, fmt.Errorf("no op %q", name)
	}
	var b strings.Builder
	inputs, states = map[string]*tensor.Array{}, map[string]*tensor.Array{}
	for _, label := range slices.Sorted(maps.Keys(v.Inputs)) {
		x, err := parseVector(v.Inputs[label])
		if err != nil {
			return nil, nil, nil, nil, fmt.Errorf("operand %s: %w", label, err)
		}
		kind, values := "input", inputs
		operands := strings.Split(rest, ", ")
		if def.Updates && slices.Contains(operands[:len(v.Results)], label) {
			kind, values = "state", states
		}
		values[label] = x
		fmt.Fprintf(&b, "%s = %s : %v\n", label, kind, interp.TypeOf(x))
	}
	var labels, types, outputs []string
	for k, text := range v.Results {
		x, err := parseVector(text)
		if err != nil {
			return nil, nil, nil, nil, fmt.Errorf("result %d: %w", k, err)
		}
		label := fmt.Sprint("out", k)
		want = append(want, x)
		labels, types, outputs = append(labels, label), append(types, interp.TypeOf(x).String()),
			append(outputs, label+"="+label)
	}
	fmt.Fprintf(&b, "%s = %s : %s\nreturn %s\n", strings.Join(labels, ", "), v.Line, strings.Join(types, ", "),
		strings.Join(outputs, ", "))
	g, err = ir.Parse(b.String())
	return g, inputs, states, want, err
}

// parseVector parses a type and its elements, such as "f32[2]: 0.5 nan".
func parseVector(text string) (*tensor.Array, error) {
	name, rest, _ := strings.Cut(text, ":")
	typ, err := ir.ParseType(name)
	if err != nil {
		return nil, err
	}
	x, fields := tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...), strings.Fields(rest)
	if len(fields) != x.Len() {
		return nil, fmt.Errorf("%d elements for %v", len(fields), typ)
	}
	for i, f := range fields {
		if x.Floats != nil {
			x.Floats[i], err = strconv.ParseFloat(f, 64)
		} else if size := typ.DType.Size(); x.Bytes != nil {
			if len(f) != 2*size {
				return nil, fmt.Errorf("element %d has %d hexadecimal digits; want %d", i, len(f), 2*size)
			}
			_, err = hex.Decode(x.Bytes[i*size:(i+1)*size], []byte(f))
		} else {
			x.Ints[i], err = strconv.ParseInt(f, 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return x, nil
}
