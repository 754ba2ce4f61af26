package rlxbeam_test

import (
	"fmt"
	"net"
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

// A cluster is Flink on this machine, each part in a process of its own.
type cluster struct {
	jars, conf, logs string
	workers          []*service // TaskManagers
	started          int        // of these
}

// A service is a process with a log.
type service struct {
	cmd   *exec.Cmd
	log   string // file
	ended chan struct{}
}

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
	s := &service{log: filepath.Join(c.logs, name+".log"), ended: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command("java", append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", filepath.Join(c.jars, "*"), class}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
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

// taskManager starts another TaskManager, which has one slot.
func (c *cluster) taskManager(t *testing.T) *service {
	t.Helper()
	c.started++
	s := c.start(t, fmt.Sprintf("taskmanager%d", c.started),
		"org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", c.conf)
	c.workers = append(c.workers, s)
	return s
}

// startFlink starts a JobManager, two TaskManagers and Beam's job service, whose address it returns. The files of the
// configuration are those of beam/flink/conf, with ports that are free.
func startFlink(t *testing.T) (c *cluster, endpoint string) {
	t.Helper()
	jars := os.Getenv("RLX_FLINK")
	if jars == "" {
		t.Skip("RLX_FLINK does not name the folder with Flink's jars; run make test-flink")
	}
	dir := t.TempDir()
	c = &cluster{jars: jars, conf: filepath.Join(dir, "conf"), logs: dir}
	conf, err := os.ReadFile("beam/flink/conf/config.yaml")
	if err == nil {
		err = os.Mkdir(c.conf, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	set := func(key, value string) {
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + `:.*$`)
		if !line.Match(conf) {
			t.Fatalf("config.yaml has no %s", key)
		}
		conf = line.ReplaceAll(conf, []byte(key+": "+value))
		if err := os.WriteFile(filepath.Join(c.conf, "config.yaml"), conf, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	set("jobmanager.rpc.port", freePort(t))
	set("rest.port", "0")
	jobs := c.start(t, "jobmanager", "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
		"--configDir", c.conf)
	rest := jobs.await(t, `Rest endpoint listening at (\S+)`, 1)
	c.taskManager(t)
	c.taskManager(t)
	beam := c.start(t, "jobservice", "org.apache.beam.runners.flink.FlinkJobServerDriver", "--flink-master", rest,
		"--flink-conf-dir", c.conf, "--job-port", "0", "--artifact-port", "0", "--expansion-port", "-1",
		"--artifacts-dir", filepath.Join(dir, "artifacts"))
	jobs.await(t, `Registering TaskManager with ResourceID (\S+)`, 2)
	return c, beam.await(t, `JobService started on (\S+)`, 1)
}

// freePort returns a port that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// batchProgram builds rlxbatch, which finds the cpu backend beside itself.
func batchProgram(t *testing.T) string {
	t.Helper()
	path := rlxtest.Scratch("rlxbatch")
	cmd := exec.Command("go", "run", "-exec", "cp", "./cmd/rlxbatch", path) // links once, as testbin does
	cmd.Dir, cmd.Env = "beam", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cpu()
	return path
}

// TestFlink runs rlxbatch on Flink, and kills workers, a backend's and a TaskManager in the middle. Flink repeats what
// they had not completed, and the results are those of rlxrun --images.
func TestFlink(t *testing.T) {
	const images = 12
	c, endpoint := startFlink(t)
	rlxbatch, rlxrun := batchProgram(t), program(t, "rlxrun")
	dir := t.TempDir()
	in, want := filepath.Join(dir, "in"), filepath.Join(dir, "want")
	scenes(t, in, images)
	err := os.WriteFile(filepath.Join(dir, "p.json"), []byte(promptsFile), 0o666)
	if err == nil {
		err = os.Mkdir(want, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		sub := strconv.Itoa(i)
		cmd := exec.Command(rlxrun, rlxtest.SAM(), "--images", filepath.Join(in, sub), "-o", filepath.Join(want, sub),
			"--points-file", filepath.Join(dir, "p.json"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("rlxrun: %v\n%s", err, out)
		}
	}
	expected := tree(t, want)
	if len(expected) != 4*images {
		t.Fatalf("%d files; want 4 for each image", len(expected))
	}
	for _, round := range []struct {
		name string
		kill func() int // returns how many processes it killed
	}{
		{"nothing", func() int { return 0 }},
		{"a worker", func() int { return killAll(workersOf(c)[:1]) }}, // each has a worker once files are there
		{"all workers", func() int { return killAll(workersOf(c)) }},
		{"a TaskManager", func() int {
			c.workers[0].kill()
			c.workers = c.workers[1:]
			c.taskManager(t)
			return 1
		}},
	} {
		t.Run(round.name, func(t *testing.T) {
			got := filepath.Join(dir, round.name)
			cmd := exec.Command(rlxbatch, rlxtest.SAM(), "--input", in+"/**", "--output", got, "--threads", "1",
				"--points-file", filepath.Join(dir, "p.json"), "--fresh", "--runner", "flink", "--endpoint", endpoint,
				"--parallelism", "2", "--environment_type", "PROCESS",
				"--environment_config", fmt.Sprintf(`{"command": %q}`, rlxbatch))
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			began, ended := time.Now(), make(chan error, 1)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			go func() { ended <- cmd.Wait() }()
			killed := 0
			if !waitFor(got, began, images, ended) {
				killed = round.kill()
			}
			if err := <-ended; err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if killed == 0 && round.name != "nothing" {
				t.Error("the job ended before anything was killed")
			}
			same(t, round.name, tree(t, got), expected)
			t.Logf("%d killed: %s", killed, strings.TrimSpace(out.String()))
		})
	}
}

// workersOf returns the processes of rlxbatch that the TaskManagers have started.
func workersOf(c *cluster) (pids []int) {
	for _, m := range c.workers {
		for pid := range childrenOf(strconv.Itoa(m.cmd.Process.Pid)) {
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

// TestFlinkVersions checks that the compose file has the versions that TestFlink runs.
func TestFlinkVersions(t *testing.T) {
	pom, err := os.ReadFile("beam/flink/pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	runner := regexp.MustCompile(`<artifactId>beam-runners-flink-(.*)</artifactId>\s*<version>(.*)</version>`)
	m := runner.FindSubmatch(pom)
	if m == nil {
		t.Fatal("pom.xml has no runner for Flink")
	}
	compose, err := os.ReadFile("deploy/flink/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{fmt.Sprintf("flink:%s.", m[1]),
		fmt.Sprintf("apache/beam_flink%s_job_server:%s\n", m[1], m[2])} {
		if !strings.Contains(string(compose), "image: "+image) {
			t.Errorf("compose.yaml does not use %s, which pom.xml names", image)
		}
	}
}
