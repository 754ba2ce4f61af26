package main

import (
	"bufio"
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/npy"
)

// offer is a possible output of a run, under the name that -o uses.
type offer struct {
	name, about string
	// pictures are the name suffixes of the images that the output consists of, nil for a tensor. A single image has
	// the suffix "".
	pictures []string
	ext      string // extension of a file that product.write writes; empty for tensors and images
	folder   bool   // the destination is a folder that the job fills itself
}

// product is an output of a finished run.
type product struct {
	tensor tensor.Tensor
	// image draws picture i of offer.pictures; nil for a tensor. It is called only for pictures that are written.
	image func(i int) image.Image
	write func(w io.Writer) error // writes a file of another kind
}

// sink is the value of one -o: an offer and its destination.
type sink struct {
	offer offer
	dest  string // path, or "-" for stdout
}

// parseSinks parses the values of -o: NAME=FILE, or FILE for the offer named primary, if that is not empty.
func parseSinks(given []string, offers []offer, primary string) ([]sink, error) {
	var out []sink
	var names []string
	for _, o := range offers {
		names = append(names, o.name)
	}
	for _, arg := range given {
		name, dest, ok := strings.Cut(arg, "=")
		if !ok {
			name, dest = primary, arg
		}
		if name == "" && !ok {
			return nil,
				cli.Usagef("-o "+arg, "does not name an output; outputs are %s", strings.Join(names, ", ")).WithHint(
					"write -o %s=%s", names[0], arg)
		}
		i := slices.Index(names, name)
		if i < 0 {
			return nil, cli.Usagef("-o "+arg, "there is no output %q; outputs are %s", name, strings.Join(names, ", "))
		}
		if dest == "" {
			return nil, cli.Usagef("-o "+arg, "the file's name is missing")
		}
		s := sink{offers[i], dest}
		if err := s.checkKind(arg); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// checkKind checks that the file extension fits the kind of output.
func (s sink) checkKind(arg string) error {
	ext := strings.ToLower(filepath.Ext(s.dest))
	device := strings.HasPrefix(s.dest, "/dev/")
	switch {
	case s.offer.folder && s.dest == "-":
		return cli.Usagef("-o "+arg, "%s are several files; name a folder", s.offer.name)
	case s.offer.folder && ext == ".png" && len(missing(s.dest)) > 0:
		return cli.Usagef("-o "+arg, "%s are several files; name a folder, without .png", s.offer.name)
	case s.offer.folder:
	case s.dest == "-" && len(s.offer.pictures) > 1:
		return cli.Usagef("-o "+arg, "%d images cannot go to stdout together; name a file", len(s.offer.pictures))
	case s.dest == "-" || device:
	case s.offer.pictures != nil && ext != ".png":
		return cli.Usagef("-o "+arg, "images are written as PNG; name a file that ends in .png")
	case s.offer.ext != "" && ext != s.offer.ext:
		return cli.Usagef("-o "+arg, "%s is written to a file that ends in %s", s.offer.name, s.offer.ext)
	case s.offer.ext != "":
	case s.offer.pictures == nil && ext != ".npy" && ext != ".npz" && ext != ".txt":
		return cli.Usagef("-o "+arg, "tensors are written to .npy, .npz and .txt files, or to stdout as text (%s=-)",
			s.offer.name)
	}
	return nil
}

// paths lists the files that the sink writes.
func (s sink) paths() []string {
	if s.dest == "-" || s.offer.folder {
		return nil
	}
	if len(s.offer.pictures) < 2 {
		return []string{s.dest}
	}
	var out []string
	ext := filepath.Ext(s.dest)
	for _, suffix := range s.offer.pictures {
		out = append(out, strings.TrimSuffix(s.dest, ext)+"."+suffix+ext)
	}
	return out
}

// checkStdout refuses invalid combinations of outputs on standard output: an image must be the only one.
func checkStdout(env *cli.Env, sinks []sink) error {
	image, n := "", 0
	for _, s := range sinks {
		if s.dest == "-" && s.offer.ext != "" && env.JSON {
			return cli.Usagef("-o "+s.offer.name+"=-", "cannot go to stdout together with --format json")
		}
	}
	for _, s := range sinks {
		if s.dest == "-" {
			n++
			if s.offer.pictures != nil {
				image = s.offer.name
			}
		}
	}
	switch {
	case image != "" && env.JSON:
		return cli.Usagef("-o "+image+"=-", "an image cannot go to stdout together with --format json")
	case image != "" && n > 1:
		return cli.Usagef("-o "+image+"=-", "an image goes to stdout alone; %d outputs are requested there", n)
	}
	return nil
}

// realPath returns the file that a path refers to, even if it does not exist yet.
func realPath(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return filepath.Clean(path)
}

// checkSinks detects errors before the run that would otherwise appear at its end: a directory that is missing or not
// writable, a file named twice, or the artifact or an input as an output.
func checkSinks(ctx context.Context, sinks []sink, more []string, artifact string, inputs ...string) error {
	seen := map[string]bool{}
	paths := slices.Clone(more)
	for _, s := range sinks {
		paths = append(paths, s.paths()...)
	}
	for _, p := range paths {
		clean := realPath(p)
		if seen[clean] && !strings.HasPrefix(clean, "/dev/") {
			return cli.Usagef("-o", "%s is named for two outputs", p)
		}
		seen[clean] = true
		st, err := os.Stat(p)
		for _, in := range append([]string{artifact}, inputs...) {
			switch inStat, inErr := os.Stat(in); {
			case err != nil || inErr != nil || !os.SameFile(st, inStat) || !st.Mode().IsRegular():
			case in == artifact:
				return cli.Usagef("-o", "%s is the artifact itself", p)
			default:
				return cli.Usagef("-o", "%s is the input %s, which would be lost", p, in).WithHint("name another file")
			}
		}
		if err == nil && !st.Mode().IsRegular() && !st.IsDir() {
			continue // opening and closing a pipe would send EOF to its reader
		}
		f, err := atomicfile.Create(ctx, p)
		if err != nil {
			return err
		}
		f.Abort()
	}
	return nil
}

// files holds outputs that are written together: all of them or, after an error, none.
type files struct{ open []*atomicfile.File }

// add writes a file under a temporary name.
func (w *files) add(ctx context.Context, path string, write func(io.Writer) error) error {
	f, err := atomicfile.Create(ctx, path)
	if err != nil {
		return err
	}
	w.open = append(w.open, f)
	b := bufio.NewWriterSize(f, 1<<16)
	if err := write(b); err != nil {
		return writeFailed(path, err)
	}
	if err := b.Flush(); err != nil {
		return writeFailed(path, err)
	}
	return nil
}

// commit renames all files to their final names.
func (w *files) commit() error {
	for _, f := range w.open {
		if err := f.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// abort removes the files that commit has not renamed.
func (w *files) abort() {
	for _, f := range w.open {
		f.Abort()
	}
}

// writeAll writes the products to their sinks: files first, then stdout. With --format json, tensors for stdout become
// part of the summary instead; see values.
func writeAll(ctx context.Context, env *cli.Env, sinks []sink, products map[string]product, w *files) error {
	for _, s := range sinks {
		p := products[s.offer.name]
		for i, path := range s.paths() {
			if err := w.add(ctx, path, p.writer(s.offer.name, i, strings.ToLower(filepath.Ext(path)))); err != nil {
				return err
			}
		}
	}
	if err := w.commit(); err != nil {
		return err
	}
	if env.JSON {
		return nil
	}
	toStdout := 0
	for _, s := range sinks {
		if s.dest == "-" {
			toStdout++
		}
	}
	dest := env.Stdout
	if slices.ContainsFunc(sinks, func(s sink) bool { return s.dest == "-" && s.offer.pictures != nil }) {
		dest = env.Binary() // checkStdout has checked that it is the only output there
	}
	out := bufio.NewWriter(dest)
	for _, s := range sinks {
		if s.dest != "-" {
			continue
		}
		if toStdout > 1 && s.offer.pictures == nil {
			fmt.Fprintf(out, "# %s\n", s.offer.name)
		}
		if err := products[s.offer.name].writer("", 0, "")(out); err != nil {
			return writeFailed("stdout", err)
		}
	}
	if err := out.Flush(); err != nil {
		return writeFailed("stdout", err)
	}
	return nil
}

// writer returns a function that writes image i, or the tensor of a name in the format of the extension: .npy, .npz or
// text.
func (p product) writer(name string, i int, ext string) func(io.Writer) error {
	switch {
	case p.image != nil:
		return func(w io.Writer) error { return png.Encode(w, p.image(i)) }
	case p.write != nil:
		return p.write
	case ext == ".npy":
		return func(w io.Writer) error { return npy.Write(w, writable(p.tensor)) }
	case ext == ".npz":
		return func(w io.Writer) error { return npy.WriteArchive(w, name, writable(p.tensor)) }
	}
	return func(w io.Writer) error { return writeText(w, p.tensor) }
}

// writeFailed returns the error for an output that could not be written.
func writeFailed(path string, err error) error {
	if _, coded := diag.CodeOf(err); coded {
		return err
	}
	return diag.New(code.OfWrite(err), path, "cannot be written: %w", unpath(err))
}

// textChunk is the number of elements that are formatted at a time.
const textChunk = 1 << 14

// writeText writes a line per row (along the last axis), and a blank line between matrices.
func writeText(w io.Writer, t tensor.Tensor) error {
	row, matrix := 1, 1
	if n := len(t.Shape); n > 0 {
		row = t.Shape[n-1]
		if n > 1 {
			matrix = t.Shape[n-2]
		}
	}
	var text []byte
	size, total := t.DType.Size(), tensor.Numel(t.Shape)
	for at := 0; at < total; at += textChunk {
		n := min(textChunk, total-at)
		a := tensor.Tensor{DType: t.DType, Shape: []int{n}, Data: t.Data[at*size:][:n*size]}.Array()
		for i := range n {
			if i+at > 0 && (i+at)%(row*matrix) == 0 {
				text = append(text, '\n')
			}
			text = appendNumber(text, a, i)
			if (i+at+1)%row == 0 {
				text = append(text, '\n')
			} else {
				text = append(text, ' ')
			}
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		text = text[:0]
	}
	return nil
}

func appendNumber(b []byte, a *tensor.Array, i int) []byte {
	if a.Floats == nil {
		return strconv.AppendInt(b, a.Ints[i], 10)
	}
	bits := 32
	if a.DType.Size() == 8 {
		bits = 64
	}
	return strconv.AppendFloat(b, a.Floats[i], 'g', -1, bits)
}
