package sandbox

import (
	"os"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Available returns the layers that this kernel supports.
func Available() Layers {
	return Layers{Landlock: landlockABI(), Seccomp: haveSeccomp()}
}

// ScopeABI is the first version of Landlock that confines signals.
const ScopeABI = 6

// landlockABI returns the Landlock version that go-landlock uses on this kernel, or 0 if the kernel has no Landlock.
func landlockABI() int {
	const newest = 11 // the newest version that go-landlock knows
	v, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	if v >= ScopeABI {
		// signalFix is the kernel's erratum bit for signals between threads of one process. Without that fix
		// go-landlock does not use scopes.
		const signalFix = 1 << 1
		if errata, err := ll.LandlockGetErrata(); err != nil || errata&signalFix == 0 {
			return ScopeABI - 1
		}
	}
	return min(v, newest)
}

// Rights by access. Only those in fileRights may be granted on files that are not directories.
const (
	readRights  = ll.AccessFSReadFile | ll.AccessFSReadDir
	runRights   = readRights | ll.AccessFSExecute
	writeRights = readRights | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg | ll.AccessFSMakeDir |
		ll.AccessFSMakeSock | ll.AccessFSRemoveFile | ll.AccessFSRemoveDir
	deviceRights = readRights | ll.AccessFSWriteFile | ll.AccessFSIoctlDev
	fileRights   = ll.AccessFSReadFile | ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSTruncate |
		ll.AccessFSIoctlDev
)

var rightsOf = map[Access]landlock.AccessFSSet{Read: readRights, Run: runRights, Write: writeRights,
	Device: deviceRights}

// restrictFiles forbids all access to files that grants does not list. From ABI 4 it also forbids TCP, and from ABI 6
// signals to processes outside the sandbox and connections to their abstract sockets.
func restrictFiles(grants []Grant) error {
	var rules []landlock.Rule
	for _, g := range grants {
		for _, p := range g.Paths {
			st, err := os.Stat(p)
			if err != nil {
				continue
			}
			rights := rightsOf[g.Access]
			if !st.IsDir() {
				rights &= fileRights
			}
			rules = append(rules, landlock.PathAccess(rights, p).IgnoreIfMissing())
			if strings.HasPrefix(p, "/proc/") && !strings.HasPrefix(p, "/proc/self/fd/") {
				// A Landlock rule applies to an inode, and proc creates a new inode after the kernel has dropped a name
				// from its cache. The program inherits this descriptor, which keeps the name in the cache. It cannot be
				// used for reading.
				unix.Open(p, unix.O_PATH, 0)
			}
		}
	}
	return landlock.V11.BestEffort().Restrict(rules...)
}
