package rpc

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
)

// Options say which backend to start and with what.
type Options struct {
	Path   string // of the executable
	Name   string // for messages, such as "cpu"; empty: from Path
	SHA256 []byte // that the executable must have; empty: any

	// Artifact is open for reading; its weights are what Load maps. The backend gets the descriptor, never the path.
	// The host must have made sure that nobody else can change the file. It stays the caller's. Nil: Load sends
	// weights in chunks.
	Artifact *os.File
	// IOSize is the largest Program.IOSize that will be loaded, in bytes. 0: the first Load decides.
	IOSize int64
	// NoSharedMemory sends inputs and outputs in chunks, as does RLX_NO_SHM=1.
	NoSharedMemory bool

	// Encode turns a verified program into the bytes that the backend decodes.
	Encode func(*program.Program) ([]byte, error)

	Sandbox Sandbox // empty: SandboxOn

	Env      []string     // NAME=VALUE, added to the few variables that backends inherit
	Log      *slog.Logger // what the backend logs, and what happens to it; nil: nothing
	Timeouts Timeouts
	TempDir  string // holds the sockets' private directory; empty: the system's choice
}

// backendName is how messages call the backend.
func (o Options) backendName() string {
	if o.Name != "" {
		return o.Name
	}
	return strings.TrimPrefix(filepath.Base(o.Path), "rlx-backend-")
}

// inherited are the variables of the host's environment that a backend gets, where they are set, beside those that begin
// with RLX_NAME_, its own.
var inherited = []string{
	"HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
	"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
	"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK",
	"CUDA_VISIBLE_DEVICES", "DRI_PRIME", "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "WGPU_BACKEND",
}

func (o Options) environment() []string {
	var env []string
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	own := "RLX_" + strings.ToUpper(strings.ReplaceAll(o.backendName(), "-", "_")) + "_"
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, own) {
			env = append(env, v)
		}
	}
	return append(env, o.Env...)
}

// shared reports whether tensors go through shared memory.
func (o Options) shared() bool {
	return haveShared && !o.NoSharedMemory && os.Getenv(NoSharedMemory) != "1"
}

// ServeConfig is what a backend serves.
type ServeConfig struct {
	Name    string // as in rlx-backend-NAME
	Backend device.Backend
	// Decode reads what the host's Options.Encode wrote, and verifies it again. Nil: the backend takes no programs.
	Decode func([]byte) (*program.Program, error)
	Log    *slog.Logger // NewLogger; nil: nothing is logged
}
