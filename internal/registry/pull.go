package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/filelock"
)

// Pull writes the artifact to path and returns a reference to it by digest. The bytes go to a file beside path whose
// name has the artifact's digest. If Pull fails, that file stays, and the next call continues where this one ended. At
// the end Pull compares the digest, calls verify with the name of the file, and renames the file.
func (r *Repository) Pull(ctx context.Context, path string, progress func(done, size int64),
	verify func(path string) error) (string, error) {
	path = atomicfile.Target(path)
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return "", diag.New(code.Output, path, "is not a regular file").WithHint(
			"name a file, not a folder or a device")
	}
	layer, pinned, err := r.layer(ctx)
	if err != nil {
		return "", err
	}
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+layer.Digest.Encoded()[:16]+".part")
	f, err := openPart(ctx, part)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := r.fetch(ctx, f, path, layer, progress); err != nil {
		return "", err
	}
	if err := verify(part); err != nil {
		return "", errors.Join(err, discard(part))
	}
	if err := errors.Join(f.Sync(), os.Rename(part, path)); err != nil {
		return "", diag.New(code.OfWrite(err), path, "cannot be written: %w", err)
	}
	return pinned, nil
}

// openPart opens the file of an artifact that is being fetched and locks it.
func openPart(ctx context.Context, part string) (*os.File, error) {
	if st, err := os.Lstat(part); err == nil && !st.Mode().IsRegular() {
		return nil, diag.New(code.Output, part, "is not a regular file").WithHint("remove it")
	}
	f, err := ctxio.OpenFile(ctx, part, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, atomicfile.CreateError(part, err)
	}
	if errors.Is(filelock.Try(f), filelock.ErrHeld) {
		f.Close()
		return nil, diag.New(code.Output, part, "is being written by another process").WithHint("wait until it ends")
	}
	return f, nil
}

// discard removes a file that cannot become an artifact.
func discard(part string) error {
	if err := os.Remove(part); err != nil {
		return diag.New(code.Output, part, "cannot be removed: %w", err)
	}
	return nil
}

// fetch completes f, which has the first bytes of the layer.
func (r *Repository) fetch(ctx context.Context, f *os.File, path string, layer ocispec.Descriptor,
	progress func(done, size int64)) error {
	sum := digest.SHA256.Digester()
	have, err := io.Copy(sum.Hash(), ctxio.NewReader(ctx, f))
	if err != nil {
		return diag.New(code.Output, f.Name(), "cannot be read: %w", err)
	}
	if have > layer.Size { // not a beginning of the artifact
		return errors.Join(r.wrong(have, layer), discard(f.Name()))
	}
	if err := atomicfile.Fits(path, layer.Size-have); err != nil {
		return err
	}
	if have < layer.Size {
		body, err := r.repo.Blobs().Fetch(ctx, layer)
		if err != nil {
			return r.fail(err, "fetching the artifact")
		}
		defer body.Close()
		if have, err = resume(f, body, sum, have); err != nil {
			return r.fail(err, "continuing the artifact")
		}
		from := &counting{io.LimitReader(body, layer.Size-have), have,
			func(done int64) { progress(done, layer.Size) }}
		n, err := io.Copy(io.MultiWriter(f, sum.Hash()), from)
		if err == nil && have+n < layer.Size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			if cause := new(fs.PathError); errors.As(err, &cause) {
				return diag.New(code.OfWrite(err), f.Name(), "cannot be written: %w", err)
			}
			return r.fail(fmt.Errorf("after %d of %d bytes: %w", have+n, layer.Size, err), "fetching the artifact")
		}
	}
	if sum.Digest() != layer.Digest {
		return errors.Join(r.wrong(layer.Size, layer), discard(f.Name()))
	}
	return nil
}

// wrong is the error for bytes that are not the layer's.
func (r *Repository) wrong(have int64, layer ocispec.Descriptor) error {
	return diag.New(code.Registry, r.ref, "the %d bytes that were fetched do not have the digest %s of the manifest",
		have, layer.Digest).WithHint("fetch it again; if that does not help, the registry's copy is damaged")
}

// resume moves body to the byte after those that f has. If the registry does not send parts, it empties f.
func resume(f *os.File, body io.Reader, sum digest.Digester, have int64) (int64, error) {
	if have == 0 {
		return 0, nil
	}
	if s, ok := body.(io.Seeker); ok {
		_, err := s.Seek(have, io.SeekStart)
		return have, err
	}
	sum.Hash().Reset()
	_, err := f.Seek(0, io.SeekStart)
	return 0, errors.Join(err, f.Truncate(0))
}
