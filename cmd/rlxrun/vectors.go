package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/cli"
)

func vectorsCommand() *cli.Command {
	return &cli.Command{
		Name: "plugins vectors", Args: "-o DIR [flags]", Short: "write the test cases of the ops as files",
		Long: `Writes the test cases of each op as files, for backends in other languages and machines without Go. DIR/index.json lists the cases. For each case there is the program
as a backend gets it ("A program on the wire", spec/format.md), its weights space, the bytes of its inputs, the expected outputs, and the tolerance: |got - want| <= abs +
rel*|want|. Bytes are little-endian, tensors row-major. Expected outputs of floats are f64 and not rounded. A case with "refused" has values for which a run must fail with
RLX3001 or RLX31nn.`,
		Examples: []cli.Example{
			{About: "the cases of two ops", Line: "rlxrun plugins vectors --op softmax --op conv2d -o vectors"}},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var ops cli.List
			var dir string
			fs.StringVarP(&dir, "output", "o", "", "`DIR` directory to create")
			fs.ListVarP(&ops, "op", "", "`OP` only this op (repeatable)")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) > 0 {
					return cli.Usagef("plugins vectors", "takes no arguments; found %q", args[0])
				}
				if dir == "" {
					return cli.Usagef("-o", "is missing: name a directory to create")
				}
				if err := devicetest.CheckOps(ops.Values); err != nil {
					return cli.Usagef("--op", "%w", err)
				}
				return writeVectors(ctx, env, ops.Values, dir)
			}
		},
	}
}

// vectorTensor is an input or output of a case in the index file.
type vectorTensor struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"` // type in the program; expected float values are stored as f64
	Shape []int   `json:"shape"`
	File  string  `json:"file"`
	Abs   float64 `json:"abs,omitempty"`
	Rel   float64 `json:"rel,omitempty"`
}

type vectorCase struct {
	Name    string         `json:"name"`
	Op      string         `json:"op"`
	Graph   string         `json:"graph"` // text of the program, for people
	Program string         `json:"program"`
	SHA256  string         `json:"program_sha256"`
	Weights string         `json:"weights,omitempty"`
	Inputs  []vectorTensor `json:"inputs"`
	Outputs []vectorTensor `json:"outputs,omitempty"`
	Refused string         `json:"refused,omitempty"`
}

func writeVectors(ctx context.Context, env *cli.Env, ops []string, dir string) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return cli.Usagef("-o "+dir, "cannot create the directory: %w", unpath(err)).WithHint(
			"name a directory that does not exist yet")
	}
	var list []vectorCase
	err := devicetest.Vectors(ctx, ops, func(v devicetest.Vector) error {
		c := vectorCase{Name: v.Name, Op: v.Op, Graph: v.Program.Graph.String(), Inputs: []vectorTensor{}}
		folder := filepath.FromSlash(v.Name)
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o777); err != nil {
			return err
		}
		put := func(name string, b []byte) (string, error) {
			return filepath.ToSlash(filepath.Join(folder, name)),
				os.WriteFile(filepath.Join(dir, folder, name), b, 0o666)
		}
		enc, err := format.EncodeProgram(v.Program)
		if err != nil {
			return err
		}
		if c.Program, err = put("program.msgpack", enc); err != nil {
			return err
		}
		sum := sha256.Sum256(enc)
		c.SHA256 = hex.EncodeToString(sum[:])
		if len(v.Weights) > 0 {
			if c.Weights, err = put("weights.bin", v.Weights); err != nil {
				return err
			}
		}
		for _, x := range v.Inputs {
			t := vectorTensor{Name: x.Name, DType: x.Array.DType.String(), Shape: x.Array.Shape}
			if t.File, err = put(x.Name+".bin", x.Array.Tensor().Data); err != nil {
				return err
			}
			c.Inputs = append(c.Inputs, t)
		}
		if v.Refused != nil {
			c.Refused = v.Refused.Error()
		}
		for k, x := range v.Outputs {
			t := vectorTensor{Name: x.Name, DType: x.Array.DType.String(), Shape: x.Array.Shape,
				Abs: v.Tolerances[k].Abs, Rel: v.Tolerances[k].Rel}
			if t.File, err = put(x.Name+".want.bin", wantBytes(x.Array)); err != nil {
				return err
			}
			c.Outputs = append(c.Outputs, t)
		}
		list = append(list, c)
		return nil
	})
	if err != nil {
		return err
	}
	err = atomicfile.WriteFile(ctx, filepath.Join(dir, "index.json"), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(map[string]any{"version": 1, "opset": format.Opset, "cases": list})
	})
	if err == nil {
		env.Notef("%s: %d cases", dir, len(list))
	}
	return err
}

// wantBytes returns floats as f64 and other elements in their own type.
func wantBytes(a *tensor.Array) []byte {
	if a.Floats == nil {
		return a.Tensor().Data
	}
	b := make([]byte, 0, 8*len(a.Floats))
	for _, v := range a.Floats {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}
