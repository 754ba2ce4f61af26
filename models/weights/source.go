package weights

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/regular"
)

// A source is an open file of the checkpoint, with its state at the time of opening.
type source struct {
	SourceFile
	path  string
	f     *os.File // nil if the whole file was read
	stamp regular.Stamp

	mu  sync.Mutex
	sum *[sha256.Size]byte // nil if not known yet
}

// addFile adds an open file, which Close closes.
func (c *Checkpoint) addFile(path string, f *os.File) (*source, error) {
	s := &source{path: path, f: f}
	c.files = append(c.files, s)
	var err error
	if s.stamp, err = regular.StampOf(f); err != nil {
		return nil, diag.New(CodeRead, path, "cannot be read: %w", err)
	}
	s.SourceFile = SourceFile{filepath.Base(path), s.stamp.Size()}
	return s, nil
}

// addText adds a file that was read whole.
func (c *Checkpoint) addText(path string, text []byte) {
	sum := sha256.Sum256(text)
	c.files = append(
		c.files, &source{SourceFile: SourceFile{filepath.Base(path), int64(len(text))}, path: path, sum: &sum})
}

// SHA256 returns the digests of Files. It hashes the files that are open, even if another file has taken their name
// since Open.
func (c *Checkpoint) SHA256(ctx context.Context) ([][sha256.Size]byte, error) {
	out := make([][sha256.Size]byte, len(c.files))
	for i, s := range c.files {
		s.mu.Lock()
		if s.sum == nil {
			sum, err := s.hash(ctx)
			if err != nil {
				s.mu.Unlock()
				return nil, err
			}
			s.sum = &sum
		}
		out[i] = *s.sum
		s.mu.Unlock()
	}
	return out, nil
}

func (s *source) hash(ctx context.Context) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	r := cancellable{ctx, io.NewSectionReader(s.f, 0, s.Size)}
	n, err := io.CopyBuffer(h, r, make([]byte, 128<<10)) // the buffer stays in the second-level cache
	if err == nil && n < s.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return sum, diag.New(CodeRead, s.path, "cannot be read: %w", cause(err))
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// A cancellable reader fails when its context is done.
type cancellable struct {
	ctx context.Context
	r   io.Reader
}

func (c cancellable) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// Unchanged checks that no file of the checkpoint was written to since Open. Call it after the last read. It notices
// only changes that show in regular.Stamp.
func (c *Checkpoint) Unchanged(ctx context.Context) error {
	for _, s := range c.files {
		if s.f == nil {
			continue
		}
		now, err := regular.StampOf(s.f)
		if err != nil {
			return diag.New(CodeRead, s.path, "cannot be examined: %w", err)
		}
		switch s.stamp.Compare(now) {
		case regular.Changed:
			return s.changed()
		case regular.Touched: // probably another file took its name; the digest decides
			s.mu.Lock()
			before := s.sum
			s.mu.Unlock()
			sum, err := s.hash(ctx)
			if err != nil {
				return err
			}
			if before == nil || *before != sum {
				return s.changed()
			}
		}
	}
	return nil
}

func (s *source) changed() error {
	return diag.New(CodeRead, s.path, "was written to while it was read").WithHint(
		"compile it again when it is complete")
}
