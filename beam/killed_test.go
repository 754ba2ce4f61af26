package rlxbeam_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	rlxbeam "github.com/rlx-go/rlx/beam"
	"github.com/rlx-go/rlx/internal/rlxtest"
)

// killable runs a pipeline in this process: args are the model, the folder of images and that of the results.
func killable(args []string) {
	p, s := beam.NewPipelineWithRoot()
	images, unread := rlxbeam.ReadImages(s, args[1], "**")
	found, failed := rlxbeam.Segment(s, rlxbeam.Model{Path: args[0], Threads: 1},
		rlxbeam.SegmentOptions{Prompts: prompts}, images)
	rlxbeam.WriteFolders(s, args[2], found)
	rlxbeam.WriteLines(s, filepath.Join(args[2], "failures"), ".jsonl", 1,
		rlxbeam.FailureLines(s, beam.Flatten(s, unread, failed)))
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// jobCommand returns the command of killable.
func jobCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cpu()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "RLX_TEST_JOB="+strings.Join(args, string(filepath.ListSeparator)))
	return cmd
}

// TestKilled kills a pipeline with its worker and runner again and again, and restarts it each time, as a runner
// restarts a bundle. No result is ever incomplete or wrong, and at the end each is there once, and nothing else. Images
// are computed again each time, so each attempt replaces the files of earlier ones.
func TestKilled(t *testing.T) {
	const images = 6
	dir := t.TempDir()
	in, out, whole := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "whole")
	scenes(t, in, images)
	copyFile(t, "demo/README.md", filepath.Join(in, "broken.png"))
	if b, err := jobCommand(t, rlxtest.SAM(), in, whole).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	want := tree(t, whole)
	if len(want) != images*4+1 {
		t.Fatalf("%d files; want 4 for each image and the failures", len(want))
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	killed, finished := 0, 0
	for killed < *kills {
		cmd := jobCommand(t, rlxtest.SAM(), in, out)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		// The attempt is killed while, or shortly after, it writes this file.
		after, pause := random.IntN(len(want)), time.Duration(random.IntN(20))*time.Millisecond
		if waitFor(out, began, after, ended) {
			finished++
			continue
		}
		time.Sleep(pause)
		cmd.Process.Kill()
		if err := <-ended; err == nil {
			finished++
			continue
		}
		killed++
		for name, b := range tree(t, out) {
			// Only a rename replaces a file, so it has a temporary name for a moment. The next attempt removes it.
			if ok, _ := path.Match(".rlx-*.tmp", path.Base(name)); !ok && b != want[name] {
				t.Fatalf("after %d kills, %s is not what a pipeline that is not killed writes", killed, name)
			}
		}
	}
	if b, err := jobCommand(t, rlxtest.SAM(), in, out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	same(t, "at the end", tree(t, out), want)
	t.Logf("%d attempts were killed, %d ended before", killed, finished)
}

// waitFor waits until n files below a folder are newer than a time. It returns true if the attempt ended before.
func waitFor(dir string, since time.Time, n int, ended chan error) bool {
	for {
		fresh := 0
		filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if st, err := d.Info(); err == nil && st.ModTime().After(since) {
					fresh++
				}
			}
			return nil
		})
		if fresh >= n {
			return false
		}
		select {
		case err := <-ended:
			ended <- err
			return true
		case <-time.After(time.Millisecond):
		}
	}
}

// TestLost kills the backend of a worker, which starts another one.
func TestLost(t *testing.T) {
	dir := t.TempDir()
	scenes(t, filepath.Join(dir, "in"), 2)
	round := func(out string) map[string]int64 {
		return run(t, func(s beam.Scope) {
			images, _ := rlxbeam.ReadImages(s, filepath.Join(dir, "in"), "**")
			found, _ := rlxbeam.Segment(s, rlxbeam.Model{Path: rlxtest.SAM(), Threads: 2},
				rlxbeam.SegmentOptions{Prompts: prompts}, images)
			rlxbeam.WriteFolders(s, filepath.Join(dir, out), found)
		})
	}
	before := children()
	round("first")
	killed := 0
	for pid := range children() {
		if p, err := os.FindProcess(pid); err == nil && !before[pid] && p.Kill() == nil {
			killed++
		}
	}
	if killed == 0 {
		t.Skip("the system does not list the children of a process")
	}
	if counts := round("second"); counts["sessions_lost"] != 1 || counts["sessions"] != 1 {
		t.Errorf("metrics %v; want one lost session and one new one", counts)
	}
	same(t, "with another backend", tree(t, filepath.Join(dir, "second")), tree(t, filepath.Join(dir, "first")))
}

// children returns the processes that this one has started, on Linux.
func children() map[int]bool { return childrenOf("self") }

// childrenOf returns the processes that another one has started, on Linux.
func childrenOf(pid string) map[int]bool {
	out := map[int]bool{}
	lists, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(word); err == nil {
				out[pid] = true
			}
		}
	}
	return out
}
