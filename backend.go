package rlx

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/backends"
	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// A Backend is an executable that runs models, such as rlx-backend-cpu. It runs in a separate process.
type Backend struct {
	Name string // for messages; "cpu"
	Path string // of the executable
	Dir  string // where FindBackends found it; otherwise empty

	// SHA256, if not zero, must be the digest of the executable, or it is not started. On Linux the backend then runs
	// from the copy in memory that was hashed. Nobody can change that copy, and it is in no folder.
	SHA256 [sha256.Size]byte
	Folder *BackendFolder // of an installed plugin; nil if the backend is a single file
}

// A BackendFolder describes the folder of an installed plugin.
type BackendFolder struct {
	// Dir is the absolute path of the folder. The sandbox allows the backend to read it.
	Dir string
	// Declares is the plugin's sandbox declaration, in place of a file beside the executable.
	Declares string
	// Verify is called right before the start. It returns an error if the files have changed since they were installed.
	Verify func() error
}

// options returns the options to start b.
func (b Backend) options(o Options) host.Options {
	return host.Options{Path: b.Path, Name: b.Name, SHA256: b.SHA256, Folder: (*host.Folder)(b.Folder), Log: o.Log,
		Protocol: o.Protocol,
		Sandbox:  host.Sandbox(o.Sandbox)}
}

// FindBackends lists the executables called rlx-backend-NAME in directories, in the order of dirs. It skips directories
// that cannot be read.
//
// Without dirs it lists the backends that rlxrun would use: plugins that were installed to replace a built-in backend,
// then those in the folder of the running program, beside the rlxrun in PATH, and in the directories of
// RLX_PLUGIN_PATH, and then the other plugins that `rlxrun plugins install` has installed. A backend that another user
// could replace is left out, unless it is beside the program.
func FindBackends(dirs ...string) []Backend {
	var out []Backend
	list, _ := search(dirs)
	for _, f := range list.All {
		if f.Skip == nil {
			out = append(
				out, Backend{Name: f.Name, Path: f.Path, Dir: f.Dir, SHA256: f.SHA256,
					Folder: (*BackendFolder)(f.Folder)})
		}
	}
	return out
}

// search returns the backends in directories, or where rlxrun looks, and the places in words.
func search(dirs []string) (r *backends.Registry, places string) {
	if len(dirs) == 0 {
		r = backends.Search(nil, true)
		return r, r.Places()
	}
	r = &backends.Registry{}
	for i, dir := range dirs {
		if !slices.Contains(dirs[:i], dir) {
			r.All = append(r.All, backends.In(dir)...)
		}
	}
	return r, strings.Join(dirs, ", ")
}

// FindBackend returns the first backend with the given name that FindBackends finds. The error matches ErrNoBackend and
// lists the existing backends, or says why the backend of that name is not used.
func FindBackend(name string, dirs ...string) (Backend, error) {
	var parts []string
	for _, b := range FindBackends(dirs...) {
		if b.Name == name {
			return b, nil
		}
		parts = append(parts, b.Name+" ("+b.Path+")")
	}
	r, places := search(dirs)
	if _, skipped, _ := r.Lookup(name); skipped != nil {
		return Backend{}, skipped
	}
	what := "nor is any other"
	if len(parts) > 0 {
		what = "found: " + strings.Join(parts, ", ")
	}
	return Backend{}, diag.New(code.Backend, "backend "+name, "is not installed; %s; looked in %s", what, places).
		WithHint("put %s%s there, or give a Backend with the path of its executable", backends.Prefix, name)
}

// Exposed returns nil if only this user, root and administrators could replace the executable: it and the folders above
// it belong to this user, root or the owner of the running program, and not every user may write to them. Otherwise the
// error says who could, and where. A sticky folder above it, such as /tmp, is fine.
func (b Backend) Exposed() error {
	if who := owned.Program(b.Path); who != nil {
		return fmt.Errorf("%w and thus run programs as you; %s", who, who.Fix())
	}
	return nil
}

// A Device is one device of a backend.
type Device struct {
	ID       string   // for Options.Device; unique within the backend
	Name     string   // of the product
	Type     string   // "cpu", "gpu", "npu" or SoftwareDevice
	Memory   int64    // in bytes; 0 if the device uses host memory
	Features []string // such as "avx512f" or "4 threads"
}

// A Sandbox tells whether to confine the process of a backend (on Linux): without network, other processes and the
// files of the user. Empty means SandboxOn.
type Sandbox string

const (
	SandboxOn      Sandbox = "on"      // with the layers that the system supports
	SandboxOff     Sandbox = "off"     // not confined
	SandboxRequire Sandbox = "require" // an error if a layer is missing
)

// A Confinement describes how the process of a backend is confined.
type Confinement struct {
	// ABI version of the kernel's Landlock; 0: the backend can access all files of the user
	Landlock int      `json:"landlock"`
	Seccomp  bool     `json:"seccomp"` // whether system calls are filtered
	Allowed  []string `json:"allowed"` // what the backend's declaration asked for and got, such as "gpu"
	Reason   string   `json:"reason"`  // why a layer is missing; empty if all are present
}

// String describes the confinement briefly, such as "landlock 7, seccomp, allows gpu" or "none (turned off)".
func (c Confinement) String() string { return host.Confinement(c).String() }

// BackendInfo is the description that a backend gives of itself.
type BackendInfo struct {
	Name, Version string
	Devices       []Device
	Levels        []string // of targets, such as cpu:x86-64-v4, that this machine supports, best first
	Precisions    []string
	MaxAlloc      int64      // largest arena in bytes; 0 means unlimited
	RowBounds     *RowBounds // nil if the backend does not say for which numbers of rows results have the same bits
	Target        string     // the ops that it runs, in the language of spec/target.md, for rlxc --target
	Sandbox       Confinement
}

// RowBounds are numbers of rows, ascending, between which a backend changes how it adds. The result of a row has the
// same bits in two runs, whatever the other rows are, unless there is a bound of which one run has at most as many rows
// and the other one more.
type RowBounds struct {
	Products []int `json:"products"` // of rows of the left operand
	Queries  []int `json:"queries"`  // of attention
}

// Describe starts the backend, asks for its description, and ends it. It uses only Log, Protocol and Sandbox of the
// options. Errors match ErrLost or ErrDevice.
func (b Backend) Describe(ctx context.Context, o Options) (BackendInfo, error) {
	s, err := host.Start(ctx, b.options(o))
	if err != nil {
		return BackendInfo{}, err
	}
	defer s.Close()
	info, err := s.Info(ctx)
	return backendInfo(info, s), err
}

func backendInfo(i device.Info, s *host.Session) BackendInfo {
	out := BackendInfo{Name: i.Name, Version: i.Version, Levels: i.Levels, Precisions: i.Precisions,
		MaxAlloc: i.MaxAlloc,
		Sandbox:  Confinement(s.Sandbox())}
	for _, d := range i.Devices {
		out.Devices = append(out.Devices, Device(d))
	}
	if i.RowBounds != nil {
		out.RowBounds = (*RowBounds)(i.RowBounds)
	}
	if i.Target != nil {
		out.Target = i.Target.String()
	}
	return out
}
