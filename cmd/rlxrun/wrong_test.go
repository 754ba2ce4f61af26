package main

import (
	"errors"
	"math"
	"os"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/sdk/backend"
)

// wrongKernel serves a backend that runs all ops by their definitions, except one. RLX_WRONG_FAULT has the fault and
// the op, as in "adds:softmax": the kernel adds 1 to the last element of its result, also only if
// it is over 100 (large), makes the last one NaN (nan), ends
// the process (dies), never ends (hangs), or fails (fails). ok is false if the variable has another form. The host
// passes the variable to a backend called wrong.
func wrongKernel() (ok bool) {
	fault, op, ok := strings.Cut(os.Getenv("RLX_WRONG_FAULT"), ":")
	if !ok {
		return false
	}
	run := func(c *backend.Call) error {
		in := make([]*tensor.Array, len(c.In))
		for k := range c.Node.Operands() {
			in[k] = c.In[k].Array()
		}
		out := tensor.NewArray(c.Out[0].DType, c.Out[0].Shape...)
		if err := c.Node.Op.Eval(c.Node.Attrs, in, out); err != nil {
			return err
		}
		switch last := out.Len() - 1; fault {
		case "adds":
			out.Floats[last]++
		case "large": // adds only to large results
			if out.Floats[last] > 100 {
				out.Floats[last]++
			}
		case "nan":
			out.Floats[last] = math.NaN()
		case "dies":
			os.Exit(3)
		case "hangs":
			time.Sleep(time.Hour)
		case "fails":
			return errors.New("the kernel fails")
		}
		copy(c.Out[0].Data, out.Tensor().Data)
		return nil
	}
	backend.Main(backend.Config{Name: "wrong", Reference: true,
		Types:   []dtype.DType{dtype.F32, dtype.I32, dtype.I64, dtype.Bool},
		Kernels: []backend.Kernel{{Op: op, Takes: []string{"(f32...)"}, Run: run}, backend.NewLoop()}})
	return true
}
