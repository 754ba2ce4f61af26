package main

import (
	"context"
	"maps"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/safetensors"
	"github.com/rlx-go/rlx/text"
)

// replaceWeights replaces weights of the session by those of the files of --weights and of the adapter of --lora. A
// later file overrides an earlier one.
func (s *session) replaceWeights(ctx context.Context, files []string, lora string) error {
	if len(files) == 0 && lora == "" {
		return nil
	}
	defer s.trace.span("weights")()
	weights := map[string]rlx.Tensor{}
	for _, path := range files {
		read, err := ctxio.Do(ctx, "weights", func() (map[string]rlx.Tensor, error) { return s.readWeights(path) }, nil)
		if err != nil {
			return err
		}
		maps.Copy(weights, read)
	}
	if lora != "" {
		a, err := ctxio.Do(ctx, "adapter", func() (*text.Adapter, error) {
			return text.OpenAdapter(s.model, lora)
		}, nil)
		if err != nil {
			return err
		}
		maps.Copy(weights, a.Weights())
	}
	return s.host.SetWeights(ctx, weights)
}

// readWeights reads all tensors of a safetensors file, each in the type that the weight of its name has. A weight in
// blocks of few bits is U8 there, its blocks along the last axis, as for rlxc --weights.
func (s *session) readWeights(path string) (map[string]rlx.Tensor, error) {
	f, st, err := regular.Open(path)
	if err != nil {
		return nil, diag.New(code.InputTensor, path, "%w", err)
	}
	defer f.Close()
	all, _, err := safetensors.Parse(path, f, st.Size(),
		safetensors.Codes{Read: code.InputTensor, Header: code.InputTensor, Tensor: code.InputTensor})
	if err != nil {
		return nil, err
	}
	known := map[string]rlx.Weight{}
	for _, w := range s.model.Weights() {
		known[w.Name] = w
	}
	out := map[string]rlx.Tensor{}
	for _, e := range all {
		t := tensor.Tensor{DType: e.DType}
		for _, d := range e.Shape {
			t.Shape = append(t.Shape, int(d))
		}
		w, ok := known[e.Name]
		if ok && e.Size == w.Bytes && t.DType == dtype.U8 && dtype.DType(w.DType).IsPacked() {
			t.DType, t.Shape = dtype.DType(w.DType), w.Shape
		}
		if !ok || e.Size != w.Bytes { // SetWeights says why it refuses these, without their bytes
			out[e.Name] = forModel(t)
			continue
		}
		if err := s.need("weights of "+path, e.Size); err != nil {
			return nil, err
		}
		t.Data = tensor.AlignedBytes(int(e.Size))
		if err := safetensors.ReadAt(path, f, t.Data, e.Offset, code.InputTensor); err != nil {
			return nil, err
		}
		out[e.Name] = forModel(t)
	}
	return out, nil
}
