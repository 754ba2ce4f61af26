//go:build linux || darwin

package wire

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Files are the files that a backend inherits, as descriptors from 3 up.
type Files struct {
	Lifeline   *os.File // read end of a pipe; only the host has the write end
	IO         *os.File // shared region; nil for none
	Artifact   *os.File // read-only; nil for none
	Runs       *os.File // run channel; nil for none
	Weights    *os.File // memory for weights that replace those of the artifact; nil for none
	Executable *os.File // executable; the backend itself does not use it
}

// List returns the files in order, the executable last, and the environment variable RLX_FDS that lists them.
func (c *Files) List() (files []*os.File, env string) {
	add := func(name string, f *os.File) {
		if f == nil {
			return
		}
		if env != "" {
			env += ","
		}
		env += name + "=" + strconv.Itoa(3+len(files))
		files = append(files, f)
	}
	add("lifeline", c.Lifeline)
	add("io", c.IO)
	add("artifact", c.Artifact)
	add("runs", c.Runs)
	add("weights", c.Weights)
	add("executable", c.Executable)
	return files, FilesEnv + "=" + env
}

// InheritedFiles opens the descriptors listed in RLX_FDS and marks them close-on-exec.
func InheritedFiles(env string) (*Files, error) {
	c := &Files{}
	if env == "" {
		return c, nil
	}
	for entry := range strings.SplitSeq(env, ",") {
		name, num, _ := strings.Cut(entry, "=")
		fd, err := strconv.Atoi(num)
		if err != nil || fd < 3 || fd > 1023 {
			return nil, fmt.Errorf("%s: %q is not NAME=DESCRIPTOR", FilesEnv, entry)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return nil, fmt.Errorf("%s: descriptor %d is not open", FilesEnv, fd)
		}
		unix.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), name)
		switch name {
		case "lifeline":
			c.Lifeline = f
		case "io":
			c.IO = f
		case "artifact":
			c.Artifact = f
		case "runs":
			c.Runs = f
		case "weights":
			c.Weights = f
		case "executable":
			f.Close()
		}
	}
	return c, nil
}
