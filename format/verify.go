package format

import (
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/internal/regular"
)

// Mode tells when the digests of the weights are checked.
type Mode uint8

const (
	Full Mode = iota // before Open returns
	Lazy             // when VerifyWeights is called for a range
	None             // never; for a file that was verified before and cannot have changed
)

// Policy holds the limits of a host in addition to those of the format. The zero value checks everything and limits
// nothing.
type Policy struct {
	Weights   Mode
	Root      *[32]byte // digest that the artifact must have; nil allows any
	MaxMemory int64     // bytes for the weights and the largest program's arena, IO space and state; 0 means no limit
	MaxWork   int64     // FLOPs of one run of a program at the upper bounds of its symbols; 0 means no limit
	// MaxStructure bounds the memory in bytes that reading the structure needs (StructureMemory); 0 means no limit. An
	// artifact that needs more is refused before its structure is read.
	MaxStructure int64
	// Unshared refuses a file that other users of the machine can write to or replace, judged by owners and modes
	// (owned.Private). Verify ignores it.
	Unshared bool
}

// Verified is an artifact that has passed every check. Only this package can make one. Callers must not change what its
// methods return. The methods may be called concurrently.
type Verified struct {
	c        *container
	policy   Policy
	file     *os.File // nil if made by Verify
	path     string   // for errors
	meta     *Meta
	dir      *Directory
	programs []*program.Program
	splits   []*program.Split

	mu     sync.Mutex
	intact []bool        // by chunk, in mode Lazy: the digest has been checked
	stamp  regular.Stamp // of file, taken before it was verified
}

// Open verifies the artifact at path (checks 1 to 38). The file stays open until Close. Use File rather than opening
// path again, which may be another file by then. Errors are *diag.Error with codes RLX4001 to RLX4038, or RLX4050 for
// the task; code.Verifier(k) is the code of check k.
func Open(path string, p Policy) (*Verified, error) {
	f, err := openRegular(path, p)
	if err != nil {
		return nil, withSubject(err, path)
	}
	stamp, err := regular.StampOf(f)
	if err != nil {
		f.Close()
		return nil, diag.New(code.ArtifactMissing, path, "cannot be examined: %w", err)
	}
	v, err := Verify(f, stamp.Size(), p)
	if err != nil {
		f.Close()
		return nil, withSubject(err, path)
	}
	v.file, v.path, v.stamp = f, path, stamp
	return v, nil
}

// openRegular runs check 1. A missing file is an error in the caller's arguments, not in an artifact.
func openRegular(path string, p Policy) (*os.File, error) {
	f, _, err := regular.Open(path)
	if kind := (*regular.KindError)(nil); errors.As(err, &kind) {
		return nil, fail(1, "file", -1, "not a regular file but %s", kind.Kind)
	}
	if err != nil {
		return nil, diag.New(code.ArtifactMissing, "", "%w", err)
	}
	if p.Unshared {
		if who := owned.Private(path); who != nil {
			f.Close()
			return nil, fail(1, "file", -1, "%w and thus replace the artifact", who)
		}
	}
	return f, nil
}

func withSubject(err error, path string) error {
	var e *diag.Error
	if errors.As(err, &e) && e.Subject == "" {
		e.Subject = path
	}
	return err
}

// Verify is Open for size bytes in r, which must not change. Its result depends only on these bytes and the policy. It
// takes time linear in size (n log n in the number of nodes) and never panics: a bug of ours becomes an error with
// diag.Internal.
func Verify(r io.ReaderAt, size int64, p Policy) (v *Verified, err error) {
	c, err := readContainer(r, size, p)
	if err != nil {
		return nil, err
	}
	// Checking the digests of chunks takes the longest, so it runs in parallel with the other checks.
	chunks := make(chan error, 1)
	if p.Weights == Full {
		go func() {
			_, size := c.weights()
			chunks <- c.checkWeights(allChunks(size))
		}()
	} else {
		chunks <- nil
	}
	v = &Verified{c: c, policy: p}
	err = guard(v.read)
	if e := <-chunks; e != nil {
		return nil, e // check 12 comes first
	}
	if err != nil {
		return nil, err
	}
	c.bytes = map[Kind][]byte{KindChunks: c.bytes[KindChunks]} // the other sections are decoded by now
	if p.Weights == Lazy {
		_, size := c.weights()
		v.intact = make([]bool, chunkCount(size))
	}
	return v, nil
}

// guard turns a panic into an error. Only a bug of ours, or of an op's type inference, causes one.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = diag.New(diag.Internal, "", "the verifier stopped: %v", r)
		}
	}()
	return f()
}

// read runs checks 13 to 38.
func (v *Verified) read() error {
	cs := &contents{}
	for _, k := range codecs {
		b, ok := v.c.bytes[k.kind]
		if !ok {
			continue
		}
		s, _ := v.c.section(k.kind)
		if err := k.read(cs, b, s.Items); err != nil {
			return err
		}
	}
	_, weights := v.c.weights()
	var err error
	if v.dir, v.programs, v.splits, err = checkContents(cs, weights, v.policy); err != nil {
		return err
	}
	v.meta = cs.meta
	return v.checkPadding()
}

// Meta returns the description of the artifact.
func (v *Verified) Meta() *Meta { return v.meta }

// Programs returns the programs of methods that are not divided into segments, in the order of the file.
func (v *Verified) Programs() []*program.Program { return v.programs }

// Splits returns the methods in segments, in the order of the file.
func (v *Verified) Splits() []*program.Split { return v.splits }

// All returns all programs in the order of the file: Programs, then those of the segments.
func (v *Verified) All() []*program.Program {
	all := slices.Clone(v.programs)
	for _, s := range v.splits {
		for _, x := range s.Segments {
			all = append(all, x.Program)
		}
	}
	return all
}

// Program returns the program of a method for a target.
func (v *Verified) Program(method, target string) (*program.Program, bool) {
	for _, p := range v.programs {
		if p.Method == method && p.Target == target {
			return p, true
		}
	}
	return nil, false
}

// Weights returns the weight directory.
func (v *Verified) Weights() *Directory { return v.dir }

// WeightsSection returns the byte range of the weights in the file. Without weights, the size is 0.
func (v *Verified) WeightsSection() (offset, size int64) { return v.c.weights() }

// File returns the open file, or nil if Verify made v.
func (v *Verified) File() *os.File { return v.file }

// StructureSize returns the total size of the msgpack sections in bytes.
func (v *Verified) StructureSize() int64 { return v.c.structure }

// Size returns the size of the file in bytes.
func (v *Verified) Size() int64 { return v.c.size }

// Version returns the format version of the file.
func (v *Verified) Version() (major, minor int) { return int(v.c.head.major), int(v.c.head.minor) }

// Sections returns the section table.
func (v *Verified) Sections() []Section { return v.c.sections }

// Root returns the digest that identifies the artifact. It depends on every byte of the file.
func (v *Verified) Root() [32]byte { return v.c.head.root }

// Identity returns Root as text: "sha256:" and hexadecimal digits.
func (v *Verified) Identity() string {
	root := v.Root()
	return "sha256:" + hex.EncodeToString(root[:])
}

// VerifyWeights checks the digests of the chunks that contain size bytes at off of the weights section. It uses all
// cores and checks each chunk only once. It does nothing unless the mode is Lazy.
func (v *Verified) VerifyWeights(off, size int64) error {
	if _, total := v.c.weights(); !within(off, size, total) {
		return fail(20, KindWeight.String(), off, "%d bytes at this offset are not all in the section", size)
	}
	if v.intact == nil || size == 0 {
		return nil
	}
	var list []int64
	v.mu.Lock()
	for i := off / ChunkSize; i <= (off+size-1)/ChunkSize; i++ {
		if !v.intact[i] {
			list = append(list, i)
		}
	}
	v.mu.Unlock()
	if err := v.c.checkWeights(list); err != nil {
		return withSubject(err, v.path)
	}
	v.mu.Lock()
	for _, i := range list {
		v.intact[i] = true
	}
	v.mu.Unlock()
	return nil
}

// AssumeIntact makes VerifyWeights do nothing. Call it if the weights were verified before and the file has not changed
// since.
func (v *Verified) AssumeIntact() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.intact {
		v.intact[i] = true
	}
}

// Stamp returns what the file system recorded about the file before Open began to verify it.
func (v *Verified) Stamp() regular.Stamp {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stamp
}

// Unchanged checks that the file has not been written to since Open began to verify it. Backends map the weights, so
// such writes change them. Call it after the weights were used. It detects what regular.Stamp detects.
func (v *Verified) Unchanged() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, err := regular.StampOf(v.file)
	if err != nil {
		return diag.New(code.ArtifactChanged, v.path, "cannot be examined: %w", err)
	}
	switch v.stamp.Compare(now) {
	case regular.Touched: // most likely another file has replaced it; the digests decide
		root := v.Root()
		if _, err := Verify(v.file, v.c.size, Policy{Root: &root}); err != nil {
			return diag.New(code.ArtifactChanged, v.path, "changed after it was verified: %w", err)
		}
		v.stamp = now
	case regular.Changed:
		return diag.New(code.ArtifactChanged, v.path, "was written to after it was verified").WithHint(
			"replace it with a rename instead, as rlxc does")
	}
	return nil
}

// Close closes the file. The results of Meta and Programs stay valid.
func (v *Verified) Close() error {
	if v.file == nil {
		return nil
	}
	return v.file.Close()
}
