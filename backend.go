package rlx

import (
	"context"
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/rpc"
)

// A Backend is an executable that runs models: rlx-backend-cpu, for instance. It runs in a process of its own.
type Backend struct {
	Name string // in messages; "cpu"
	Path string // of the executable
	Dir  string // that FindBackends found it in; otherwise empty

	// SHA256, if not zero, must be the digest of the executable, or it is not started. On Linux the backend then runs
	// as the copy in memory that was compared, which nobody can change. That copy is in no folder.
	SHA256 [sha256.Size]byte
	Folder *BackendFolder // of an installed plugin; nil for a backend that is one file
}

// A BackendFolder is what an installed plugin has beside its executable.
type BackendFolder = rpc.Folder

// options are those of b to start it.
func (b Backend) options(o Options) rpc.Options {
	return rpc.Options{Path: b.Path, Name: b.Name, SHA256: b.SHA256, Folder: b.Folder, Log: o.Log, Sandbox: o.Sandbox}
}

const backendPrefix = "rlx-backend-"

// FindBackends lists the executables called rlx-backend-NAME in directories, in their order. Without directories it
// searches the one of the running program. A directory that cannot be read counts as empty.
func FindBackends(dirs ...string) []Backend {
	var out []Backend
	for i, dir := range searched(dirs) {
		if slices.Contains(searched(dirs)[:i], dir) {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".exe"), backendPrefix)
			path := filepath.Join(dir, e.Name())
			st, err := os.Stat(path)
			if ok && name != "" && err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
				out = append(out, Backend{Name: name, Path: path, Dir: dir})
			}
		}
	}
	return out
}

// searched are the directories that FindBackends searches.
func searched(dirs []string) []string {
	if len(dirs) > 0 {
		return dirs
	}
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return []string{filepath.Dir(exe)}
}

// FindBackend is the first backend of that name that FindBackends finds. The error, which matches ErrNoBackend, lists the
// backends that exist.
func FindBackend(name string, dirs ...string) (Backend, error) {
	var parts []string
	for _, b := range FindBackends(dirs...) {
		if b.Name == name {
			return b, nil
		}
		parts = append(parts, b.Name+" ("+b.Path+")")
	}
	what := "nor is any other"
	if len(parts) > 0 {
		what = "found: " + strings.Join(parts, ", ")
	}
	return Backend{}, diag.New(code.Backend, "backend "+name, "is not installed; %s; looked in %s", what, strings.Join(searched(dirs), ", ")).
		WithHint("put %s%s there, or give a Backend with the path of its executable", backendPrefix, name)
}

// WritableByAll is a path through which every user of this machine could replace the backend's executable: the file itself or a
// directory above it, unless that is sticky as /tmp is. It is empty if there is none.
func (b Backend) WritableByAll() string {
	if runtime.GOOS == "windows" {
		return "" // the mode does not show permissions
	}
	real, err := filepath.EvalSymlinks(b.Path)
	if err != nil {
		return "" // starting it reports the error
	}
	for _, p := range []string{real, filepath.Dir(real), filepath.Dir(b.Path)} {
		if st, err := os.Stat(p); err == nil && st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0 {
			return p
		}
	}
	return ""
}

// A Device is one device of a backend. Memory is in bytes, 0 if the device uses the host's.
type Device = device.Device

// A Sandbox selects whether a backend's process is confined: without network, other processes and the user's files (Linux).
type Sandbox = rpc.Sandbox

// The values of Options.Sandbox. Empty is SandboxOn.
const (
	SandboxOn      = rpc.SandboxOn      // with the layers that the system has
	SandboxOff     = rpc.SandboxOff     // not at all
	SandboxRequire = rpc.SandboxRequire // an error if a layer is missing
)

// A Confinement is how a backend's process is confined.
type Confinement = rpc.Confinement

// BackendInfo is a backend's description of itself.
type BackendInfo struct {
	Name, Version string
	Devices       []Device
	Levels        []string // of targets such as cpu:x86-64-v4 that this machine has, best first
	Precisions    []string
	MaxAlloc      int64  // largest arena in bytes; 0 means no limit of its own
	Target        string // which ops it runs, in the language of spec/target.md, for rlxc --target
	Sandbox       Confinement
}

// Describe starts the backend, asks for its description, and ends it. Of the options it uses Log and Sandbox. Errors
// match ErrLost or ErrDevice.
func (b Backend) Describe(ctx context.Context, o Options) (BackendInfo, error) {
	s, err := rpc.Start(ctx, b.options(o))
	if err != nil {
		return BackendInfo{}, err
	}
	defer s.Close()
	info, err := s.Info(ctx)
	return backendInfo(info, s), err
}

func backendInfo(i device.Info, s *rpc.Session) BackendInfo {
	out := BackendInfo{Name: i.Name, Version: i.Version, Devices: i.Devices, Levels: i.Levels, Precisions: i.Precisions, MaxAlloc: i.MaxAlloc, Sandbox: s.Sandbox()}
	if i.Target != nil {
		out.Target = i.Target.String()
	}
	return out
}
