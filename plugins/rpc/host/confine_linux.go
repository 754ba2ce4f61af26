package host

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/plugins/rpc/internal/sandbox"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// Paths by purpose. None contains the user's files.
var (
	// For every process: the Go runtime and C libraries read these.
	commonDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
	commonFiles   = []string{"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/sys",
		"/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage", "/etc/localtime",
		"/usr/share/zoneinfo"}

	// These files are in the process's own folder. The list lacks files that tell about other processes: net shows all
	// connections and sockets of the machine, and task has a net for each thread.
	processFiles = []string{"auxv", "cgroup", "cmdline", "comm", "environ", "fd", "fdinfo", "limits", "maps",
		"mountinfo", "mounts", "numa_maps",
		"smaps", "smaps_rollup", "stat", "statm", "status"}

	// For programs with shared libraries.
	libraries = []string{"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib",
		"/usr/local/lib64",
		"/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/ld.so.preload"}

	// For scripts: interpreters and their modules may be anywhere below these.
	installed = []string{"/bin", "/sbin", "/usr", "/opt", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
		"/run/current-system"}

	// For scripts, too: an interpreter with OpenSSL, such as Node.js, does not start if it cannot read a configuration
	// that exists.
	opensslFiles = []string{"/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies/back-ends"}

	gpuDevices = []string{"/dev/dri", "/dev/nvidia*", "/dev/kfd", "/dev/dxg", "/dev/mali*", "/dev/kgsl-3d0",
		"/dev/nvmap", "/dev/nvhost-*",
		"/dev/nvgpu", "/dev/udmabuf", "/dev/dma_heap"}
	gpuFiles = []string{"/proc/self", "/usr", "/opt", "/sys", "/proc/driver", "/proc/devices", "/proc/modules",
		"/proc/bus", "/proc/filesystems",
		"/run/opengl-driver", "/run/opengl-driver-32", "/etc/vulkan", "/etc/glvnd", "/etc/OpenCL", "/etc/nvidia",
		"/etc/drirc"}
	// CUDA names its threads by files below this folder. There is nothing else to write.
	gpuThreads = []string{"/proc/self/task"}
	gpuHome    = []string{".local/share/vulkan", ".config/vulkan", ".drirc"}
	// Environment variables that list driver manifests.
	gpuManifests = []string{"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}
)

// grants lists what a process that executes exe may access. fd is the descriptor of exe in that process. A file in
// memory has no path, so no rule can name it, and it needs no rule. folder is the folder of an installed plugin, or
// empty.
func (c Confinement) grants(exe *os.File, fd int, inMemory bool, dir, folder string, env []string) []sandbox.Grant {
	g := []sandbox.Grant{
		{Access: sandbox.Write, Paths: append([]string{dir}, commonDevices...)},
		{Access: sandbox.Read, Paths: commonFiles},
	}
	if !c.allows(wordGPU) { // drivers read more of it
		own := make([]string, len(processFiles))
		for i, f := range processFiles {
			own[i] = "/proc/self/" + f
		}
		g = append(g, sandbox.Grant{Access: sandbox.Read, Paths: own})
	}
	if folder != "" {
		g = append(g, sandbox.Grant{Access: sandbox.Read, Paths: []string{folder}})
	}
	if !inMemory {
		g = append(g, sandbox.Grant{Access: sandbox.Run, Paths: []string{execPath(exe, fd)}})
	}
	switch interpreter, script := loaderOf(exe); {
	case script:
		g = append(g, sandbox.Grant{Access: sandbox.Run, Paths: installed},
			sandbox.Grant{Access: sandbox.Read, Paths: opensslFiles})
	case slices.ContainsFunc(libraries, func(dir string) bool { return strings.HasPrefix(interpreter, dir+"/") }):
		// Outside these folders, the "interpreter" could be any file of the user that a hostile author wants to read.
		g = append(g, sandbox.Grant{Access: sandbox.Run, Paths: []string{interpreter}},
			sandbox.Grant{Access: sandbox.Read, Paths: slices.Concat(libraries, listed(env, "LD_LIBRARY_PATH"))})
	}
	if c.allows(wordGPU) {
		files := slices.Clone(gpuFiles)
		if home := valueOf(env, "HOME"); filepath.IsAbs(home) {
			for _, f := range gpuHome {
				files = append(files, filepath.Join(home, f))
			}
		}
		for _, name := range gpuManifests {
			for _, f := range listed(env, name) {
				// the driver may be next to its manifest
				drivers, _ := filepath.Glob(filepath.Join(filepath.Dir(f), "*.so*"))
				files = append(append(files, f), drivers...)
			}
		}
		var devices []string
		for _, pattern := range gpuDevices {
			found, _ := filepath.Glob(pattern)
			devices = append(devices, found...)
		}
		g = append(g, sandbox.Grant{Access: sandbox.Read, Paths: files},
			sandbox.Grant{Access: sandbox.Device, Paths: devices},
			sandbox.Grant{Access: sandbox.Write, Paths: append(gpuThreads, valueOf(env, cacheVariables[0]))})
	}
	return g
}

// loaderOf returns the dynamic linker that exe names, if any. script reports that exe is a script, which needs an
// interpreter instead.
func loaderOf(exe *os.File) (linker string, script bool) {
	var start [2]byte
	if n, _ := exe.ReadAt(start[:], 0); n == 2 && string(start[:]) == "#!" {
		return "", true
	}
	f, err := elf.NewFile(exe)
	if err != nil {
		return "", false // the kernel will also reject it
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < wire.MaxLine {
			b := make([]byte, p.Filesz)
			p.ReadAt(b, 0)
			return filepath.Clean(string(bytes.TrimRight(b, "\x00"))), false
		}
	}
	return "", false
}

// valueOf returns the last value of a variable in env, or "" if it is not set.
func valueOf(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// listed returns the absolute paths in a variable that holds a list of paths.
func listed(env []string, name string) (paths []string) {
	for _, p := range filepath.SplitList(valueOf(env, name)) {
		if filepath.IsAbs(p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// cacheVariables are environment variables for the directory in which drivers cache compiled shaders. Each backend has
// its own directory. In a shared one, a hostile backend could store code that other programs then run. For the same
// reason, a directory that others can write to is not used.
var cacheVariables = []string{"XDG_CACHE_HOME", "MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH",
	"CUDA_CACHE_PATH"}

// environment returns environment variables that set the directories for temporary files and caches.
func (c Confinement) environment(name, dir string) []string {
	env := []string{"TMPDIR=" + dir}
	if c.allows(wordGPU) {
		cache := cacheOf(name)
		if cache == "" || os.MkdirAll(cache, 0o700) != nil || owned.Private(cache) != nil {
			cache = dir // deleted with the session
		}
		for _, v := range cacheVariables {
			env = append(env, v+"="+cache)
		}
	}
	return env
}

// cacheOf returns the cache directory of the backend called name, or "" if there is none.
func cacheOf(name string) string {
	base, err := os.UserCacheDir()
	if err != nil || name == "" || name[0] == '.' || filepath.Base(name) != name {
		return ""
	}
	return filepath.Join(base, "rlx", name)
}
