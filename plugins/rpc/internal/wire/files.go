//go:build linux || darwin || windows

package wire

import (
	"fmt"
	"os"
	"strings"
)

// Files are the files that a backend inherits, as descriptors from 3 up, or on Windows as handles.
type Files struct {
	Lifeline   *os.File // read end of a pipe; only the host has the write end
	IO         *os.File // shared region; nil for none
	Artifact   *os.File // read-only; nil for none
	Runs       *os.File // run channel; nil for none
	Weights    *os.File // memory for weights that replace those of the artifact; nil for none
	Executable *os.File // executable; the backend itself does not use it
}

// List returns the files in order, the executable last, and their names.
func (c *Files) List() (files []*os.File, names []string) {
	add := func(name string, f *os.File) {
		if f != nil {
			files, names = append(files, f), append(names, name)
		}
	}
	add("lifeline", c.Lifeline)
	add("io", c.IO)
	add("artifact", c.Artifact)
	add("runs", c.Runs)
	add("weights", c.Weights)
	add("executable", c.Executable)
	return files, names
}

// Env returns the environment variable RLX_FDS for files that a child inherits.
func Env(files []*os.File, names []string) string {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = names[i] + "=" + number(f, i)
	}
	return FilesEnv + "=" + strings.Join(list, ",")
}

// InheritedFiles opens the files listed in RLX_FDS, and keeps them from this process's own children.
func InheritedFiles(env string) (*Files, error) {
	c := &Files{}
	if env == "" {
		return c, nil
	}
	for entry := range strings.SplitSeq(env, ",") {
		name, number, ok := strings.Cut(entry, "=")
		if !ok {
			return nil, fmt.Errorf("%s: %q is not NAME=NUMBER", FilesEnv, entry)
		}
		f, err := inherited(number, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", FilesEnv, name, err)
		}
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
