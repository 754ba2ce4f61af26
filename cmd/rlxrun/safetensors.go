package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/safetensors"
)

// safetensorsNames lists the tensors of a safetensors file.
func safetensorsNames(path string) (names []string, err error) {
	f, st, err := regular.Open(path)
	if err != nil {
		return nil, diag.New(code.InputTensor, path, "%w", err)
	}
	defer f.Close()
	all, _, err := safetensors.Parse(path, f, st.Size(), inputCodes)
	for _, t := range all {
		names = append(names, t.Name)
	}
	return names, err
}

// inputCodes are the codes of errors in safetensors files that the command line names.
var inputCodes = safetensors.Codes{Read: code.InputTensor, Header: code.InputTensor, Tensor: code.InputTensor}

// readSafetensors reads one tensor of a safetensors file, provided that accept returns nil for its type.
func readSafetensors(path, key string, accept func(dtype.DType, []int) error) (tensor.Tensor, error) {
	bad := func(format string, args ...any) (tensor.Tensor, error) {
		return tensor.Tensor{}, diag.New(code.InputTensor, path, format, args...)
	}
	f, st, err := regular.Open(path)
	if err != nil {
		return bad("%w", err)
	}
	defer f.Close()
	all, _, err := safetensors.Parse(path, f, st.Size(), inputCodes)
	if err != nil {
		return tensor.Tensor{}, err
	}
	i := slices.IndexFunc(all, func(t safetensors.Tensor) bool { return t.Name == key })
	if i < 0 {
		return bad("has no tensor %q; it has %s", key, someOf(all))
	}
	e := all[i]
	if e.DType == dtype.Invalid {
		return bad(
			"tensor %q has element type %s; allowed are F64, F32, F16, BF16, I64, I32, I16, I8, U32, U8 and BOOL", key,
			e.Stored)
	}
	t := tensor.Tensor{DType: e.DType}
	for _, d := range e.Shape {
		t.Shape = append(t.Shape, int(d))
	}
	if err := accept(t.DType, t.Shape); err != nil {
		return tensor.Tensor{}, err
	}
	t.Data = tensor.AlignedBytes(int(e.Size))
	return t, safetensors.ReadAt(path, f, t.Data, e.Offset, code.InputTensor)
}

// someOf lists a few of the tensors' names.
func someOf(all []safetensors.Tensor) string {
	var names []string
	for _, t := range all {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	if len(names) > 8 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:8], ", "), len(names)-8)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
