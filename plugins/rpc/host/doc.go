// Package host is the host's side of the protocol between hosts and backends (spec/protocol.md). Start starts a backend
// in its own process, through hashicorp/go-plugin, and connects to it by gRPC. Tensors are in mapped files and one
// shared region. On Linux the process runs in a sandbox.
//
// The host does not trust a backend. Whatever a backend prints, answers or fails to answer, the host returns a typed
// error within a deadline and leaves no process, socket or memory behind.
//
// Package serve is the other side. The package links no backend and no compiler, and needs no cgo.
package host
