//go:build !linux

package sandbox

import "io"

// ScopeABI is the first version of Landlock that confines signals.
const ScopeABI = 6

// Available is nothing: this system has other means, which are not used.
func Available() Layers { return Layers{} }

// Command must not be called: there is no layer to ask for.
func Command(Spec) (path string, args []string) { panic("BUG: a sandbox on a system without layers") }

// Result is that of no launcher.
func Result(io.Reader) error { return Unlaunched{} }
