// Package rpc connects a host (rlxrun) with a backend in its own process: hashicorp/go-plugin starts it and speaks gRPC
// with it, mapped files and one shared region carry the tensors. Both sides are here: Start and Session for the host,
// Serve for the backend. spec/protocol.md describes the same for other languages.
//
// A plugin is not trusted by the host: whatever it prints, answers or fails to answer becomes a typed error within a
// deadline, and no process, socket or memory of it stays behind.
//
// It imports core/device and below, never core/compile, core/pass, a backend, models or a command, and needs no cgo.
package rpc

//go:generate sh -c "cd _protogen && go run ."
