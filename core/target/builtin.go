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
	// Metal runs what wgpu runs, because their backends have the same kernels.
	Metal = "metal"
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
	metal := *out[1]
	metal.Name = Metal
	return append(out, &metal, Primitive(Portable))
})

// Builtin lists the descriptions that the compiler knows: cpu, wgpu, metal and portable.
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
