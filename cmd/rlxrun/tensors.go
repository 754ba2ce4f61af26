package main

import (
	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// ofModel returns a tensor of package rlx for packages that read and write files. It shares the memory.
func ofModel(t rlx.Tensor) tensor.Tensor {
	return tensor.Tensor{DType: dtype.DType(t.DType), Shape: t.Shape, Data: t.Data}
}

// forModel is the inverse of ofModel.
func forModel(t tensor.Tensor) rlx.Tensor {
	return rlx.Tensor{DType: rlx.DType(t.DType), Shape: t.Shape, Data: t.Data}
}
