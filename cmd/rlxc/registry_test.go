//go:build unix

package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// TestRegistry pushes an artifact and pulls it by its tag and its digest.
func TestRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	dir, artifact := testModel(t)
	if err := os.WriteFile(filepath.Join(dir, "a.rlx"), artifact, 0o600); err != nil {
		t.Fatal(err)
	}
	tag := strings.TrimPrefix(server.URL, "http://") + "/me/tiny:v1"
	run := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		c := exec.CommandContext(t.Context(), os.Args[0]) // TestMain makes it rlxc
		c.Args = append([]string{"rlxc"}, args...)
		c.Dir, c.Stdout, c.Stderr = dir, &stdout, &stderr
		if err := c.Run(); err != nil {
			t.Fatal(args, err, stderr.String())
		}
		return strings.TrimSpace(stdout.String())
	}
	pinned := run("push", "a.rlx", tag)
	if got, want := run("pull", tag), "tiny.rlx: "+pinned; got != want {
		t.Errorf("pull printed %q; want %q", got, want)
	}
	run("pull", pinned, "-o", "b.rlx")
	for _, name := range []string{"tiny.rlx", "b.rlx"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, artifact) {
			t.Errorf("%s has %d bytes, error %v; want those that were pushed", name, len(got), err)
		}
	}
}
