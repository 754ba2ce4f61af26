package main

import (
	"context"
	"crypto/sha256"
	"io"
	"os"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/models/weights"
)

// digests is the hashing of the source files, which goes on beside the compiler's own work and the writing of weights.
type digests struct {
	files []format.Source // names and sizes, without digests
	done  chan struct{}
	list  []format.Source
	err   error
}

func startDigests(ctx context.Context, c *weights.Checkpoint) *digests {
	d := &digests{done: make(chan struct{})}
	files := c.Files()
	paths := sourcePaths(c)
	paths = paths[len(paths)-len(files):] // the index is not hashed: what it says is in the files
	for _, f := range files {
		d.files = append(d.files, format.Source{Name: f.Name, Size: f.Size})
	}
	go func() {
		defer close(d.done)
		for i, f := range files {
			sum, err := hashFile(ctx, paths[i])
			if err != nil {
				d.err = err
				return
			}
			d.list = append(d.list, format.Source{Name: f.Name, Size: f.Size, SHA256: sum})
		}
	}()
	return d
}

func (d *digests) wait() ([]format.Source, error) {
	<-d.done
	return d.list, d.err
}

// cancellable ends a copy when the context does.
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

func hashFile(ctx context.Context, path string) (sum [32]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, diag.New(weights.CodeRead, path, "%w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, cancellable{ctx, f}, make([]byte, 128<<10)); err != nil { // stays in the second-level cache
		return sum, diag.New(weights.CodeRead, path, "%w", err)
	}
	return [32]byte(h.Sum(nil)), nil
}
