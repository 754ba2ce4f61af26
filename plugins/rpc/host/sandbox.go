package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/rpc/internal/sandbox"
)

// Sandbox selects whether a backend's process is confined. spec/protocol.md describes the confinement.
type Sandbox string

const (
	// the default: uses the layers that the system has, unless the backend declares "none"
	SandboxOn      Sandbox = "on"
	SandboxOff     Sandbox = "off"
	SandboxRequire Sandbox = "require" // code.Sandbox if a layer is missing or the backend declares "none"
)

// Confinement lists the layers that confine a backend's process.
type Confinement struct {
	// ABI version of the kernel's Landlock; 0: the backend can access all files of the user
	Landlock int      `json:"landlock"`
	Seccomp  bool     `json:"seccomp"` // whether system calls are filtered
	Allowed  []string `json:"allowed"` // what the backend's declaration asked for and got, such as "gpu"
	Reason   string   `json:"reason"`  // why a layer is missing; empty if all are present
}

// String describes the confinement briefly, such as "landlock 7, seccomp, allows gpu" or "none (turned off)".
func (c Confinement) String() string {
	var parts []string
	if c.Landlock > 0 {
		parts = append(parts, fmt.Sprintf("landlock %d", c.Landlock))
	}
	if c.Seccomp {
		parts = append(parts, "seccomp")
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	} else if len(c.Allowed) > 0 {
		parts = append(parts, "allows "+strings.Join(c.Allowed, ", "))
	}
	s := strings.Join(parts, ", ")
	if c.Reason != "" {
		s += " (" + c.Reason + ")"
	}
	return s
}

// confined reports whether at least one layer is active.
func (c Confinement) confined() bool { return c.layers() != sandbox.Layers{} }

func (c Confinement) allows(word string) bool { return slices.Contains(c.Allowed, word) }

func (c Confinement) layers() sandbox.Layers {
	return sandbox.Layers{Landlock: c.Landlock, Seccomp: c.Seccomp}
}

// confine decides the confinement of a backend from the option, the backend's declaration and the layers of the system.
func confine(name string, asked Sandbox, declared declaration, has sandbox.Layers) (Confinement, error) {
	none := func(why string) Confinement { return Confinement{Allowed: []string{}, Reason: why} }
	switch asked {
	case SandboxOff:
		return none("turned off"), nil
	case "", SandboxOn, SandboxRequire:
	default:
		return Confinement{}, diag.New(diag.Usage, "sandbox "+string(asked), "is unknown; allowed are on, off, require")
	}
	require := asked == SandboxRequire
	if declared.none {
		if require {
			return Confinement{},
				lost(code.Sandbox, name, "declares in %s that it runs without a sandbox", declared.path)
		}
		return none("the backend's declaration asks for none"), nil
	}
	c := Confinement{Landlock: has.Landlock, Seccomp: has.Seccomp, Allowed: []string{}}
	if declared.gpu {
		c.Allowed = append(c.Allowed, wordGPU)
	}
	var missing []string
	if c.Landlock == 0 {
		missing = append(missing, "Landlock")
	}
	if !c.Seccomp {
		missing = append(missing, "seccomp")
	}
	if len(missing) > 0 {
		c.Reason = "this system has no " + strings.Join(missing, ", no ")
		if require {
			return Confinement{}, lost(code.Sandbox, name, "cannot be confined: %s", c.Reason).
				WithHint("without SandboxRequire, it is confined by the layers that the system has").Naming(
				"SandboxRequire")
		}
	}
	return c, nil
}

// availableLayers returns the layers of this system. Tests replace it.
var availableLayers = sandbox.Available

// declaration is the content of the file next to a backend's executable that declares what the backend needs in a
// sandbox. Each word stands for a fixed set of paths, so a declaration cannot give access to the user's files.
type declaration struct {
	path string // path of the file
	gpu  bool
	none bool
}

// Words of a declaration.
const (
	wordGPU  = "gpu"  // GPU devices, drivers and a shader cache
	wordNone = "none" // the backend cannot run in a sandbox
)
