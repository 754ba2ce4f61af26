// Package rlx runs compiled models (.rlx files) from Go programs. A Model is an open, verified artifact. A Session is a
// backend process that runs the methods of a model. Run takes and returns tensors by name:
//
//	model, err := rlx.Open(ctx, "sam.rlx", rlx.OpenOptions{})
//	cpu, err := rlx.FindBackend("cpu", "/opt/rlx/bin")
//	session, err := model.NewSession(ctx, rlx.Options{Backend: cpu})
//	result, err := session.Run(ctx, rlx.Request{Method: "encode", Inputs: map[string]rlx.Tensor{"image": image}})
//
// Model.Methods lists the methods of the artifact with their inputs, outputs, element types and shapes. There is a type
// for each task that a model may declare: a Segmenter turns images and prompts into tensors, and tensors into masks; a
// Generator continues a text.
//
// To confine a backend on Linux, the package starts the running executable again. That process restricts itself in an
// init function and then executes the backend. The program's main does not run in it.
//
// The command rlxc makes artifacts. Backends are executables called rlx-backend-NAME; `make build` puts them beside
// rlxc. On Linux they run in a sandbox. If a backend crashes, hangs or breaks the protocol, calls return an error that
// matches ErrLost. Then close the session and make another from the same model.
//
// The package has no global state and needs no cgo. Models, sessions and budgets are safe for concurrent use; the other
// types are plain values.
package rlx
