package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// launched runs a launcher of this test binary. It returns the program's output and the launcher's report.
func launched(t *testing.T, s Spec) (string, error) {
	t.Helper()
	status, report, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	s.Status = 3
	cmd := &exec.Cmd{ExtraFiles: []*os.File{report}, Env: []string{"SAID=hello"}}
	cmd.Path, cmd.Args = Command(s)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	report.Close()
	err = Result(status)
	cmd.Wait()
	return out.String(), err
}

func TestLaunch(t *testing.T) {
	system := Grant{Run, []string{"/bin", "/lib", "/lib64", "/usr", "/nix", "/nowhere"}}
	for name, layers := range map[string]Layers{"none": {}, "all": Available()} {
		t.Run(name, func(t *testing.T) {
			out, err := launched(
				t, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "echo $SAID $0", "x"}, Grants: []Grant{system},
					Layers: layers})
			if out != "hello x\n" || err != nil {
				t.Errorf("%q, %v", out, err)
			}
			if out, err := launched(
				t, Spec{Path: "/bin/nowhere", Args: []string{"x"}, Grants: []Grant{system},
					Layers: layers}); !errors.Is(err, unix.ENOENT) {
				t.Errorf("%q, %v; want ENOENT", out, err)
			}
			if out, err := launched(
				t, Spec{Path: "/bin/sh", Args: []string{"x"}, Layers: layers}); layers.Landlock > 0 && !errors.Is(err,
				unix.EACCES) {
				t.Errorf("without a grant: %q, %v; want EACCES", out, err)
			}
		})
	}
}

// TestLaunchMissingLayer checks that a missing layer is an error and does not result in a weaker sandbox.
func TestLaunchMissingLayer(t *testing.T) {
	out, err := launched(
		t, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "echo $SAID"}, Layers: Layers{Landlock: 99}})
	if out != "" || err == nil || !strings.Contains(err.Error(), "; want 99") {
		t.Errorf("%q, %v", out, err)
	}
}

// TestResult checks reports, including some that no launcher writes.
func TestResult(t *testing.T) {
	for said, want := range map[string]string{"": Unlaunched{}.Error(), "x": Unlaunched{}.Error(), "R": "", "Fno": "no",
		"RF2": unix.ENOENT.Error()} {
		got := ""
		if err := Result(strings.NewReader(said)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q is %q; want %q", said, got, want)
		}
	}
}
