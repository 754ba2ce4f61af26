// Package rlx runs compiled models (.rlx files) from Go programs. Load opens a file on a backend, such as "cpu", and
// Run takes and returns tensors by name:
//
//	session, err := rlx.Load(ctx, "sam.rlx", "cpu")
//	result, err := session.Run(ctx, rlx.Request{Method: "encode", Inputs: map[string]rlx.Tensor{"image": image}})
//
// Other packages use models for a task: github.com/rlx-go/rlx/segment finds objects in images, .../text continues
// texts, and .../patches embeds the patches of images.
//
// A Model is an open, verified artifact. Model.Methods lists its methods with their inputs, outputs, element types and
// shapes. A Session is a backend process that runs the methods of a model. Open, FindBackend and Model.NewSession do
// what Load does in steps, with options. A State holds what a model keeps from run to run, such as a cache of keys and
// values.
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
