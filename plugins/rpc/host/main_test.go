//go:build linux || darwin

package host

import (
	"os"
	"testing"

	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
)

// hostEnv is an environment variable. If it is set, the test binary plays a host instead of running tests.
const hostEnv = "RLX_TEST_HOST"

func TestMain(m *testing.M) {
	if os.Getenv(hostEnv) != "" && os.Getenv(rpctest.ModeEnv) == "" {
		playHost()
		return
	}
	rpctest.Main(m)
}
