package target

import (
	"embed"
	"slices"
	"sync"
)

// The descriptions of the project's own backends, so that the compiler needs no backend to compile for them. Each
// backend's test compares its file with the backend, and writes it with -update.
//
//go:embed cpu.target wgpu.target
var files embed.FS

// Names of built-in targets that are not compiled for by default.
const (
	// Metal and CUDA run what wgpu runs, because their backends have the same kernels; see AsWGPU.
	Metal = "metal"
	CUDA  = "cuda"
	// Portable is the target of ops that no other ops express; see Primitive.
	Portable = "portable"
)

var builtin = sync.OnceValue(func() []*Description {
	var out []*Description
	for _, name := range []string{"cpu", "wgpu"} {
		text, err := files.ReadFile(name + ".target")
		if err != nil {
			panic("BUG: target: " + err.Error())
		}
		d, err := Parse(string(text))
		if err != nil {
			panic("BUG: target: " + name + ".target: " + err.Error())
		}
		out = append(out, d)
	}
	for _, name := range []string{Metal, CUDA} {
		same := *out[1]
		same.Name = name
		out = append(out, &same)
	}
	return append(out, Primitive(Portable))
})

// AsWGPU reports whether a built-in target has the rules of wgpu and another name. Its backend runs wgpu's programs.
func AsWGPU(d *Description) bool { return d.Name == Metal || d.Name == CUDA }

// Builtin lists the descriptions that the compiler knows: cpu, wgpu, metal, cuda and portable.
func Builtin() []*Description { return slices.Clone(builtin()) }

// Find returns the built-in description of that name.
func Find(name string) (*Description, bool) {
	for _, d := range builtin() {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}
