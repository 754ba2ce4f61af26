// Package rpc connects a host (rlxrun) with a backend in its own process: hashicorp/go-plugin starts it and connects
// to it by gRPC; tensors are in mapped files and one shared region. Both sides are here: Start and Session for the host,
// Serve for the backend. spec/protocol.md describes the same for other languages.
//
// The host does not trust a plugin: whatever it prints, answers or fails to answer becomes a typed error within a deadline, and
// none of its processes, sockets or memory is left behind.
//
// It imports core/device and below, never core/compile, core/pass, a backend, models or a command, and needs no cgo.
package rpc

//go:generate sh -c "cd _protogen && go run ."
