//go:build unix

// Package clitest tries the commands with files that never end, that block, or that are not files. Only tests import
// it.
package clitest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
)

// Path is a place of a command line that takes the path of a file or folder.
type Path struct {
	Flag string // such as "run --image", or "check FILE" for an argument
	// Args is the command line, with PATH for the path. Other files are in the folder in which it runs.
	Args string
	// Output is set if the command writes to the path. It may then accept any file but a folder.
	Output bool
	// Folder is set if the path may name a folder, whose files are read.
	Folder bool
}

// told is the cause of a context that a test ends. It stands for a signal.
var told = diag.New(diag.Interrupted, "", "told to stop")

// guard ends a test that would otherwise never end.
const guard = 2 * time.Minute

var pathFlag = regexp.MustCompile(`--([a-z-]+) +[^ ]*(FILE|DIR|PATH)`)

// CheckPaths gives a named pipe, a link to /dev/zero, a folder and a file that is too large to each path. The command
// must refuse it with an error that has a code, or end once its context does, whatever it was doing. Each flag of the
// help whose value is a path must be in list. dir has the other files that the command lines name. If RLX_CONFORMANCE
// is a number, as in CI, which derives it from the commit, it chooses a third of the tries.
func CheckPaths(t *testing.T, p cli.Program, dir string, list []Path) {
	t.Helper()
	t.Chdir(dir)
	known := map[string]bool{}
	for _, x := range list {
		known[x.Flag] = true
	}
	for _, c := range p.Commands {
		_, help := run(t, t.Context(), p, append(strings.Fields(c.Name), "--help"))
		for _, m := range pathFlag.FindAllStringSubmatch(help, -1) {
			if flag := c.Name + " --" + m[1]; !known[flag] {
				t.Errorf("%s takes a path and is not tried", flag)
			}
		}
	}
	kinds := []string{"pipe", "zero", "folder", "large"}
	if testing.Short() {
		kinds = kinds[:2] // the kinds that once blocked a command forever
	}
	seed, err := strconv.ParseUint(os.Getenv("RLX_CONFORMANCE"), 10, 64)
	rng, all := rand.New(rand.NewPCG(seed, 1)), err != nil
	for _, kind := range kinds {
		for _, x := range list {
			if x.Output && kind == "large" || x.Folder && kind == "folder" || !all && rng.IntN(3) > 0 {
				continue
			}
			t.Run(strings.ReplaceAll(x.Flag+" "+kind, "/", "-"), func(t *testing.T) { tryPath(t, p, x, kind) })
		}
	}
}

// tryPath runs the command with a path of a kind.
func tryPath(t *testing.T, p cli.Program, x Path, kind string) {
	path := filepath.Join(t.TempDir(), kind)
	for _, arg := range strings.Fields(x.Args) { // some files are recognised by their extension
		if _, ext, ok := strings.Cut(arg, "PATH."); ok {
			path += "." + ext
		}
	}
	if err := makePath(path, kind); err != nil {
		t.Skip(err)
	}
	// A command may wait for the other end of a pipe. When its context ends, it must stop, whether it has begun to wait
	// or not.
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if kind == "pipe" {
		stop := time.AfterFunc(200*time.Millisecond, func() { cancel(told) })
		defer stop.Stop()
	}
	args := strings.Fields(x.Args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PATH"+filepath.Ext(path), path)
		args[i] = strings.ReplaceAll(args[i], "PATH", path)
	}
	status, text := run(t, ctx, p, args)
	written := x.Output && kind == "zero" && status == 0
	if strings.Contains(text, "no such flag") { // then the path was not tried
		t.Errorf("%s: %s", x.Args, text)
	}
	if status == 70 || !written && !strings.Contains(text, "RLX") {
		t.Errorf("%s: status %d\n%s", x.Args, status, text)
	}
}

// makePath makes a named pipe, a link to /dev/zero, a folder, or a file that is too large.
func makePath(path, kind string) error {
	switch kind {
	case "pipe":
		return syscall.Mkfifo(path, 0o700)
	case "zero":
		return os.Symlink("/dev/zero", path)
	case "folder":
		return os.Mkdir(path, 0o700)
	}
	return errors.Join(os.WriteFile(path, []byte("\x00"), 0o700), os.Truncate(path, 1<<42))
}

// run runs a command line and returns its status and its output. Standard input is empty.
func run(t *testing.T, ctx context.Context, p cli.Program, args []string) (status int, text string) {
	t.Helper()
	ended := make(chan struct{})
	var out, errs bytes.Buffer
	go func() {
		defer close(ended)
		status = p.Exec(ctx, slices.Clone(args), strings.NewReader(""), &out, &errs)
	}()
	select {
	case <-ended:
		return status, out.String() + errs.String()
	case <-time.After(guard):
		t.Fatalf("%s %s does not end", p.Name, strings.Join(args, " "))
		return 0, ""
	}
}
