package rlx

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/task"
)

// OpenOptions holds the options of Open. The zero value is right for most programs.
type OpenOptions struct {
	// Lazy leaves the digests of the weights to Verify and to sessions, which check the weights of a method before they
	// load it. Open verifies everything else.
	Lazy bool
	// Remember, if not empty, is a folder that records which files were verified in full, by digest, device, inode,
	// size and times. The weights of a recorded file are not verified again. Only the user may have the right to write
	// to the folder. A change that leaves all of these as they are, such as by a failing disk or an administrator, is
	// not noticed.
	Remember string
	// Unverified skips the digests of the weights, so damage to them is not noticed. The structure is still verified.
	Unverified bool
	// Memory limits the memory for the structure of the artifact; nil means the memory that is free.
	Memory *Budget
}

// A Model is an open, verified artifact. Its methods may be called concurrently. Callers must not modify the results.
type Model struct {
	path     string
	verified *format.Verified
	methods  []*Method

	states    []program.StateTensor // by name
	stateSize int64
	launcher  host.Launcher // counts recent crashes

	making sync.Mutex
	made   map[any]any // see Once

	remember string // OpenOptions.Remember
	trusted  bool   // the weights were not verified, or not by this process

	mu     sync.Mutex
	users  int // the opener and the sessions
	closed bool
}

// checkpoints lists the extensions of files that rlxc compiles.
var checkpoints = []string{".safetensors", ".json", ".gguf"}

// hintCompile adds a hint to the error of a path that rlxc could compile.
func hintCompile(path string, err error) {
	e, ok := errors.AsType[*diag.Error](err)
	if !ok {
		return
	}
	st, failed := os.Stat(path)
	if folder := failed == nil && st.IsDir(); folder && errors.Is(err, code.Verifier(1)) ||
		slices.Contains(checkpoints, filepath.Ext(path)) && errors.Is(err, code.Verifier(2)) {
		e.WithHint("a checkpoint is compiled first: rlxc %s -o model.rlx", path)
	}
}

// Open opens and verifies the artifact at path. It executes nothing, and checks sizes in the file before it allocates
// memory. The file must not be written to while the model is open; a write is reported as ErrChanged. Close the model
// after use.
//
// Errors match ErrArtifact, fs.ErrNotExist or another error of the file system, ErrMemory, or the context's cause.
func Open(ctx context.Context, path string, o OpenOptions) (*Model, error) {
	v, err := ctxio.Do(ctx, "open", func() (*format.Verified, error) {
		return format.Open(path, format.Policy{Weights: format.Lazy, MaxStructure: o.Memory.largest()})
	}, func(v *format.Verified) { v.Close() })
	if errors.Is(err, code.Verifier(38)) {
		if e, ok := errors.AsType[*diag.Error](err); ok { // with path only once
			return nil, &diag.Error{Code: device.ErrMemory, Subject: path, Msg: e.Msg, Hint: e.Hint, Err: err}
		}
		return nil, diag.New(device.ErrMemory, path, "%w", err)
	}
	if err != nil {
		hintCompile(path, err)
		return nil, err
	}
	m := &Model{path: path, verified: v, users: 1}
	m.methods = methodsOf(m)
	if m.states, m.stateSize, err = program.JoinStates(v.All()...); err != nil {
		panic("BUG: " + err.Error()) // the verifier has checked it
	}
	m.remember = o.Remember
	if m.trusted = o.Unverified || m.remembered(); m.trusted {
		v.AssumeIntact()
	}
	if !o.Lazy {
		if err := m.Verify(ctx); err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

// Verify checks the digests of all weights, using all cores. Weights that were verified before are skipped. Call it for
// models opened with OpenOptions.Lazy. It may run concurrently with NewSession. The error matches ErrArtifact, or the
// context's cause.
func (m *Model) Verify(ctx context.Context) error {
	if err := m.retain(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer m.release()
		_, size := m.verified.WeightsSection()
		err := m.verified.VerifyWeights(0, size)
		if err == nil {
			m.record()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return about(m.path, err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// verifyParams checks the digests of the weights that a program uses.
func (m *Model) verifyParams(p *program.Program) error {
	for _, n := range p.Graph.Params() {
		if err := m.verified.VerifyWeights(p.Places[n.ID].Offset, p.Places[n.ID].Size); err != nil {
			return about(m.path, err)
		}
	}
	return nil
}

// Close closes the artifact. Its sessions stay usable until they are closed themselves.
func (m *Model) Close() error {
	m.mu.Lock()
	was := m.closed
	m.closed = true
	m.mu.Unlock()
	if was {
		return nil
	}
	return m.release()
}

// retain keeps the file open until release.
func (m *Model) retain() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return usage(m.path, "was closed; open it again")
	}
	m.users++
	return nil
}

func (m *Model) release() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users--; m.users > 0 {
		return nil
	}
	return m.verified.Close()
}

// unchanged fails if the file was written to since it was verified, or is closed.
func (m *Model) unchanged() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users == 0 {
		return diag.New(code.Closed, m.path, "was closed while it was used")
	}
	return m.verified.Unchanged()
}

// Path returns the path that was passed to Open.
func (m *Model) Path() string { return m.path }

// Facts holds the metadata of an artifact.
type Facts struct {
	Name         string // for display, such as "sam-vit-b"
	Architecture string // "sam"
	Task         string // task that the artifact declares, such as "segment"; empty if none
	Compiler     string // "rlxc 0.1.0"
	Identity     string // "sha256:..." of the whole file
	Weights      int64  // bytes
	// Precisions lists the allowed values of Options.Precision, the default first.
	Precisions []string
	Pairs      map[string]string // other pairs that the compiler wrote
}

// Facts returns the metadata of the artifact.
func (m *Model) Facts() Facts {
	meta := m.verified.Meta()
	f := Facts{Name: meta.Model, Architecture: meta.Architecture,
		Compiler:   strings.TrimSpace(meta.Producer.Name + " " + meta.Producer.Version),
		Precisions: meta.Precisions, Pairs: map[string]string{}}
	f.Identity = m.verified.Identity()
	if t := meta.Task; t != nil {
		f.Task = t.Kind()
	}
	_, f.Weights = m.verified.WeightsSection()
	if len(f.Precisions) == 0 {
		f.Precisions = []string{device.DefaultPrecision}
	}
	for _, p := range meta.Pairs {
		f.Pairs[p.Key] = p.Value
	}
	return f
}

// Precision returns name if the artifact allows that precision, or the default if name is empty. The error matches
// ErrUsage.
func (m *Model) Precision(name string) (string, error) {
	allowed := m.Facts().Precisions
	name = cmp.Or(name, allowed[0])
	if !slices.Contains(allowed, name) {
		return "",
			usage("precision "+name, "%s does not allow it; allowed are %s", m.path,
				strings.Join(allowed, ", ")).Naming("precision " + name)
	}
	return name, nil
}

// Methods lists the methods, in the order of the artifact.
func (m *Model) Methods() []*Method { return m.methods }

// Method returns the method with a name. The error matches ErrUsage and lists the existing methods.
func (m *Model) Method(name string) (*Method, error) {
	var names []string
	for _, x := range m.methods {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	return nil,
		usage("method "+name, "%s has no such method; methods are %s", m.path, strings.Join(names, ", ")).Naming(
			"method " + name)
}

// A Task is the description of the task that an artifact declares. Packages such as segment and text read it from
// Model.Task; other programs do not need it.
type Task = task.Task

// Task returns the description of the task that the artifact declares, or nil if it declares no task.
func (m *Model) Task() Task { return m.verified.Meta().Task }

// Attachment returns a file that the artifact carries for its task, such as a tokenizer, after verifying its digest.
// The error matches ErrUsage if there is no file of that name, or ErrArtifact if it is damaged or has more than limit
// bytes.
func (m *Model) Attachment(name string, limit int64) ([]byte, error) {
	t, ok := m.verified.Weights().Find(name)
	if attached, is := m.Task().(task.Attached); !ok || !is || !slices.Contains(attached.Attachments(), name) {
		return nil, usage(m.path, "carries no file %.80q", name)
	}
	if t.Size > limit {
		return nil, diag.New(code.ArtifactRead, m.path, "its %s has %d bytes; at most %d are allowed", name, t.Size,
			limit)
	}
	if err := m.verified.VerifyWeights(t.Offset, t.Size); err != nil {
		return nil, about(m.path, err)
	}
	return m.weight(t.Offset, t.Size)
}

// Once returns the value that f returns, and calls f only if no earlier call with this key was successful. Packages for
// tasks use it for values that they compute once for each model, such as a parsed tokenizer. As for the keys of a
// context, the type of key should belong to the package that calls Once.
func (m *Model) Once(key any, f func() (any, error)) (any, error) {
	m.making.Lock()
	defer m.making.Unlock()
	if v, ok := m.made[key]; ok {
		return v, nil
	}
	v, err := f()
	if err != nil {
		return nil, err
	}
	if m.made == nil {
		m.made = map[any]any{}
	}
	m.made[key] = v
	return v, nil
}

// largestIO returns the largest IO space of the programs, in bytes.
func (m *Model) largestIO() (n int64) {
	for _, p := range m.verified.All() {
		n = max(n, p.IOSize)
	}
	return n
}

// mapped returns the location of the weights for a backend.
func (m *Model) mapped() host.Weights {
	w := host.Weights{Root: m.verified.Root()}
	w.Offset, w.Size = m.verified.WeightsSection()
	return w
}

// weight reads bytes of the weights section.
func (m *Model) weight(offset, size int64) ([]byte, error) {
	b := tensor.AlignedBytes(int(size))
	first, _ := m.verified.WeightsSection()
	if _, err := m.verified.File().ReadAt(b, first+offset); err != nil {
		if pe := (*os.PathError)(nil); errors.As(err, &pe) {
			err = pe.Err // the subject has the path already
		}
		return nil, diag.New(code.ArtifactRead, m.path, "weights cannot be read: %w", err)
	}
	return b, nil
}

// encodeProgram encodes a program for a backend. A backend gets the host's own encoding, never bytes of the file.
func encodeProgram(p *program.Program) ([]byte, error) { return format.EncodeProgram(p) }
