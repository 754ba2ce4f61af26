// Package inferencepb holds the messages and the service of the Open Inference Protocol.
package inferencepb

//go:generate go -C ../../../internal/_protogen run . -proto internal/inference/inferencepb/inference.proto -name inference.proto -out internal/inference/inferencepb -opt paths=source_relative,Minference.proto=github.com/rlx-go/rlx/internal/inference/inferencepb protoc-gen-go protoc-gen-go-grpc
