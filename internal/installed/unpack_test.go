package installed

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entry is an entry of an archive. A name that ends with "/" is a directory.
type entry struct {
	name, data string
	kind       byte // type flag in tar; 0 for a file or directory
}

func tarOf(entries ...entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o755, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if e.kind != 0 {
			h.Typeflag, h.Linkname = e.kind, "/etc/passwd"
		}
		if e.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: e.kind, PAXRecords: map[string]string{"comment": "x"}}
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		io.WriteString(w, e.data)
	}
	w.Close()
	return b.Bytes()
}

func gzipOf(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func zipOf(entries ...entry) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		mode := fs.FileMode(0o755)
		switch e.kind {
		case tar.TypeSymlink:
			mode |= fs.ModeSymlink
		case tar.TypeChar:
			mode |= fs.ModeDevice | fs.ModeCharDevice
		}
		if strings.HasSuffix(e.name, "/") {
			mode |= fs.ModeDir
		}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(f, e.data)
		}
		if err != nil && len(e.data) > 0 {
			panic(err)
		}
	}
	w.Close()
	return b.Bytes()
}

// unpacked unpacks an archive next to a file that no archive may reach, and returns the paths of the files.
func unpacked(t testing.TB, b []byte, l limits) (files map[string]string, err error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = newTree(context.Background(), root, l).unpack(bytes.NewReader(b), int64(len(b)))
	files = map[string]string{}
	total := int64(0)
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, werr error) error {
		rel, rerr := filepath.Rel(filepath.Join(dir, "in"), p)
		if werr != nil || rerr != nil {
			t.Fatal(werr, rerr)
		}
		switch {
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			t.Errorf("%s is %v", p, d.Type())
		case !filepath.IsLocal(rel):
			t.Errorf("%s is outside the folder", p)
		}
		data, rerr := os.ReadFile(p)
		if rerr != nil {
			t.Error(rerr)
		}
		total += int64(len(data))
		files[filepath.ToSlash(rel)] = string(data)
		return nil
	})
	if total > l.bytes+1 || len(files) > l.files { // one more byte shows that there are more
		t.Errorf("%d files of %d bytes; allowed were %+v", len(files), total, l)
	}
	return files, err
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	good := []entry{{name: "./"}, {name: "./rlx-backend-a", data: long}, {name: "lib/deep/m.py", data: "1"},
		{name: "lib/"}, {name: "empty"}}
	forms := map[string]func(...entry) []byte{"tar": tarOf, "tar.gz": func(e ...entry) []byte {
		return gzipOf(tarOf(e...))
	}, "zip": zipOf}
	small := limits{files: 8, bytes: 1 << 14}
	for form, make := range forms {
		entries := good
		if form == "zip" {
			entries = good[1:] // a zip has no "./"
		}
		files, err := unpacked(t, make(entries...), small)
		if err != nil || len(files) != 3 || files["rlx-backend-a"] != long || files["lib/deep/m.py"] != "1" {
			t.Errorf("%s: %v: %d files", form, err, len(files))
		}
		for _, c := range []struct {
			what string
			e    []entry
			want string
		}{
			{"up", []entry{{name: "../x", data: "x"}}, `has an entry that leaves its folder, "../x"`},
			{"up inside", []entry{{name: "a/../../x", data: "x"}}, "leaves its folder"},
			{"up at the end", []entry{{name: "a/.."}}, "leaves its folder"},
			{"absolute", []entry{{name: "/etc/x", data: "x"}}, `has an entry with an absolute path, "/etc/x"`},
			{"drive", []entry{{name: "C:x", data: "x"}}, "absolute path"},
			{"backslash", []entry{{name: `a\b`, data: "x"}}, "a name that is not allowed"},
			{"control", []entry{{name: "a\x1b[2J", data: "x"}}, "a name that is not allowed"},
			{"no name", []entry{{name: "a//b", data: "x"}}, "a name that is not allowed"},
			{"twice", []entry{{name: "a", data: "x"}, {name: "a", data: "y"}}, `has the name "a" twice`},
			{"twice, with a dot", []entry{{name: "a", data: "x"}, {name: "./a", data: "y"}}, "twice"},
			{"file and directory", []entry{{name: "a", data: "x"}, {name: "a/b", data: "y"}}, "twice"},
			{"directory and file", []entry{{name: "a/b", data: "x"}, {name: "a", data: "y"}}, "twice"},
			{"link", []entry{{name: "a", kind: tar.TypeSymlink}}, `has a link, "a"`},
			{"device", []entry{{name: "a", kind: tar.TypeChar}}, `has a device, "a"`},
			{"too many", []entry{{name: "1"}, {name: "2"}, {name: "3"}, {name: "4"}, {name: "5"}, {name: "6"},
				{name: "7"}, {name: "8"}, {name: "9"}}, "has more than 8 entries"},
			{"bomb", []entry{{name: "a", data: strings.Repeat("\x00", 1<<20)}}, "unpacks to more than 16384 bytes"},
			{"bomb of several", []entry{{name: "a", data: long}, {name: "b", data: long}, {name: "c", data: long},
				{name: "d", data: long}}, "unpacks to more than 16384 bytes"},
		} {
			if _, err := unpacked(t, make(c.e...), small); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v; want %q", form, c.what, err, c.want)
			}
		}
		whole := make(good[1:]...)
		if _, err := unpacked(t, whole[:len(whole)/2], small); err == nil ||
			!strings.Contains(err.Error(), "is damaged") {
			t.Errorf("half of a %s: %v", form, err)
		}
	}
	for what, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"hard link":        {tarOf(entry{name: "a", kind: tar.TypeLink}), "has a link"},
		"fifo":             {tarOf(entry{name: "a", kind: tar.TypeFifo}), "has an entry of type '6'"},
		"block device":     {tarOf(entry{name: "a", kind: tar.TypeBlock}), "has a device"},
		"end missing":      {gzipOf(tarOf(good...))[:100], "is damaged"},
		"bomb behind":      {gzipOf(append(tarOf(good...), make([]byte, 1<<20)...)), "unpacks to more than"},
		"no archive":       {[]byte("hello"), "is not an archive"},
		"empty":            {nil, "is not an archive"},
		"comment accepted": {tarOf(entry{kind: tar.TypeXGlobalHeader}, entry{name: "a", data: "x"}), ""},
	} {
		_, err := unpacked(t, c.archive, small)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", what, err, c.want)
		}
	}
	// A wrong checksum: of the content in a zip, of the whole in gzip.
	for form, b := range map[string][]byte{"zip": storedZip("a", long),
		"tar.gz": gzipOf(tarOf(entry{name: "a", data: "x"}))} {
		at := bytes.Index(b, []byte("xxxx"))
		if form == "tar.gz" {
			at = len(b) - 8
		}
		b[at] ^= 1
		if _, err := unpacked(t, b, small); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%s with a flipped bit: %v", form, err)
		}
	}
	if l := allowed(1000); l.bytes != 64<<20+64000 {
		t.Errorf("%+v", l)
	}
	if l := allowed(1 << 62); l.bytes != maxBytes {
		t.Errorf("%+v", l)
	}
}

// storedZip returns a zip with an uncompressed file.
func storedZip(name, data string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, _ := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	io.WriteString(f, data)
	w.Close()
	return b.Bytes()
}

// FuzzUnpack checks that the files of every archive end up inside the folder and within the limits, or there is an
// error.
func FuzzUnpack(f *testing.F) {
	for _, e := range [][]entry{{{name: "a", data: "x"}, {name: "b/c", data: "y"}}, {{name: "../a", data: "x"}},
		{{name: "/a"}}, {{name: "a", kind: tar.TypeSymlink}, {name: "a/b", data: "x"}}} {
		f.Add(tarOf(e...))
		f.Add(gzipOf(tarOf(e...)))
		f.Add(zipOf(e...))
	}
	f.Fuzz(func(t *testing.T, b []byte) { unpacked(t, b, limits{files: 50, bytes: 1 << 16}) })
}
