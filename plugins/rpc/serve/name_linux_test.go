package serve

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// TestName checks that a backend that is executed through a descriptor has the name of its file, cut to 15 bytes.
func TestName(t *testing.T) {
	if os.Getenv("RLX_TEST_NAME") != "" {
		b, err := os.ReadFile("/proc/self/comm")
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("name=" + strings.TrimSpace(string(b)) + "\n")
		return
	}
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.run=^TestName$")
	cmd.Args[0] = "/opt/rlx/rlx-backend-example"
	cmd.ExtraFiles = []*os.File{file}
	cmd.Env = append(os.Environ(), "RLX_TEST_NAME=1", wire.CookieKey+"="+wire.CookieValue)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "name=rlx-backend-exa\n") {
		t.Errorf("%v: %s", err, out)
	}
}
