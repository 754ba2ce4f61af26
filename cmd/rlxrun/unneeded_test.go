package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

// twoOutputs computes each output by an op of its own.
const twoOutputs = `graph two
x = input : f32[4]
a = softmax x {axis=0} : f32[4]
b = cumsum x {axis=0} : f32[4]
return a=a, b=b
`

// TestUnneededSteps runs a method of two outputs on cpu and, if there is one, on wgpu. With -o for one output, the
// profile has no step that only the other needs; without -o all steps run.
func TestUnneededSteps(t *testing.T) {
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "two.rlx")
	writeArtifact(t, file, nil, tinymodel.Program(t, twoOutputs, "cpu"), tinymodel.Program(t, twoOutputs, "wgpu"))
	on := map[string][]string{"cpu": {"-b", "cpu"}}
	if os.Getenv("RLX_REQUIRE_GPU") != "" {
		o := rlxtest.OnGPU(t)
		on["wgpu"] = []string{"-b", "wgpu", "--plugin", "wgpu=" + o.Backend.Path, "--device", o.Device}
	}
	for backend, flags := range on {
		for outputs, want := range map[string]string{
			"a": "softmax", "b": "cumsum", "a b": "cumsum softmax", "": "cumsum softmax",
		} {
			args := append([]string{file, "--random", "1", "--profile", "--format", "json"}, flags...)
			for _, o := range strings.Fields(outputs) {
				args = append(args, "-o", o+"="+filepath.Join(dir, o+".npy"))
			}
			out, err := exec.Command(filepath.Join(bin, "rlxrun"), args...).Output()
			var sum summary
			if err == nil {
				err = json.Unmarshal(out, &sum)
			}
			if err != nil {
				t.Fatalf("%s, outputs %q: %v\n%s", backend, outputs, err, out)
			}
			var ran []string
			for _, row := range sum.Profile {
				ran = append(ran, row.Op)
			}
			slices.Sort(ran)
			if got := strings.Join(ran, " "); got != want {
				t.Errorf("%s, outputs %q: ran %s; want %s", backend, outputs, got, want)
			}
		}
	}
}
