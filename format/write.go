package format

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// Artifact has everything that Write writes except the weights. Of Meta, Methods, Opset and Precisions may be empty;
// they default to those of Programs, to this version's, and to "f32".
type Artifact struct {
	Meta     Meta
	Programs []*program.Program // of methods that are not divided
	Splits   []*program.Split   // of methods in segments
	// Sources, if not nil, returns Meta.Sources again, now with their digests. Write calls it after it has streamed the
	// weights, so that the caller can hash its files in the meantime.
	Sources func() ([]Source, error)
}

// Info describes the artifact that Write made.
type Info struct {
	Root [32]byte // see Verified.Root
	Size int64    // of the file in bytes
}

// Write writes an artifact to path. It writes a temporary file next to path, reads it back, verifies it, flushes it to
// disk and renames it, so that path never holds a partial file. If Write fails or ctx ends, the old file at path is
// unchanged and nothing is left behind. The same arguments give the same bytes.
//
// Weights are written in the given order, at the offsets of Layout. They are streamed, so memory does not grow with
// them. Errors are *diag.Error: code.ArtifactSource if the artifact would not be valid, code.Output if the file cannot
// be written, diag.Interrupted if ctx ended, and errors of Weight.Write.
func Write(ctx context.Context, path string, a Artifact, weights []Weight) (Info, error) {
	dir, err := Layout(weights)
	if err != nil {
		return Info{}, withSubject(err, path)
	}
	w, err := ctxio.Do(ctx, "encode", func() (*writer, error) { return newWriter(a, dir) }, nil)
	if ctx.Err() != nil {
		return Info{}, writeError(ctx, path, err)
	}
	if err != nil {
		return Info{}, diag.New(code.ArtifactSource, path, "%w", err)
	}
	if err := atomicfile.Fits(path, w.size); err != nil {
		return Info{}, err
	}
	f, err := atomicfile.CreateRegular(ctx, path)
	if err != nil {
		return Info{}, err
	}
	defer f.Abort()
	if err := w.write(ctx, f.File, weights); err != nil {
		return Info{}, writeError(ctx, path, err)
	}
	// The disk is idle while the file is read back and hashed, so sync at the same time.
	synced := make(chan error, 1)
	go func() { synced <- f.Sync() }()
	var syncErr error
	v, err := ctxio.Do(ctx, "verify", func() (*Verified, error) {
		v, err := w.readBack(f)
		syncErr = <-synced
		return v, err
	}, nil)
	if ctx.Err() != nil {
		return Info{}, writeError(ctx, path, err)
	}
	if pe, ok := errors.AsType[*os.PathError](err); ok { // an error of the operating system, not of the contents
		return Info{}, diag.New(code.Output, path, "what was written cannot be read back: %w", pe.Err)
	}
	if err != nil {
		return Info{}, diag.New(diag.Internal, path, "what was written does not verify: %w", err)
	}
	if syncErr != nil {
		return Info{}, writeError(ctx, path, syncErr)
	}
	return Info{v.Root(), w.size}, f.CommitSynced()
}

// readBack verifies the file as Open does, but compares the chunks of weights with the CRCs of the written data.
func (w *writer) readBack(r io.ReaderAt) (*Verified, error) {
	v, err := Verify(r, w.size, Policy{Weights: None})
	if err != nil {
		return nil, err
	}
	base, size := v.WeightsSection()
	return v, chunkError(checkChunks(size, allChunks(size), crcTest(r, base, w.crcs)))
}

func writeError(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return diag.New(diag.Interrupted, path, "writing was stopped: %w", context.Cause(ctx))
	}
	if _, coded := diag.CodeOf(err); coded {
		return err
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err // its path is the temporary one
	}
	return diag.New(code.OfWrite(err), path, "cannot be written: %w", err)
}

// writer knows the offset of everything in the file.
type writer struct {
	sections []Section
	bodies   [][]byte // encoded msgpack sections
	dir      *Directory
	size     int64
	crcs     []uint32 // CRC-32C of the weights' chunks, once written

	contents *contents
	meta     *Meta
	sources  func() ([]Source, error)
}

// newWriter encodes and checks the msgpack sections and lays out the file. It returns the errors of the checks.
func newWriter(a Artifact, dir *Directory) (*writer, error) {
	m := a.Meta
	if m.Opset == 0 {
		m.Opset = Opset
	}
	if m.Precisions == nil {
		m.Precisions = []string{"f32"}
	}
	if len(m.Methods) == 0 {
		for _, p := range a.Programs {
			if _, ok := m.Method(p.Method); !ok {
				m.Methods = append(m.Methods, MethodOf(p.Method, p.Graph))
			}
		}
	}
	c := contentsOf(&m, a.Programs, a.Splits, dir.tensors)
	w := &writer{dir: dir, contents: c, meta: &m, sources: a.Sources}
	decoded := &contents{}
	for _, k := range codecs {
		if !k.written(c) {
			continue
		}
		b := k.bytes(c)
		if len(b) > MaxSectionSize {
			return nil, fail(8, k.kind.String(), -1, "%d bytes; at most %d", len(b), MaxSectionSize)
		}
		items := uint64(k.items(c))
		if err := k.read(decoded, b, items); err != nil {
			return nil, err
		}
		w.bodies = append(w.bodies, b)
		w.sections = append(
			w.sections, Section{Kind: k.kind, Size: int64(len(b)), Items: items, SHA256: sha256.Sum256(b)})
	}
	if err := guard(func() error {
		_, _, _, err := checkContents(decoded, dir.size, Policy{})
		return err
	}); err != nil {
		return nil, err
	}
	if dir.size > 0 {
		n := chunkCount(dir.size)
		w.sections = append(w.sections, Section{Kind: KindChunks, Size: n * digestSize, Items: uint64(n)},
			Section{Kind: KindWeight, Size: dir.size})
	}
	end := int64(HeaderSize + len(w.sections)*EntrySize)
	for i := range w.sections {
		s := &w.sections[i]
		info, _ := findKind(s.Kind)
		align := info.alignFor(s.Size)
		s.Flags, s.Align, s.Version = info.flags, uint32(align), Schema
		s.Offset = alignUp(end, align)
		end = s.Offset + s.Size
	}
	w.size = end
	return w, nil
}

// write writes the file. It skips padding, which reads as zeros in a new file.
func (w *writer) write(ctx context.Context, f *os.File, weights []Weight) error {
	if w.dir.size > 0 {
		chunks, body := &w.sections[len(w.sections)-2], &w.sections[len(w.sections)-1]
		digests, err := w.writeWeights(ctx, f, body.Offset, weights)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(digests, chunks.Offset); err != nil {
			return err
		}
		chunks.SHA256 = sha256.Sum256(digests)
		body.SHA256 = chunks.SHA256
	}
	if w.sources != nil {
		if err := w.setSources(); err != nil {
			return err
		}
	}
	for i, b := range w.bodies {
		if _, err := f.WriteAt(b, w.sections[i].Offset); err != nil {
			return err
		}
	}
	var table []byte
	for i := range w.sections {
		table = appendEntry(table, &w.sections[i])
	}
	_, err := f.WriteAt(append(appendHeader(w.size, table), table...), 0)
	return err
}

// setSources puts the digests of the sources into META. The size of META stays the same.
func (w *writer) setSources() error {
	list, err := w.sources()
	if err != nil {
		return err
	}
	w.meta.Sources = list
	for i, k := range codecs {
		if k.kind != KindMeta {
			continue
		}
		b := k.bytes(w.contents)
		if len(b) != len(w.bodies[i]) {
			return diag.New(code.ArtifactSource, "", "the sources changed while the artifact was written")
		}
		w.bodies[i], w.sections[i].SHA256 = b, sha256.Sum256(b)
	}
	return nil
}

// writeWeights streams the weights to base and returns the digests of their chunks.
func (w *writer) writeWeights(ctx context.Context, f io.WriterAt, base int64, weights []Weight) ([]byte, error) {
	cw := newChunkWriter(ctx, f, base, w.dir.size)
	err := w.fill(cw, weights)
	// If a write fails or ctx ends, weights fails as a result. Report the cause.
	if finishErr := cw.finish(err != nil); finishErr != nil {
		return nil, finishErr
	}
	if _, coded := diag.CodeOf(err); err != nil && !coded {
		err = diag.New(code.ArtifactSource, "", "a weight cannot be read: %w", err)
	}
	w.crcs = cw.crcs
	return cw.digests, err
}

func (w *writer) fill(cw *chunkWriter, weights []Weight) error {
	for i, t := range w.dir.tensors {
		if _, err := cw.Write(make([]byte, t.Offset-cw.off)); err != nil { // padding, under 16 KiB
			return err
		}
		lim := &limitedWriter{w: cw, left: t.Size}
		err := weights[i].Write(lim)
		switch {
		case lim.excess || err == nil && lim.left != 0:
			return diag.New(code.ArtifactSource, t.Name, "the weight gave %d bytes or more; %v has %d", t.Size-lim.left,
				t.Type, t.Size)
		case err != nil:
			return err
		}
	}
	return nil
}

// limitedWriter returns errExcess if a weight writes more bytes than its type has.
type limitedWriter struct {
	w      io.Writer
	left   int64
	excess bool
}

var errExcess = errors.New("more bytes than the tensor has")

func (l *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		l.excess = true
		return 0, errExcess
	}
	n, err := l.w.Write(p)
	l.left -= int64(n)
	return n, err
}
