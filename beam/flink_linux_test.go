package rlxbeam_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFlink runs rlxbatch on a JobManager and two TaskManagers of one slot each. The files of the configuration are
// those of beam/flink/conf, with ports that are free.
func TestFlink(t *testing.T) {
	c := newCluster(t, "flink")
	folder := flinkConf(t)
	jobs := c.start(t, "jobmanager", "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
		"--configDir", folder)
	rest := jobs.await(t, `Rest endpoint listening at (\S+)`, 1)
	var managers []int
	taskManager := func(t *testing.T) {
		s := c.start(t, "taskmanager", "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
			"--configDir", folder)
		managers = append(managers, s.pid())
	}
	taskManager(t)
	taskManager(t)
	c.serve(t, "org.apache.beam.runners.flink.FlinkJobServerDriver", "--flink-master", rest,
		"--flink-conf-dir", folder)
	jobs.await(t, `Registering TaskManager with ResourceID (\S+)`, 2)
	c.flags = []string{"--parallelism", "2"}
	c.executor, c.executors = "a TaskManager", func() []int { return managers }
	c.killed = func(t *testing.T) {
		managers = managers[1:]
		taskManager(t)
	}
	testCluster(t, c)
}

// flinkConf writes a folder with Flink's configuration.
func flinkConf(t *testing.T) string {
	t.Helper()
	conf, err := os.ReadFile("beam/flink/conf/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"jobmanager.rpc.port": freePort(t), "rest.port": "0"} {
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + `:.*$`)
		if !line.Match(conf) {
			t.Fatalf("config.yaml has no %s", key)
		}
		conf = line.ReplaceAll(conf, []byte(key+": "+value))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), conf, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
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
