//go:build linux || darwin

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/rlx-go/rlx/internal/owned"
)

// maxSocketPath is the shortest limit of any system on sun_path, without its final zero, in bytes.
const maxSocketPath = 103

// socketTail is the length of the path that go-plugin appends: /plugin-dirNNNNNNNNNN/pluginNNNNNNNNNN.
const socketTail = 38

// fitsSocket checks that the path of a socket inside dir is not too long.
func fitsSocket(dir string) error {
	if len(dir)+socketTail > maxSocketPath {
		return fmt.Errorf("%s is too long for a unix socket inside it; set TMPDIR to a shorter path", dir)
	}
	return nil
}

// removeLock removes the file of a lock that this process holds.
func removeLock(f *os.File) { os.Remove(f.Name()) }

// socketRoot returns the directory that holds this user's private directories. Only this user can write to it. In a
// shared temporary directory another user may have taken the name. Then socketRoot creates a root for this session
// alone, and own reports that the session must remove it. It also removes such roots of killed hosts.
func socketRoot(base string) (root string, own bool, err error) {
	if base == "" {
		base = os.Getenv("XDG_RUNTIME_DIR")
		if st, err := os.Stat(base); base == "" || err != nil || !st.IsDir() || owned.Private(base) != nil {
			base = os.TempDir()
		}
	}
	if base, err = filepath.Abs(base); err != nil {
		return "", false, err
	}
	name := "rlx-" + strconv.Itoa(os.Getuid())
	root = filepath.Join(base, name)
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, err
	}
	if isPrivate(root) {
		return root, false, nil
	}
	stale, _ := filepath.Glob(root + "-*")
	for _, r := range stale {
		if isPrivate(r) {
			sweep(r)
			os.Remove(r) // fails if a host still uses it
		}
	}
	root, err = os.MkdirTemp(base, name+"-*")
	return root, true, err
}

// isPrivate reports whether path is a directory, not a symbolic link, that only this user can access.
func isPrivate(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() || st.Mode().Perm() != 0o700 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid()
}

// checkSocket checks that path is a socket of this user inside dir and not a symbolic link.
func checkSocket(path, dir string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is not a socket", path)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to another user", path)
	}
	real, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	want, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(want, real); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is outside %s", path, dir)
	}
	return nil
}
