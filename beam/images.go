package rlxbeam

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/regular"
)

// Image is an image file.
type Image struct {
	Name string // relative path with slashes; it names the results
	Data []byte // PNG, JPEG, WebP, TIFF or BMP
}

// ReadImages returns the images below a folder, PCollection<Image>, whose path relative to it matches a pattern, and a
// PCollection<Failure> with those that cannot be read. A part of the pattern that is ** stands for any number of
// folders. A file counts as an image if its name has the ending of one, such as .png. The folder must be the same on
// every worker.
//
// One worker lists the files, and the list is then divided among all workers, which read them.
func ReadImages(s beam.Scope, folder, pattern string) (images, failed beam.PCollection) {
	s = s.Scope("rlxbeam.ReadImages")
	names := beam.ParDo(s, &listFn{Folder: folder, Pattern: pattern}, beam.Impulse(s))
	return beam.ParDo2(s, &readFn{Folder: folder}, beam.Reshuffle(s, names))
}

// ImagesOf turns what Beam's fileio finds, PCollection<fileio.FileMetadata> such as of objects in a bucket, into
// PCollection<Image>. The name of an image is its path after prefix.
func ImagesOf(s beam.Scope, prefix string, files beam.PCollection) beam.PCollection {
	s = s.Scope("rlxbeam.ImagesOf")
	return beam.ParDo(s, &fileFn{Prefix: prefix}, fileio.ReadMatches(s, beam.Reshuffle(s, files)))
}

// Matches reports whether a relative path with slashes matches a pattern of ReadImages. The error reports a malformed
// pattern.
func Matches(pattern, name string) (bool, error) {
	return matches(strings.Split(path.Clean(pattern), "/"), strings.Split(name, "/"))
}

func matches(pattern, name []string) (bool, error) {
	switch {
	case len(pattern) == 0:
		return len(name) == 0, nil
	case pattern[0] == "**" && len(pattern) == 1:
		return len(name) > 0, nil
	case pattern[0] == "**":
		for i := range len(name) + 1 {
			if ok, err := matches(pattern[1:], name[i:]); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	case len(name) == 0:
		return false, nil
	}
	ok, err := path.Match(pattern[0], name[0])
	if !ok || err != nil {
		return false, err
	}
	return matches(pattern[1:], name[1:])
}

type listFn struct{ Folder, Pattern string }

// ProcessElement lists the folder.
func (f *listFn) ProcessElement(ctx context.Context, _ []byte, emit func(string)) error {
	return filepath.WalkDir(f.Folder, func(p string, d os.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || d.IsDir() || !imaging.Named(p) {
			return err
		}
		name, err := filepath.Rel(f.Folder, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		ok, err := Matches(f.Pattern, name)
		if ok {
			emit(name)
		}
		return err
	})
}

type readFn struct{ Folder string }

// ProcessElement reads a file.
func (f *readFn) ProcessElement(ctx context.Context, name string, emit func(Image), fail func(Failure)) {
	data, err := regular.ReadFile(filepath.Join(f.Folder, filepath.FromSlash(name)), imaging.MaxFile)
	if err == nil {
		emit(Image{Name: name, Data: data})
		return
	}
	letter, _ := failure(ctx, name, diag.New(code.Image, name, "cannot be read: %w", err))
	fail(letter)
}

type fileFn struct{ Prefix string }

// ProcessElement reads a file of Beam's.
func (f *fileFn) ProcessElement(ctx context.Context, file fileio.ReadableFile, emit func(Image)) error {
	data, err := file.Read(ctx)
	if err != nil {
		return err
	}
	emit(Image{Name: strings.TrimPrefix(strings.TrimPrefix(file.Metadata.Path, f.Prefix), "/"), Data: data})
	return nil
}

func init() {
	register.DoFn3x1[context.Context, []byte, func(string), error](&listFn{})
	register.DoFn4x0[context.Context, string, func(Image), func(Failure)](&readFn{})
	register.DoFn3x1[context.Context, fileio.ReadableFile, func(Image), error](&fileFn{})
	register.Emitter1[string]()
	register.Emitter1[Image]()
	register.Emitter1[Failure]()
}
