package rlxbeam_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rlx-go/rlx/internal/rlxtest"
)

// TestDiskFull lets the file system of the results become full at several points. The pipeline ends with an error that
// says so, the files that are there are complete, and with more room the same command writes all.
func TestDiskFull(t *testing.T) {
	const images = 4
	dir := t.TempDir()
	in, out, whole := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "whole")
	scenes(t, in, images)
	copyFile(t, "demo/README.md", filepath.Join(in, "broken.png"))
	if b, err := jobCommand(t, rlxtest.SAM(), in, whole).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	want, pages := tree(t, whole), 0
	for _, b := range want {
		pages += (len(b) + 4095) / 4096
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("rlx", out, "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("a file system that may become full cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(out, 0); err != nil {
			t.Error(err)
		}
	})
	for _, n := range []int{1, pages / 3, pages - 1} {
		if err := syscall.Mount("rlx", out, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%dk", 4*n)); err != nil {
			t.Fatal(err)
		}
		b, err := jobCommand(t, rlxtest.SAM(), in, out).CombinedOutput()
		if err == nil || !strings.Contains(string(b), "no space left on device") {
			t.Errorf("with %d of %d pages: %v\n%s", n, pages, err, b)
		}
		for name, b := range tree(t, out) {
			if b != want[name] {
				t.Errorf("with %d of %d pages: %s is not complete", n, pages, name)
			}
		}
	}
	// beside the files there is room for one that replaces another
	if err := syscall.Mount("rlx", out, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%dk", 8*pages)); err != nil {
		t.Fatal(err)
	}
	if b, err := jobCommand(t, rlxtest.SAM(), in, out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	same(t, "with more room", tree(t, out), want)
}
