package target

import (
	"embed"
	"slices"
	"strings"
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

// builtins are the built-in targets. A description is read when it is first used, because that takes a millisecond.
var builtins = []struct {
	name, file string // file is the one with the rules, or empty
	read       func() *Description
}{
	{"cpu", "cpu", cpu}, {"wgpu", "wgpu", wgpu}, {Metal, "wgpu", wgpuAs(Metal)}, {CUDA, "wgpu", wgpuAs(CUDA)},
	{Portable, "", sync.OnceValue(func() *Description { return Primitive(Portable) })},
}

var cpu, wgpu = described("cpu"), described("wgpu")

// described returns a function that reads the file of a description once.
func described(name string) func() *Description {
	return sync.OnceValue(func() *Description {
		d, err := Parse(fileText(name))
		if err != nil {
			panic("BUG: target: " + name + ".target: " + err.Error())
		}
		return d
	})
}

func fileText(name string) string {
	text, err := files.ReadFile(name + ".target")
	if err != nil {
		panic("BUG: target: " + err.Error())
	}
	return string(text)
}

// wgpuAs returns a function that returns the description of wgpu under another name.
func wgpuAs(name string) func() *Description {
	return sync.OnceValue(func() *Description {
		same := *wgpu()
		same.Name = name
		return &same
	})
}

// AsWGPU reports whether a built-in target has the rules of wgpu and another name. Its backend runs wgpu's programs.
func AsWGPU(d *Description) bool { return d.Name == Metal || d.Name == CUDA }

// Builtin lists the descriptions that the compiler knows: cpu, wgpu, metal, cuda and portable.
func Builtin() []*Description {
	var out []*Description
	for _, b := range builtins {
		out = append(out, b.read())
	}
	return out
}

// BuiltinNames lists the names of the built-in targets in the order of Builtin, each followed by those with a level,
// such as cpu:x86-64-v4. It does not read the rules.
func BuiltinNames() []string { return slices.Clone(builtinNames()) }

var builtinNames = sync.OnceValue(func() []string {
	var out []string
	for _, b := range builtins {
		out = append(out, b.name)
		if b.file == "" {
			continue
		}
		for line := range strings.Lines(fileText(b.file)) {
			if levels, ok := strings.CutPrefix(line, "levels "); ok {
				for _, l := range strings.Fields(levels) {
					out = append(out, b.name+":"+l)
				}
			}
			if strings.HasPrefix(line, "run ") { // the levels come before the rules
				break
			}
		}
	}
	return out
})

// Find returns the built-in description of that name.
func Find(name string) (*Description, bool) {
	for _, b := range builtins {
		if b.name == name {
			return b.read(), true
		}
	}
	return nil, false
}
