// Package onnxpb has the messages of ONNX files, generated from onnx.proto, which is that of onnx 1.23 (Apache-2.0).
package onnxpb

//go:generate go -C ../../../internal/_protogen run . -proto models/onnx/onnxpb/onnx.proto -name onnx.proto -out models/onnx/onnxpb -opt paths=source_relative,Monnx.proto=github.com/rlx-go/rlx/models/onnx/onnxpb protoc-gen-go
