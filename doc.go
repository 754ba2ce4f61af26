// Package rlx runs compiled models (.rlx files) from Go programs. A Model is an open, verified artifact; a Session is a backend, a
// process of its own, that runs the methods of a model; Run takes and returns tensors by name:
//
//	model, err := rlx.Open(ctx, "sam.rlx", rlx.OpenOptions{})
//	cpu, err := rlx.FindBackend("cpu", "/opt/rlx/bin")
//	session, err := model.NewSession(ctx, rlx.Options{Backend: cpu})
//	result, err := session.Run(ctx, rlx.Request{Method: "encode", Inputs: map[string]rlx.Tensor{"image": image}})
//
// Methods, their inputs and outputs, element types and shapes come from the artifact: Model.Methods. Models that declare a task have
// a type for it: a Segmenter turns images and prompts into tensors, and tensors into masks; a Generator continues a text.
//
// To confine a backend on Linux, the package starts the running executable again. That process restricts itself in an init function
// and then executes the backend. The program's main does not run in it.
//
// Artifacts are made by the command rlxc. Backends are executables called rlx-backend-NAME, which `make build` puts beside it; they
// run in a sandbox on Linux. If one crashes, hangs or breaks the protocol, calls return an error that matches ErrLost, and nothing of
// it is left behind: close the session and make another from the same model.
//
// The package has no global state and needs no cgo. Models, sessions and budgets are safe for use by several
// goroutines; the rest are plain values.
package rlx
