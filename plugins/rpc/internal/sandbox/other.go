//go:build !linux

package sandbox

import "io"

// ScopeABI is the first version of Landlock that confines signals.
const ScopeABI = 6

// Available returns no layers, because no layer is implemented for this system.
func Available() Layers { return Layers{} }

// Command must not be called, because there are no layers here.
func Command(Spec) (path string, args []string) { panic("BUG: a sandbox on a system without layers") }

// Result returns Unlaunched, because there is no launcher.
func Result(io.Reader) error { return Unlaunched{} }
