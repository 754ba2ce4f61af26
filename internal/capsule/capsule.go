// Package capsule reads and writes capsules: files with all that is needed to repeat a run elsewhere. A capsule has the
// programs of a method, the inputs and the state of the run, the backend and its device, the versions, the error and
// the last step. It has the weights only if the user asks for them.
//
// A capsule is a safetensors file, so that other tools can read its tensors: program.0, program.1, ... (u8, as
// format.EncodeProgram makes them), input.NAME, state.NAME and weight.NAME, and at the end rlx.sha256, the SHA-256 of
// all bytes before it. The metadata has the rest as JSON, under rlx.capsule; see Manifest. A value whose element type
// safetensors lacks is stored as u8.
//
// It imports core/..., format and internal packages.
package capsule

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/safetensors"
)

// manifestKey is the name of the manifest in the metadata.
const manifestKey = "rlx.capsule"

// Version is the version of the format.
const Version = 1

// A Manifest describes a run and how it ended.
type Manifest struct {
	Version int    `json:"version"`
	Host    string `json:"host"`     // that ran it: "rlxrun 0.1.0 linux/amd64"
	Model   string `json:"model"`    // for display
	From    string `json:"artifact"` // digest of the artifact
	Method  string `json:"method"`
	Target  string `json:"target"`
	// Segments and Outputs are those of program.Split. Each source is a segment (-1: an input of the method) and an
	// index.
	Segments  []Segment        `json:"segments"`
	Outputs   [][2]int         `json:"outputs"`
	Sizes     map[string]int64 `json:"sizes"`
	Inputs    []Input          `json:"inputs"` // of the method, in order
	Backend   Backend          `json:"backend"`
	Precision string           `json:"precision"`
	Threads   int              `json:"threads"` // 0: all that the process may use
	Error     Error            `json:"error"`
	LastStep  string           `json:"last_step"` // "step 2 of 3 (softmax d)"; empty if it is not known
	Weights   bool             `json:"weights"`   // whether the capsule has them
}

// An Input is an input of the method.
type Input struct {
	Name string `json:"name"`
	Type string `json:"type"` // "f32[N,8]"
}

// A Segment has the sources of the inputs of a segment.
type Segment struct {
	Inputs [][2]int `json:"inputs"`
}

// A Backend is a backend and the device that it used.
type Backend struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Device   string   `json:"device"`
	Type     string   `json:"type"` // of the device
	Product  string   `json:"product"`
	Features []string `json:"features"`
}

// An Error is how a run ended.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Contents are the parts of a capsule other than the manifest.
type Contents struct {
	Split  *program.Split
	Inputs []tensor.Tensor          // in the order of Manifest.Inputs
	States map[string]tensor.Tensor // by name
	// Weight reads a weight; nil to leave the weights out.
	Weight func(segment int, n *ir.Node) (tensor.Tensor, error)
}

// item is a tensor of a file.
type item struct {
	name  string
	dtype dtype.DType
	shape []int
	bytes int64
	data  func() ([]byte, error)
}

// whole returns an item whose data are in memory.
func whole(name string, t tensor.Tensor) item {
	return item{name, t.DType, t.Shape, int64(len(t.Data)), func() ([]byte, error) { return t.Data, nil }}
}

func blob(name string, b []byte) item {
	return whole(name, tensor.Tensor{DType: dtype.U8, Shape: []int{len(b)}, Data: b})
}

// Write writes a capsule. It sets the fields of m that follow from the contents.
func Write(ctx context.Context, w io.Writer, m Manifest, c Contents) error {
	m.Version, m.Method, m.Target, m.Weights = Version, c.Split.Method, c.Split.Target, c.Weight != nil
	var items []item
	weights := map[string]bool{}
	for k, x := range c.Split.Segments {
		var in [][2]int
		for _, from := range x.Inputs {
			in = append(in, [2]int{from.Segment, from.Index})
		}
		m.Segments = append(m.Segments, Segment{in})
		b, err := format.EncodeProgram(x.Program)
		if err != nil {
			return err
		}
		items = append(items, blob(fmt.Sprint("program.", k), b))
		for _, n := range x.Graph.Params() {
			if c.Weight == nil || weights[n.Name] {
				continue
			}
			weights[n.Name] = true
			items = append(items, item{"weight." + n.Name, n.Type.DType, n.Type.Shape.Eval(nil), n.Type.Bytes(nil),
				func() ([]byte, error) {
					t, err := c.Weight(k, n)
					return t.Data, err
				}})
		}
	}
	for _, from := range c.Split.Outputs {
		m.Outputs = append(m.Outputs, [2]int{from.Segment, from.Index})
	}
	for i, t := range c.Inputs {
		items = append(items, whole("input."+m.Inputs[i].Name, t))
	}
	for name, t := range c.States {
		items = append(items, whole("state."+name, t))
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return writeTensors(ctx, w, map[string]string{manifestKey: string(text)}, items)
}

// WriteState writes the state of a capsule as a state file of another artifact (rlx.Session.ImportState).
func WriteState(ctx context.Context, w io.Writer, artifact string, states map[string]tensor.Tensor) error {
	var items []item
	for name, t := range states {
		items = append(items, whole(name, t))
	}
	return writeTensors(ctx, w, map[string]string{"rlx.artifact": artifact}, items)
}

// stored lists the element types that safetensors has.
var stored = []dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16, dtype.I64, dtype.I32, dtype.I16, dtype.I8,
	dtype.U32, dtype.U8, dtype.Bool}

// writeTensors writes a safetensors file that ends with its digest.
func writeTensors(ctx context.Context, w io.Writer, meta map[string]string, items []item) error {
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.name, b.name) })
	var list []safetensors.Item
	for _, x := range items {
		d, shape := strings.ToUpper(x.dtype.String()), x.shape
		if !slices.Contains(stored, x.dtype) {
			d, shape = "U8", []int{int(x.bytes)}
		}
		list = append(list, safetensors.Item{Name: x.name, DType: d, Shape: shape, Size: x.bytes,
			Write: func(to io.Writer) error {
				b, err := x.data()
				if err == nil && int64(len(b)) != x.bytes {
					err = diag.New(diag.Internal, x.name, "has %d bytes; its type has %d", len(b), x.bytes)
				}
				if err == nil {
					_, err = to.Write(b)
				}
				return err
			}})
	}
	return safetensors.WriteSigned(ctxio.NewWriter(ctx, w), meta, list)
}
