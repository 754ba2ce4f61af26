package format

import (
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/regular"
)

// Mode is when the weights' digests are checked.
type Mode uint8

const (
	Full Mode = iota // all of them, before Open returns
	Lazy             // those of a range when VerifyWeights is called for it
	None             // never: for a file that was checked before and cannot have changed
)

// Policy is a host's limits in addition to those of the format. The zero value checks everything and limits nothing.
type Policy struct {
	Weights   Mode
	Root      *[32]byte // the digest that the artifact must have; nil means any
	MaxMemory int64     // bytes for the weights and the largest program's arena and IO space; 0 means no limit
	MaxWork   int64     // FLOPs of one run of a program at the upper bounds of its symbols; 0 means no limit
	// MaxStructure bounds the memory for reading the structure, in bytes (StructureMemory); 0 means no limit. An artifact that
	// needs more is refused before its structure is read.
	MaxStructure int64
	// Unshared refuses a file that other users of the machine may write or replace: its mode, or its folder's, lets
	// others write. Only for Open.
	Unshared bool
}

// Verified is an artifact that has passed every check. Only this package makes one. What its methods return must not be
// changed. Its methods may be called from several goroutines.
type Verified struct {
	c        *container
	policy   Policy
	file     *os.File // nil after Verify
	path     string   // for errors
	meta     *Meta
	dir      *Directory
	programs []*program.Program
	splits   []*program.Split

	mu     sync.Mutex
	intact []bool        // by chunk, in mode Lazy
	stamp  regular.Stamp // of file, from before it was verified
}

// Open verifies the artifact at path (checks 1 to 38). The file stays open until Close: use File and do not open path
// again, which may be another file by then. Errors are *diag.Error with the codes RLX4001 to RLX4038, or RLX4050 for the
// task; the code for check k is CodeOf(k).
func Open(path string, p Policy) (*Verified, error) {
	f, err := openRegular(path, p)
	if err != nil {
		return nil, withSubject(err, path)
	}
	stamp, err := regular.StampOf(f)
	if err != nil {
		f.Close()
		return nil, diag.New(CodeMissing, path, "cannot be examined: %w", err)
	}
	v, err := Verify(f, stamp.Size(), p)
	if err != nil {
		f.Close()
		return nil, withSubject(err, path)
	}
	v.file, v.path, v.stamp = f, path, stamp
	return v, nil
}

// openRegular runs check 1. A file that does not exist is an error of the caller's arguments, not of an artifact.
func openRegular(path string, p Policy) (*os.File, error) {
	st, err := os.Stat(path) // before opening: opening a pipe would wait for a writer
	if err == nil && !st.Mode().IsRegular() {
		what := "a device, a pipe or a socket"
		if st.IsDir() {
			what = "a directory"
		}
		return nil, fail(1, "file", -1, "not a regular file but %s", what)
	}
	f, err := os.Open(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the subject names the path
		}
		return nil, diag.New(CodeMissing, "", "cannot be opened: %w", err)
	}
	st, err = f.Stat()
	switch {
	case err != nil:
		err = diag.New(CodeMissing, "", "cannot be examined: %w", errors.Unwrap(err)) // the subject names the path
	case !st.Mode().IsRegular():
		err = fail(1, "file", -1, "not a regular file")
	case p.Unshared:
		err = checkUnshared(path, st)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// CodeMissing is reported by Open.
var CodeMissing = diag.Define("RLX3041", "artifact cannot be opened", `
The artifact does not exist, or you may not read it.`)

func checkUnshared(path string, st os.FileInfo) error {
	const others, sticky = 0o002, os.ModeSticky
	if st.Mode().Perm()&others != 0 {
		return fail(1, "file", -1, "every user of this machine may write it (mode %v)", st.Mode().Perm())
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm()&others != 0 && dir.Mode()&sticky == 0 {
		return fail(1, "file", -1, "every user of this machine may replace it: its folder is writable for all")
	}
	return nil
}

func withSubject(err error, path string) error {
	var e *diag.Error
	if errors.As(err, &e) && e.Subject == "" {
		e.Subject = path
	}
	return err
}

// Verify is Open for size bytes in r, which must not change. It depends on them and the policy only, takes time linear in
// the size (n log n in the number of nodes), and never panics: a bug of ours is an error with diag.Internal.
func Verify(r io.ReaderAt, size int64, p Policy) (v *Verified, err error) {
	c, err := readContainer(r, size, p)
	if err != nil {
		return nil, err
	}
	// The chunks' digests take the longest: they are checked while the rest is.
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
	c.bytes = map[Kind][]byte{KindChunks: c.bytes[KindChunks]} // the others are decoded
	if p.Weights == Lazy {
		_, size := c.weights()
		v.intact = make([]bool, chunkCount(size))
	}
	return v, nil
}

// guard turns a panic, which only a bug of ours or of an op's type inference can cause, into an error.
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

// Meta describes the artifact.
func (v *Verified) Meta() *Meta { return v.meta }

// Programs lists the programs of methods in one piece, in the order of the file.
func (v *Verified) Programs() []*program.Program { return v.programs }

// Splits lists the methods in segments, in the order of the file.
func (v *Verified) Splits() []*program.Split { return v.splits }

// All lists the programs in the order of the file: Programs, and then those of the segments.
func (v *Verified) All() []*program.Program {
	all := slices.Clone(v.programs)
	for _, s := range v.splits {
		for _, x := range s.Segments {
			all = append(all, x.Program)
		}
	}
	return all
}

// Program finds the program of a method for a target.
func (v *Verified) Program(method, target string) (*program.Program, bool) {
	for _, p := range v.programs {
		if p.Method == method && p.Target == target {
			return p, true
		}
	}
	return nil, false
}

// Weights is the weight directory.
func (v *Verified) Weights() *Directory { return v.dir }

// WeightsSection is where the weights are in the file; the size is 0 if there are none.
func (v *Verified) WeightsSection() (offset, size int64) { return v.c.weights() }

// File is the open file; nil after Verify.
func (v *Verified) File() *os.File { return v.file }

// StructureSize is the size of the msgpack sections in bytes.
func (v *Verified) StructureSize() int64 { return v.c.structure }

// Size is the size of the file in bytes.
func (v *Verified) Size() int64 { return v.c.size }

// Version is the format version of the file.
func (v *Verified) Version() (major, minor int) { return int(v.c.head.major), int(v.c.head.minor) }

// Sections is the section table.
func (v *Verified) Sections() []Section { return v.c.sections }

// Root is the digest that commits to every byte of the file: its identity.
func (v *Verified) Root() [32]byte { return v.c.head.root }

// Identity is Root as text, "sha256:...".
func (v *Verified) Identity() string {
	root := v.Root()
	return "sha256:" + hex.EncodeToString(root[:])
}

// VerifyWeights checks the digests of the chunks that contain size bytes at off of the weights section, on all cores and each
// chunk once. It does nothing unless the mode is Lazy.
func (v *Verified) VerifyWeights(off, size int64) error {
	if _, total := v.c.weights(); !within(off, size, total) {
		return fail(20, KindWeight.String(), off, "%d bytes are asked for, which the section does not have", size)
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

// AssumeIntact makes VerifyWeights do nothing: for weights that were verified before, in a file that has not changed since.
func (v *Verified) AssumeIntact() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.intact {
		v.intact[i] = true
	}
}

// Stamp is what the file system recorded about the file before Open began to verify it.
func (v *Verified) Stamp() regular.Stamp {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stamp
}

// CodeChanged is reported by Unchanged.
var CodeChanged = diag.Define("RLX4051", "artifact changed while it was used", `
Something wrote to or truncated the file after it was verified, so the results are discarded. To replace an artifact that may be in
use, write the new one beside it and rename it, as rlxc does: runs that have begun keep the old one.`)

// Unchanged checks that the file was not written to since Open began to verify it. Call it after the weights were used:
// a backend maps them, so writes to the file change them. It detects what regular.Stamp shows.
func (v *Verified) Unchanged() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, err := regular.StampOf(v.file)
	if err != nil {
		return diag.New(CodeChanged, v.path, "cannot be examined: %w", err)
	}
	switch v.stamp.Compare(now) {
	case regular.Touched: // most likely it was replaced by another; its digests decide
		root := v.Root()
		if _, err := Verify(v.file, v.c.size, Policy{Root: &root}); err != nil {
			return diag.New(CodeChanged, v.path, "changed after it was verified: %w", err)
		}
		v.stamp = now
	case regular.Changed:
		return diag.New(CodeChanged, v.path, "was written to after it was verified").WithHint("replace it with a rename instead, as rlxc does")
	}
	return nil
}

// Close closes the file. What Meta and Programs returned stays valid.
func (v *Verified) Close() error {
	if v.file == nil {
		return nil
	}
	return v.file.Close()
}
