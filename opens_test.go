package rlx_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mayOpen lists the files of the commands, and of packages that they import, that may open or list files in other ways
// than through internal/regular, internal/ctxio and internal/atomicfile, with the reason. Paths that users name must go
// through these packages: a named pipe or /dev/zero would otherwise block a command forever.
var mayOpen = map[string]string{
	"internal/regular/regular.go":                    "the place for regular files",
	"internal/ctxio/ctxio.go":                        "the place for files that may block",
	"internal/atomicfile/temp.go":                    "the place for outputs: its temporary files",
	"internal/values/spool.go":                       "a file without a name, in the folder for temporary files",
	"internal/atomicfile/unnamed_linux.go":           "the same",
	"internal/atomicfile/reclaim_unix.go":            "the lock of a folder, opened without blocking",
	"internal/atomicfile/replace_other.go":           "its temporary files",
	"internal/atomicfile/atomicfile.go":              "the folder of an output, to flush it",
	"internal/budget/free_linux.go":                  "/proc and /sys",
	"internal/cli/start_linux.go":                    "/proc",
	"internal/installed/installed.go":                "lists the folder of installed plugins",
	"internal/installed/install.go":                  "lists and locks the folder of installed plugins",
	"internal/owned/owned.go":                        "lists the folders above a file of ours, and of a plugin",
	"internal/installed/unpack.go":                   "lists folders of a plugin to install",
	"internal/installed/manifest.go":                 "writes into a new folder",
	"models/weights/weights.go":                      "lists a folder",
	"models/weights/index.go":                        "opens a folder, and its files through internal/regular",
	"cmd/rlxrun/segment_files.go":                    "lists a folder",
	"internal/localpage/page.go":                     "files that are embedded in the program",
	"train/masks.go":                                 "lists a folder",
	"cmd/rlxrun/protocol_log.go":                     "refuses pipes before it creates the file",
	"cmd/rlxrun/vectors.go":                          "writes into a new folder",
	"internal/backends/backends.go":                  "lists folders of backends",
	"models/onnx/file.go":                            "external data in the folder of the model, of which the kind is checked first",
	"cmd/rlxrun/auto_memory.go":                      "a temporary file in a folder of ours",
	"cmd/rlxrun/doctor_linux.go":                     "/proc, /sys and the device files of GPUs",
	"remember.go":                                    "a temporary file in a folder of ours",
	"plugins/rpc/host/executable_unix.go":            "opens without blocking and checks the kind",
	"plugins/rpc/host/declaration.go":                "the same",
	"plugins/rpc/protocoltest/run.go":                "a temporary file of ours",
	"plugins/rpc/host/process_unix.go":               "/dev/fd",
	"internal/peakrss/peakrss_linux.go":              "/proc",
	"plugins/rpc/host/copy_linux.go":                 "/proc",
	"plugins/rpc/host/dir.go":                        "a folder of ours",
	"plugins/rpc/host/dir_unix.go":                   "the same",
	"plugins/rpc/host/confine_linux.go":              "lists folders of drivers",
	"plugins/rpc/internal/sandbox/landlock_linux.go": "opens only for Landlock (O_PATH)",
}

// openers lists the functions that open or list files, by package.
var openers = map[string]string{
	"os":                    "Open OpenFile OpenInRoot OpenRoot ReadFile ReadDir DirFS CopyFS Create CreateTemp WriteFile",
	"io/fs":                 "ReadFile ReadDir WalkDir Glob",
	"path/filepath":         "Glob Walk WalkDir",
	"syscall":               "Open",
	"golang.org/x/sys/unix": "Open Openat Openat2",
	"io/ioutil":             "ReadFile ReadAll ReadDir WriteFile TempFile",
}

// TestOpens checks that the commands open files only in the places that refuse or outlast files that never end.
func TestOpens(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}",
		"./cmd/rlxc", "./cmd/rlxrun").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, dir := range strings.Fields(string(out)) {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			rel, _ := filepath.Rel(root, file)
			rel = filepath.ToSlash(rel)
			for _, call := range opens(t, file) {
				used[rel] = true
				if mayOpen[rel] == "" {
					t.Errorf(
						"%s: calls %s; use internal/regular, internal/ctxio or internal/atomicfile for a path that a user names",
						rel, call)
				}
			}
		}
	}
	if len(used) < 10 {
		t.Errorf("only %d files open files; the test finds nothing", len(used))
	}
	for file := range mayOpen {
		if !used[file] {
			t.Errorf("%s opens no files any more; remove it from mayOpen", file)
		}
	}
}

// opens returns the calls in a file that open files.
func opens(t *testing.T, file string) (calls []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // of packages, in this file
	for _, imp := range f.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		if openers[p] == "" {
			continue
		}
		names[path.Base(p)] = p
		if imp.Name != nil {
			names[imp.Name.Name] = p
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok {
			for _, name := range strings.Fields(openers[names[x.Name]]) {
				if name == s.Sel.Name {
					calls = append(calls, x.Name+"."+name)
				}
			}
		}
		return true
	})
	return calls
}
