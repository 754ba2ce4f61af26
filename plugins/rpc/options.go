package rpc

import (
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
)

// Options are which backend to start, and how.
type Options struct {
	Path   string            // of the executable
	Name   string            // for messages, such as "cpu"; if empty, from Path
	SHA256 [sha256.Size]byte // that the executable must have; zero means any
	// Folder is that of a plugin which was installed with other files; nil for a backend that is one file.
	Folder *Folder

	// Artifact is open for reading; its weights are what Load maps. The backend gets the descriptor, never the path.
	// Nobody but the host may be able to change the file. The caller closes it. If it is nil, Load sends weights in
	// chunks.
	Artifact *os.File
	// IOSize is the largest Program.IOSize that will be loaded, in bytes. With 0 the first Load decides.
	IOSize int64
	// NoSharedMemory sends inputs and outputs in chunks, as does RLX_NO_SHM=1.
	NoSharedMemory bool

	// Encode turns a verified program into the bytes that the backend decodes.
	Encode func(*program.Program) ([]byte, error)

	Sandbox Sandbox // empty means SandboxOn

	Env      []string     // NAME=VALUE, added to the few variables that backends inherit
	Log      *slog.Logger // receives the backend's log and events; nil for none
	Timeouts Timeouts
	TempDir  string // parent of the sockets' private directory; if empty, the system's
}

// pinned reports whether the executable must have a digest.
func (o Options) pinned() bool { return o.SHA256 != [sha256.Size]byte{} }

// backendName is the backend's name in messages.
func (o Options) backendName() string {
	if o.Name != "" {
		return o.Name
	}
	return strings.TrimPrefix(filepath.Base(o.Path), "rlx-backend-")
}

// A Folder is what an installed plugin has beside its executable.
type Folder struct {
	// Dir holds its files, by an absolute path. The backend may read them in its sandbox, and finds them by RLX_PLUGIN_DIR: it is
	// executed as a copy in memory, which is in no folder.
	Dir string
	// Declares has the words of the plugin's sandbox declaration, instead of a file beside the executable.
	Declares string
	// Verify is called right before the start. Its error is why the files are not those that were installed.
	Verify func() error
}

// inherited are the variables of the host's environment that a backend gets, if they are set, beside its own, which begin
// with RLX_NAME_.
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
	if o.Folder != nil {
		// Python would write its bytecode beside the modules, and the folder would no longer be the one that was installed.
		env = append(env, FolderEnv+"="+o.Folder.Dir, "PYTHONDONTWRITEBYTECODE=1")
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
	// Decode reads what the host's Options.Encode wrote, and verifies it again. If it is nil, the backend takes no programs.
	Decode func([]byte) (*program.Program, error)
	Log    *slog.Logger // from NewLogger; nil for no log
}
