package rlxbeam_test

import (
	"path/filepath"
	"testing"
)

// TestSparkLocal runs rlxbatch on Spark in the process of the job service. Spark runs a task up to four times.
func TestSparkLocal(t *testing.T) {
	c := newSpark(t)
	service := c.serve(t, sparkService, "--spark-master-url", "local[2,4]")
	c.executors = func() []int { return []int{service.pid()} }
	testCluster(t, c)
}

// TestSpark runs rlxbatch on a master and two Workers of one core each. For each job, each of them starts an executor,
// and another one if that is lost.
func TestSpark(t *testing.T) {
	c := newSpark(t)
	master := c.start(t, "master", "org.apache.spark.deploy.master.Master", "--host", "localhost", "--port", "0",
		"--webui-port", "0")
	address := master.await(t, `Starting Spark master at (\S+)`, 1)
	var machines []int // processes of Spark's Workers
	for range 2 {
		s := c.start(t, "worker", "org.apache.spark.deploy.worker.Worker", "--host", "localhost", "--cores", "1",
			"--memory", "1g", "--webui-port", "0", "--work-dir", filepath.Join(c.logs, "work"), address)
		machines = append(machines, s.pid())
	}
	master.await(t, `Registering worker (\S+)`, 2)
	c.serve(t, sparkService, "--spark-master-url", address)
	c.executor = "an executor"
	c.executors = func() []int { return childrenOfAll(machines) }
	testCluster(t, c)
}

const sparkService = "org.apache.beam.runners.spark.SparkJobServerDriver"

// newSpark returns a cluster with the options that Spark needs.
func newSpark(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, "spark")
	options, err := filepath.Abs("beam/spark/java.options")
	if err != nil {
		t.Fatal(err)
	}
	c.options = []string{"@" + options}
	c.env = []string{"SPARK_HOME=" + filepath.Dir(c.jars), "SPARK_SCALA_VERSION=2.12", "SPARK_LOCAL_IP=127.0.0.1"}
	return c
}
