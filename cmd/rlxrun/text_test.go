package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/task"
)

// cancelling cancels a context at the first write.
type cancelling struct {
	bytes.Buffer
	cancel func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	defer c.cancel()
	return c.Buffer.Write(p)
}

// TestTextInterrupted checks that the text so far is printed after a signal, and that the command fails.
func TestTextInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text.rlx")
	if err := writeTextModel(path, func(*task.Text, *string, *string) {}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	out, stderr := &cancelling{cancel: func() { cancel(errors.New("a signal")) }}, &bytes.Buffer{}
	p := cli.Program{Name: "rlxrun", Default: "run", Commands: []*cli.Command{runCommand()}}
	// The text is "énpkoe j"; the first write is "é".
	status := p.Exec(ctx, []string{path, "--plugin", "cpu=" + self, "--prompt", "d", "--stop", "npq", "-q"},
		&bytes.Buffer{}, out, stderr)
	if status == 0 || out.String() != "é" || !strings.Contains(stderr.String(), "a signal") {
		t.Errorf("status %d, %q, %s", status, out.String(), stderr)
	}
}
