package rlxbeam_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/internal/rlxtest"
)

// A cluster is an engine on this machine with Beam's job service, each part in a process of its own.
type cluster struct {
	jars, logs string   // folders
	options    []string // of java
	env        []string
	started    int

	runner   string   // of rlxbatch
	endpoint string   // of the job service
	flags    []string // other flags of rlxbatch
	executor string   // what starts the workers, processes of rlxbatch; empty if it cannot be killed alone
	// executors returns the processes that start the workers.
	executors func() []int
	// killed, if not nil, starts another executor after the first one was killed.
	killed func(t *testing.T)
}

// newCluster returns a cluster for a runner, with the jars that make test-RUNNER fetches. Without them the test is
// skipped.
func newCluster(t *testing.T, runner string) *cluster {
	t.Helper()
	jars := os.Getenv("RLX_JARS_" + runner)
	if jars == "" {
		t.Skipf("RLX_JARS_%s does not name a folder with jars; run make test-%s", runner, runner)
	}
	return &cluster{jars: jars, logs: t.TempDir(), runner: runner}
}

// A service is a process with a log.
type service struct {
	cmd   *exec.Cmd
	log   string // file
	ended chan struct{}
}

func (s *service) pid() int { return s.cmd.Process.Pid }

func (s *service) text() string {
	b, _ := os.ReadFile(s.log)
	return string(b)
}

func (s *service) kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

// await waits until the log has a match n times, and returns the group of the last match.
func (s *service) await(t *testing.T, pattern string, n int) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		found := re.FindAllStringSubmatch(s.text(), -1)
		if len(found) >= n {
			return found[n-1][1]
		}
		select {
		case <-s.ended:
			t.Fatalf("%s ended; %q is not in its log", s.log, pattern)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// start starts a Java class, which ends with the test.
func (c *cluster) start(t *testing.T, name, class string, args ...string) *service {
	t.Helper()
	c.started++
	s := &service{log: filepath.Join(c.logs, fmt.Sprintf("%s%d.log", name, c.started)), ended: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command("java", append(append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"},
		c.options...), append([]string{"-cp", filepath.Join(c.jars, "*"), class}, args...)...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Env = append(os.Environ(), c.env...)
	s.cmd.Dir = c.logs // Flink would load the folder plugins of the current one
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.cmd.Wait(); close(s.ended) }()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			text := s.text()
			t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return s
}

// serve starts Beam's job service with ports that are free.
func (c *cluster) serve(t *testing.T, class string, args ...string) *service {
	t.Helper()
	s := c.start(t, "jobservice", class, append(args, "--job-port", "0", "--artifact-port", "0",
		"--expansion-port", "-1", "--artifacts-dir", filepath.Join(c.logs, "artifacts"))...)
	c.endpoint = s.await(t, `JobService started on (\S+)`, 1)
	return s
}

// workers returns the processes of rlxbatch that the executors have started.
func (c *cluster) workers() []int { return childrenOfAll(c.executors()) }

// childrenOfAll returns the processes that others have started.
func childrenOfAll(parents []int) (pids []int) {
	for _, parent := range parents {
		for pid := range childrenOf(strconv.Itoa(parent)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func killAll(pids []int) (n int) {
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
			n++
		}
	}
	return n
}

// clusterImages is how many images the tests of clusters have.
const clusterImages = 12

// clusterInputs makes a folder with images, a file of prompts and what rlxrun --images writes for them.
func clusterInputs(t *testing.T) (in, points string, want map[string]string) {
	t.Helper()
	dir := t.TempDir()
	in, points = filepath.Join(dir, "in"), filepath.Join(dir, "p.json")
	scenes(t, in, clusterImages)
	out := filepath.Join(dir, "want")
	err := os.WriteFile(points, []byte(promptsFile), 0o666)
	if err == nil {
		err = os.Mkdir(out, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	rlxrun := program(t, "rlxrun")
	for i := range 3 {
		sub := strconv.Itoa(i)
		cmd := exec.Command(rlxrun, rlxtest.SAM(), "--images", filepath.Join(in, sub), "-o", filepath.Join(out, sub),
			"--points-file", points)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("rlxrun: %v\n%s", err, out)
		}
	}
	want = tree(t, out)
	if len(want) != 4*clusterImages {
		t.Fatalf("%d files; want 4 for each image", len(want))
	}
	return in, points, want
}

// testCluster runs rlxbatch on a cluster, and kills workers and an executor in the middle. The engine repeats what they
// had not completed, and the results are those of rlxrun --images.
func testCluster(t *testing.T, c *cluster) {
	rlxbatch := batchProgram(t)
	in, points, want := clusterInputs(t)
	dir := t.TempDir()
	type round struct {
		name string
		kill func() int // returns how many processes it killed
	}
	rounds := []round{
		{"nothing", func() int { return 0 }},
		{"a worker", func() int { return killAll(c.workers()[:1]) }}, // each executor has one once files are there
		{"all workers", func() int { return killAll(c.workers()) }},
	}
	if c.executor != "" {
		rounds = append(rounds, round{c.executor, func() int {
			n := killAll(c.executors()[:1])
			if c.killed != nil {
				c.killed(t)
			}
			return n
		}})
	}
	for _, round := range rounds {
		t.Run(round.name, func(t *testing.T) {
			got := filepath.Join(dir, round.name)
			cmd := exec.Command(rlxbatch, append([]string{rlxtest.SAM(), "--input", in + "/**", "--output", got,
				"--threads", "1", "--points-file", points, "--fresh", "--runner", c.runner, "--endpoint", c.endpoint,
				"--environment_type", "PROCESS", "--environment_config", fmt.Sprintf(`{"command": %q}`, rlxbatch)},
				c.flags...)...)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			began, ended := time.Now(), make(chan error, 1)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			go func() { ended <- cmd.Wait() }()
			killed := 0
			if !waitFor(got, began, clusterImages, ended) {
				killed = round.kill()
			}
			if err := <-ended; err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if killed == 0 && round.name != "nothing" {
				t.Error("the job ended before anything was killed")
			}
			same(t, round.name, tree(t, got), want)
			t.Logf("%d killed: %s", killed, strings.TrimSpace(out.String()))
		})
	}
}
