package installed

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/regular"
)

// limits bound what an install writes.
type limits struct {
	files int   // files, directories and other entries of an archive
	bytes int64 // total size of the files
}

const (
	maxFiles = 20000
	maxBytes = 16 << 30
)

// allowed returns the limits for an archive of size bytes. Executables and libraries shrink to a third or a tenth. An
// archive that grows 64 times is an attack (a zip bomb).
func allowed(size int64) limits {
	const small, ratio = 64 << 20, 64
	return limits{maxFiles, min(maxBytes, small+ratio*min(size, maxBytes))}
}

// A tree writes a plugin's files to a folder and cannot write outside it: names are checked, and os.Root checks them
// again.
type tree struct {
	ctx  context.Context
	root *os.Root
	left limits
	most limits
	dirs map[string]bool
}

func newTree(ctx context.Context, root *os.Root, l limits) *tree {
	return &tree{ctx: ctx, root: root, left: l, most: l, dirs: map[string]bool{".": true}}
}

// entry counts an entry and returns its checked name. The name may begin with "./" and, for a directory, end with "/".
// The top folder is ".".
func (t *tree) entry(name string) (string, error) {
	if t.left.files--; t.left.files < 0 {
		return "", fmt.Errorf("has more than %d entries", t.most.files)
	}
	plain := strings.TrimSuffix(name, "/")
	for strings.HasPrefix(plain, "./") {
		plain = plain[len("./"):]
	}
	switch {
	case path.IsAbs(name) || len(name) > 1 && name[1] == ':':
		return "", fmt.Errorf("has an entry with an absolute path, %.80q; names must be inside the folder", name)
	case strings.Contains("/"+plain+"/", "/../"):
		return "", fmt.Errorf("has an entry that leaves its folder, %.80q", name)
	case !fs.ValidPath(plain) ||
		strings.ContainsFunc(plain, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("has an entry with a name that is not allowed, %.80q", name)
	}
	return plain, nil
}

// dir creates a directory and its parents, unless they exist as directories.
func (t *tree) dir(name string) error {
	if t.dirs[name] {
		return nil
	}
	if err := t.dir(path.Dir(name)); err != nil {
		return err
	}
	if err := t.root.Mkdir(name, 0o755); err != nil {
		return t.failed(name, err)
	}
	t.dirs[name] = true
	return nil
}

// file copies r to a file. size is the size that the source claims; it serves only to fail early.
func (t *tree) file(name string, executable bool, size int64, r io.Reader) error {
	if name == "." {
		return errors.New("has a file without a name")
	}
	if size > t.left.bytes {
		return t.tooLarge()
	}
	if err := t.dir(path.Dir(name)); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return t.failed(name, err)
	}
	n, err := io.Copy(ctxio.NewWriter(t.ctx, f), io.LimitReader(r, t.left.bytes+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		if _, ok := errors.AsType[*fs.PathError](err); ok || t.ctx.Err() != nil {
			return fmt.Errorf("%s cannot be written: %w", name, err)
		}
		return fmt.Errorf("is damaged, at %.80q: %w", name, err)
	}
	if t.left.bytes -= n; t.left.bytes < 0 {
		return t.tooLarge()
	}
	return nil
}

func (t *tree) failed(name string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("has the name %.80q twice", name)
	}
	return fmt.Errorf("has an entry that cannot be made, %.80q: %w", name, cause(err))
}

func (t *tree) tooLarge() error {
	return fmt.Errorf("unpacks to more than %d bytes, the limit for an archive of its size", t.most.bytes)
}

// errKind returns the error for an entry that is neither a file nor a directory.
func errKind(name, what string) error {
	return fmt.Errorf("has %s, %.80q; allowed are files and directories (tar -h stores files in place of links)", what,
		name)
}

// archiveOf recognises an archive by its first bytes: "zip", "gzip", "tar", or "" for anything else.
func archiveOf(r io.ReaderAt) string {
	var b [262]byte
	n, _ := r.ReadAt(b[:], 0)
	switch {
	case bytes.HasPrefix(b[:n], []byte("PK\x03\x04")), bytes.HasPrefix(b[:n], []byte("PK\x05\x06")):
		return "zip"
	case bytes.HasPrefix(b[:n], []byte{0x1f, 0x8b}):
		return "gzip"
	case n == len(b) && string(b[257:]) == "ustar":
		return "tar"
	}
	return ""
}

// unpack writes the files of an archive. The texts of errors follow the name of the archive.
func (t *tree) unpack(r io.ReaderAt, size int64) error {
	switch archiveOf(r) {
	case "zip":
		return t.unzip(r, size)
	case "tar":
		return t.untar(io.NewSectionReader(r, 0, size))
	case "gzip":
		z, err := gzip.NewReader(io.NewSectionReader(r, 0, size))
		if err != nil {
			return fmt.Errorf("is damaged: %w", err)
		}
		// Bytes that tar reads and discards count as well.
		bounded := &io.LimitedReader{R: z, N: t.most.bytes + int64(t.most.files)*4*tarBlock}
		if err = t.untar(bounded); err == nil {
			_, err = io.Copy(io.Discard, bounded) // read the checksum
			if err != nil {
				err = fmt.Errorf("is damaged: %w", err)
			}
		}
		if bounded.N <= 0 {
			return t.tooLarge()
		}
		return err
	}
	return errors.New("is not an archive: want tar, tar.gz or zip")
}

const tarBlock = 512

func (t *tree) untar(r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("is damaged: %w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader { // a comment, as git archive writes
			h.Name = "comment"
		}
		name, err := t.entry(h.Name)
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
		case tar.TypeDir:
			err = t.dir(name)
		case tar.TypeReg:
			err = t.file(name, h.Mode&0o100 != 0, h.Size, tr)
		case tar.TypeSymlink, tar.TypeLink:
			err = errKind(h.Name, "a link")
		case tar.TypeChar, tar.TypeBlock:
			err = errKind(h.Name, "a device")
		default:
			err = errKind(h.Name, fmt.Sprintf("an entry of type %q", h.Typeflag))
		}
		if err != nil {
			return err
		}
	}
}

func (t *tree) unzip(r io.ReaderAt, size int64) error {
	z, err := zip.NewReader(r, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // entry checks for such paths
		return fmt.Errorf("is damaged: %w", err)
	}
	for _, h := range z.File {
		name, err := t.entry(h.Name)
		if err != nil {
			return err
		}
		switch m := h.Mode(); {
		case m.IsDir():
			err = t.dir(name)
		case m.IsRegular():
			err = t.unzipFile(name, h)
		case m&fs.ModeSymlink != 0:
			err = errKind(h.Name, "a link")
		default:
			err = errKind(h.Name, "a device")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) unzipFile(name string, h *zip.File) error {
	r, err := h.Open()
	if err != nil {
		return fmt.Errorf("is damaged, at %.80q: %w", name, err)
	}
	defer r.Close()
	return t.file(name, h.Mode()&0o100 != 0, int64(min(h.UncompressedSize64, 1<<62)), r)
}

// copyDir copies the files of a directory.
func (t *tree) copyDir(from *os.Root) error {
	return fs.WalkDir(from.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("cannot be read: %w", cause(err))
		}
		if name, err = t.entry(name); err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return fmt.Errorf("cannot be read: %w", cause(err))
		}
		switch m := st.Mode(); {
		case m.IsDir():
			return t.dir(name)
		case m.IsRegular():
			f, st, err := regular.OpenIn(from, name)
			if err != nil {
				return fmt.Errorf("has %s, which %w", name, err)
			}
			defer f.Close()
			return t.file(name, m&0o100 != 0, st.Size(), f)
		case m&fs.ModeSymlink != 0:
			return errKind(name, "a link")
		}
		return errKind(name, "a device")
	})
}

// describe lists the files below a folder with their digests, by ascending path. Anything that is neither a file nor a
// directory is an error.
func describe(ctx context.Context, root *os.Root) (list []File, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, _, err := regular.OpenIn(root, name)
		if err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
		defer f.Close()
		h := sha256.New()
		n, err := io.Copy(h, ctxio.NewReader(ctx, f))
		list = append(list, File{name, digest(h.Sum(nil)), n})
		return err
	})
	return list, err
}
