package compile

import (
	"bytes"
	"io"
	"sync"

	driver "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/models/weights"
)

// values reads the params of the model from the checkpoint.
type values struct {
	stored   weights.Stored
	source   map[string]string                        // param -> tensor of the checkpoint
	made     map[string]tensor.Tensor                 // params that are in memory, by name
	zero     map[string]ir.Type                       // params that are all 0
	madeUp   *madeUp                                  // generates params; may be nil
	lazy     func(name string) (tensor.Tensor, error) // reads params of an ONNX model; may be nil
	packed   map[string]packedParam                   // params that are packed; may be nil
	packings func(weights.Packing)                    // called for each that was packed; may be nil
	progress func(written int64)                      // called with the bytes of weights written; may be nil

	mu       sync.Mutex
	written  int64
	infinite map[string]int64 // by tensor of the checkpoint: number of values that became infinite in the stored type
}

// Param reads a param in the type in which it will be stored.
func (v *values) Param(name string) (*tensor.Array, error) {
	if t, ok := v.made[name]; ok {
		return t.Array(), nil
	}
	if t, ok := v.zero[name]; ok {
		return tensor.NewArray(t.DType, t.Shape.Eval(nil)...), nil
	}
	if p, ok := v.packed[name]; ok {
		var b bytes.Buffer
		if err := v.writePacked(&b, p); err != nil {
			return nil, err
		}
		return tensor.Tensor{DType: p.to.DType, Shape: p.to.Shape.Eval(nil), Data: b.Bytes()}.Array(), nil
	}
	if v.madeUp != nil {
		return v.madeUp.array(v.madeUp.params[name]), nil
	}
	if v.lazy != nil {
		t, err := v.lazy(name)
		if err != nil {
			return nil, err
		}
		return t.Array(), nil
	}
	var b bytes.Buffer
	if err := v.copy(&b, name); err != nil {
		return nil, err
	}
	t, _ := v.stored.Type(v.source[name])
	return tensor.Tensor{DType: t.DType, Shape: t.Shape.Eval(nil), Data: b.Bytes()}.Array(), nil
}

// copy streams a param in the type in which it will be stored.
func (v *values) copy(to io.Writer, name string) error {
	if t, ok := v.made[name]; ok {
		_, err := to.Write(t.Data)
		return err
	}
	if t, ok := v.zero[name]; ok {
		zeros := make([]byte, 1<<16)
		for rest := t.Bytes(nil); rest > 0; {
			n, err := to.Write(zeros[:min(rest, int64(len(zeros)))])
			if err != nil {
				return err
			}
			rest -= int64(n)
		}
		return nil
	}
	if p, ok := v.packed[name]; ok {
		return v.writePacked(to, p)
	}
	if v.madeUp != nil {
		return v.madeUp.copy(to, v.madeUp.params[name])
	}
	if v.lazy != nil {
		t, err := v.lazy(name)
		if err == nil {
			_, err = to.Write(t.Data)
		}
		return err
	}
	n, err := v.stored.WriteTo(to, v.source[name])
	if n > 0 {
		v.mu.Lock()
		defer v.mu.Unlock()
		// not added up, because a tensor may be read several times during constant folding
		v.infinite[v.source[name]] = n
	}
	return err
}

// counting reports the bytes written.
type counting struct {
	io.Writer
	v *values
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	c.v.written += int64(n)
	if c.v.progress != nil {
		c.v.progress(c.v.written)
	}
	return n, err
}

// weightWriter lists the weights for the artifact. Their values are streamed from the checkpoint.
func weightWriter(ws []driver.Weight, v *values) []format.Weight {
	out := make([]format.Weight, len(ws))
	for i, w := range ws {
		out[i] = format.Weight{Name: w.Name, Type: w.Type, Mutable: !w.Fixed, Write: func(to io.Writer) error {
			to = counting{to, v}
			if w.Data != nil {
				_, err := to.Write(w.Data)
				return err
			}
			return v.copy(to, w.Name)
		}}
	}
	return out
}

// layout sets the offsets of weights as the file format requires.
func layout(ws []driver.Weight) (int64, error) {
	dir, err := format.Layout(weightWriter(ws, nil))
	if err != nil {
		return 0, err
	}
	for i := range ws {
		ws[i].Offset, _ = dir.Offset(ws[i].Name)
	}
	return dir.Size(), nil
}
