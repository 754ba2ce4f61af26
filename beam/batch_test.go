package rlxbeam_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// dataflow returns the flags of a job for Dataflow, which is not started.
func dataflow(model, in, out string) []string {
	return []string{model, "--input", in, "--output", out, "--runner", "dataflow", "--dry_run", "--project", "p",
		"--region", "europe-west1", "--staging_location", "gs://bucket/staging", "--job_name", "masks",
		"--sdk_container_image", "registry/rlxbatch:1", "--num_workers", "2"}
}

// offline returns a command without credentials of Google's cloud.
func offline(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(batchProgram(t), args...)
	cmd.Env = append(os.Environ(), "GCE_METADATA_HOST=127.0.0.1:1", "GOOGLE_APPLICATION_CREDENTIALS=/none")
	return cmd
}

// TestDataflow checks the job that rlxbatch would send to Dataflow, as Beam prints it. Nothing is sent.
func TestDataflow(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "failures.jsonl")
	if err := os.WriteFile(old, []byte("{}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	b, err := offline(t, dataflow("/models/sam.rlx", "gs://bucket/images/**", dir)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	start := strings.Index(string(b), "{\n  \"") // after the pipeline, which is not JSON
	if start < 0 {
		t.Fatalf("no job in JSON in\n%s", b)
	}
	var job struct {
		ProjectID   string `json:"projectId"`
		Name, Type  string
		Environment struct {
			WorkerPools []struct {
				NumWorkers int
				Packages   []struct{ Name, Location string }
				Images     []struct{ ContainerImage string } `json:"sdkHarnessContainerImages"`
			}
			SdkPipelineOptions struct {
				Options struct{ PipelineURL, Region string }
			}
		}
	}
	if err := json.NewDecoder(strings.NewReader(string(b)[start:])).Decode(&job); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if job.ProjectID != "p" || job.Name != "masks" || job.Type != "JOB_TYPE_BATCH" ||
		job.Environment.SdkPipelineOptions.Options.Region != "europe-west1" {
		t.Errorf("the job is %+v", job)
	}
	if n := len(job.Environment.WorkerPools); n != 1 {
		t.Fatalf("%d pools of workers; want 1", n)
	}
	pool := job.Environment.WorkerPools[0]
	if pool.NumWorkers != 2 || len(pool.Packages) != 1 || pool.Packages[0].Name != "worker" ||
		!strings.HasPrefix(pool.Packages[0].Location, "gs://bucket/staging/") ||
		len(pool.Images) != 1 || pool.Images[0].ContainerImage != "registry/rlxbatch:1" {
		t.Errorf("the workers are %+v", pool)
	}
	for _, name := range []string{"rlxbeam.Segment", "rlxbeam.WriteFolders", "rlxbeam.WriteLines"} {
		if !strings.Contains(string(b), name) {
			t.Errorf("the pipeline has no %s", name)
		}
	}
	if _, err := os.Stat(old); err != nil {
		t.Errorf("a job that is not started removed the failures of an earlier one: %v", err)
	}
}

// TestBatchFlags gives rlxbatch flags that cannot work. It refuses them before anything is read, written or sent.
func TestBatchFlags(t *testing.T) {
	without := func(flag string) []string {
		args := dataflow("sam.rlx", "in", t.TempDir())
		for i, a := range args {
			if a == flag {
				return append(args[:i:i], args[i+2:]...)
			}
		}
		t.Fatalf("no flag %s", flag)
		return nil
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"bucket for results": {[]string{"sam.rlx", "--input", "in", "--output", "gs://bucket/masks"},
			"--output: gs://bucket/masks is not a folder"},
		"bucket on Dataflow": {dataflow("sam.rlx", "in", "gs://bucket/masks"), "--output: gs://bucket/masks is not a"},
		"no image":           {without("--sdk_container_image"), "--sdk_container_image: is missing"},
		"processes": {append(dataflow("sam.rlx", "in", t.TempDir()), "--environment_type", "PROCESS"),
			"--environment_type: is PROCESS"},
		"no project": {without("--project"), "--project"},
		"no region":  {without("--region"), "--region"},
		"no staging": {without("--staging_location"), "--staging_location"},
		"no model":   {[]string{"--input", "in", "--output", "out"}, "no model is given"},
		"two inputs": {[]string{"sam.rlx", "--input", "in", "--text", "t", "--output", "out"}, "give one of them"},
		"no output":  {[]string{"sam.rlx", "--input", "in"}, "--output"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := offline(t, test.args...)
			b, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() > 2 || !strings.Contains(string(b), test.want) {
				t.Errorf("%v; want status 1 or 2 and %q\n%s", err, test.want, b)
			}
		})
	}
}
