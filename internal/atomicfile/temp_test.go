//go:build unix

package atomicfile

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// named makes files use temporary names, as on a file system that does not support unnamed files.
func named(t *testing.T) {
	unnamed = func(string) *os.File { return nil }
	t.Cleanup(func() { unnamed = createUnnamed })
}

// TestMain can also be a process that starts to write the file RLX_TEST_WRITE and waits to be killed.
func TestMain(m *testing.M) {
	path := os.Getenv("RLX_TEST_WRITE")
	if path == "" {
		os.Exit(m.Run())
	}
	if os.Getenv("RLX_TEST_NAMED") != "" {
		unnamed = func(string) *os.File { return nil }
	}
	f, err := Create(context.Background(), path)
	if err == nil {
		_, err = f.WriteString("half")
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString("ready")
	time.Sleep(time.Hour)
}

// killed starts a process that writes path, calls alive, and kills the process.
func killed(t *testing.T, path, mode string, alive func()) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "RLX_TEST_WRITE="+path, "RLX_TEST_NAMED="+mode)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len("ready"))
	if _, err := io.ReadFull(out, b); err != nil || string(b) != "ready" {
		t.Fatalf("%q, %v", b, err)
	}
	alive()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
}

func temps(t *testing.T, dir string) (n int) {
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if strings.HasSuffix(e.Name(), ".tmp") {
			n++
		}
	}
	return n
}

// TestKilled checks that the next process that writes to the directory removes the temporary file of a killed process,
// but not while that process lives.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	killed(t, path, "yes", func() {
		sweep(dir)
		if n := temps(t, dir); n != 1 {
			t.Errorf("%d temporary files while one is written; want 1", n)
		}
	})
	if n := temps(t, dir); n != 1 {
		t.Errorf("%d temporary files of a killed process; the test tests nothing", n)
	}
	if err := WriteFile(t.Context(), path, text("new")); err != nil || read(t, path) != "new" {
		t.Errorf("%q, %v", read(t, path), err)
	}
	only(t, dir, "x")
}

// TestKilledUnnamed checks that a killed process leaves nothing if files have no name.
func TestKilledUnnamed(t *testing.T) {
	dir := t.TempDir()
	if f := createUnnamed(dir); f == nil {
		t.Skip("no files without a name here")
	} else {
		f.Close()
	}
	killed(t, filepath.Join(dir, "x"), "", func() {})
	only(t, dir)
}

// TestSweepSpares checks that only our own, unlocked, regular files are removed.
func TestSweepSpares(t *testing.T) {
	dir := t.TempDir()
	spared := []string{".rlx-.tmp", ".rlx-0123456789abcd.tmp", ".rlx-A.tmp", ".rlx-dir.tmp", ".rlx-link.tmp",
		".rlx-pipe.tmp", ".rlx-two.tmp", ".x.tmp", "two"}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, n := range append([]string{".rlx-0.tmp", ".rlx-0123456789xyz.tmp", ".rlx-readonly.tmp"}, spared[0],
		spared[1], spared[2], spared[7], "two") {
		if err := os.WriteFile(at(n), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Mkdir(at(".rlx-dir.tmp"), 0o755), os.Symlink("two", at(".rlx-link.tmp")),
		syscall.Mkfifo(at(".rlx-pipe.tmp"), 0o644),
		os.Link(at("two"), at(".rlx-two.tmp")), os.Chmod(at(".rlx-readonly.tmp"), 0o444)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sweep(dir)
	only(t, dir, spared...)
}

// TestNamed checks that everything else works in the same way with temporary names.
func TestNamed(t *testing.T) {
	named(t)
	for name, test := range map[string]func(*testing.T){"write": TestWriteFile, "failure": TestFailureLeavesTheOldFile,
		"create": TestCreate, "places": TestPlaces} {
		t.Run(name, test)
	}
}
