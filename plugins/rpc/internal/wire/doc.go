// Package wire has what both sides of the protocol between hosts and backends need: its limits, the form of errors and
// descriptions in messages, the files that a backend inherits, the shared region, and the channel for runs. The
// messages themselves are in rlxv1.
package wire

//go:generate go -C ../../../../internal/_protogen run . -proto spec/backend.proto -name rlx/v1/backend.proto -out plugins/rpc -opt module=github.com/rlx-go/rlx/plugins/rpc -set sdk/python/rlx_backend/backend.binpb protoc-gen-go protoc-gen-go-grpc
