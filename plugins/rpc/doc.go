// Package rpc connects a host, such as rlxrun, with a backend in its own process. hashicorp/go-plugin starts the process and connects
// to it by gRPC. Tensors are in mapped files and one shared region. The package has both sides: Start and Session for the host, Serve
// for the backend. spec/protocol.md defines the protocol for other languages.
//
// The host does not trust a backend. Whatever a backend prints, answers or fails to answer, the host returns a typed error within a
// deadline and leaves no process, socket or memory behind.
//
// The package imports core/device and what core/device may import. It never imports core/compile, core/pass, a backend, models or a
// command, and needs no cgo.
package rpc

//go:generate sh -c "cd _protogen && go run ."
