package main

import (
	"context"
	"os"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/regular"
)

// key identifies what the masks of an image depend on. Images of a folder must be regular files. A single image may
// also be a pipe, which cannot be read twice and has no key.
func (j *manyJob) key(ctx context.Context, s *session, path string) (string, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() && j.flags.folder == "" {
		return "", nil
	}
	f, st, err := regular.Open(path)
	if err != nil {
		return "", diag.New(code.Image, path, "%w", err)
	}
	defer f.Close()
	if st.Size() > imaging.MaxFile {
		return "", diag.New(code.Image, path, "has %d bytes; at most %d are allowed", st.Size(), imaging.MaxFile)
	}
	key, err := j.work.key(ctx, s.model.Facts().Identity, s.host.Precision(), f)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", diag.New(code.Image, path, "cannot be read: %w", unpath(err))
	}
	return key, nil
}
