package host

import (
	"crypto/sha256"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// Version is the version of the protocol that this host speaks.
const Version = wire.Version

// Options select the backend to start and configure its process.
type Options struct {
	Path   string            // path of the executable
	Name   string            // for messages, such as "cpu"; if empty, derived from Path
	SHA256 [sha256.Size]byte // digest that the executable must have; zero allows any
	// Folder describes an installed plugin; nil for a backend that consists of one file.
	Folder *Folder

	// Artifact is the artifact, open for reading. The backend inherits the descriptor and maps the weights from it. It
	// does not get the path. No other process may be able to change the file. The caller closes it. If Artifact is nil,
	// Load sends the weights in chunks.
	Artifact *os.File
	// IOSize is the largest Program.IOSize of the programs that will be loaded, in bytes. 0 means the IOSize of the
	// first one.
	IOSize int64
	// NoSharedMemory sends inputs and outputs in chunks. RLX_NO_SHM=1 has the same effect.
	NoSharedMemory bool

	// Encode encodes a verified program for the backend.
	Encode func(*program.Program) ([]byte, error)

	Sandbox Sandbox // empty means SandboxOn

	Env      []string     // NAME=VALUE; these variables are added to those that the backend inherits
	Log      *slog.Logger // receives the backend's log and events; may be nil
	Protocol io.Writer    // receives every message of the protocol as a line of text; may be nil
	Timeouts Timeouts
	tap      func(*Session, event) // receives the messages instead of Protocol; nil outside tests
	TempDir  string                // where to create the private directory for sockets; if empty, the system's default
}

// pinned reports whether the executable must have the digest SHA256.
func (o Options) pinned() bool { return o.SHA256 != [sha256.Size]byte{} }

// backendName returns the backend's name for messages.
func (o Options) backendName() string {
	if o.Name != "" {
		return o.Name
	}
	return strings.TrimPrefix(strings.TrimSuffix(filepath.Base(o.Path), ".exe"), "rlx-backend-")
}

// A Folder describes the files of an installed plugin.
type Folder struct {
	// Dir is the absolute path of the folder. The sandbox allows the backend to read it. The backend gets the path in
	// RLX_PLUGIN_DIR, because the executable runs as a copy in memory and so cannot find the files next to itself.
	Dir string
	// Declares is the plugin's sandbox declaration. It replaces the file next to the executable.
	Declares string
	// Verify is called right before the start. It returns an error if the files have changed since they were installed.
	Verify func() error
}

// inherited lists the environment variables that a backend inherits from the host. It also inherits those that begin
// with RLX_NAME_, where NAME is the name of the backend.
var inherited = []string{
	"HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
	"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
	"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK",
	"LOCALAPPDATA", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE", // the names of the first ones on Windows
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
	if o.Folder != nil {
		// Otherwise Python would write bytecode next to its modules, and Verify would find a changed folder.
		env = append(env, wire.FolderEnv+"="+o.Folder.Dir, "PYTHONDONTWRITEBYTECODE=1")
	}
	return append(env, o.Env...)
}

// shared reports whether tensors travel through shared memory.
func (o Options) shared() bool {
	return wire.HaveShared && !o.NoSharedMemory && os.Getenv(wire.NoSharedMemory) != "1"
}
