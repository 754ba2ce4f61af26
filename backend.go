package rlx

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// A Backend is an executable that runs models, such as rlx-backend-cpu. It runs in a separate process.
type Backend struct {
	Name string // for messages; "cpu"
	Path string // of the executable
	Dir  string // directory where FindBackends found it; otherwise empty

	// SHA256, if not zero, must be the digest of the executable, or it is not started. On Linux the backend then runs from the copy
	// in memory that was hashed. Nobody can change that copy, and it is in no folder.
	SHA256 [sha256.Size]byte
	Folder *BackendFolder // of an installed plugin; nil if the backend is a single file
}

// A BackendFolder describes the folder of an installed plugin.
type BackendFolder = host.Folder

// options returns the options to start b.
func (b Backend) options(o Options) host.Options {
	return host.Options{Path: b.Path, Name: b.Name, SHA256: b.SHA256, Folder: b.Folder, Log: o.Log, Protocol: o.Protocol, Sandbox: o.Sandbox}
}

const backendPrefix = "rlx-backend-"

// FindBackends lists the executables called rlx-backend-NAME in directories, in the order of dirs. Without dirs it searches the
// directory of the running program. It skips directories that cannot be read.
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

// searched returns the directories that FindBackends searches.
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

// FindBackend returns the first backend with the given name that FindBackends finds. The error matches ErrNoBackend and lists the
// existing backends.
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

// Exposed returns nil if only this user, root and administrators could replace the executable: it and the folders above
// it belong to this user, root or the owner of the running program, and not every user may write to them. Otherwise the
// error says who could, and where. A sticky folder above it, such as /tmp, is fine.
func (b Backend) Exposed() error {
	if who := owned.Program(b.Path); who != nil {
		return fmt.Errorf("%w and thus run programs as you; %s", who, who.Fix())
	}
	return nil
}

// A Device is one device of a backend. Memory is in bytes, or 0 if the device uses host memory.
type Device = device.Device

// A Sandbox tells whether to confine the process of a backend (on Linux): without network, other processes and the files of the
// user.
type Sandbox = host.Sandbox

// Values of Options.Sandbox. Empty means SandboxOn.
const (
	SandboxOn      = host.SandboxOn      // with the layers that the system supports
	SandboxOff     = host.SandboxOff     // not confined
	SandboxRequire = host.SandboxRequire // an error if a layer is missing
)

// A Confinement describes how the process of a backend is confined.
type Confinement = host.Confinement

// BackendInfo is the description that a backend gives of itself.
type BackendInfo struct {
	Name, Version string
	Devices       []Device
	Levels        []string // of targets, such as cpu:x86-64-v4, that this machine supports, best first
	Precisions    []string
	MaxAlloc      int64  // largest arena in bytes; 0 means unlimited
	Target        string // the ops that it runs, in the language of spec/target.md, for rlxc --target
	Sandbox       Confinement
}

// Describe starts the backend, asks for its description, and ends it. It uses only Log, Protocol and Sandbox of the options. Errors match
// ErrLost or ErrDevice.
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
	out := BackendInfo{Name: i.Name, Version: i.Version, Devices: i.Devices, Levels: i.Levels, Precisions: i.Precisions, MaxAlloc: i.MaxAlloc, Sandbox: s.Sandbox()}
	if i.Target != nil {
		out.Target = i.Target.String()
	}
	return out
}
