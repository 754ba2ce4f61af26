package sandbox

import (
	"os"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Available is the layers that this kernel supports.
func Available() Layers {
	return Layers{Landlock: landlockABI(), Seccomp: haveSeccomp()}
}

// ScopeABI is the first version of Landlock that confines signals.
const ScopeABI = 6

// landlockABI is the version that go-landlock uses here, 0 if the kernel has no Landlock.
func landlockABI() int {
	const newest = 11 // that go-landlock knows
	v, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	if v >= ScopeABI {
		// signalFix: without this fix a thread cannot signal other threads of its process, so go-landlock does not use scopes.
		const signalFix = 1 << 1
		if errata, err := ll.LandlockGetErrata(); err != nil || errata&signalFix == 0 {
			return ScopeABI - 1
		}
	}
	return min(v, newest)
}

// Rights by access. Only those in fileRights may be granted on something that is not a directory.
const (
	readRights   = ll.AccessFSReadFile | ll.AccessFSReadDir
	runRights    = readRights | ll.AccessFSExecute
	writeRights  = readRights | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg | ll.AccessFSMakeDir | ll.AccessFSMakeSock | ll.AccessFSRemoveFile | ll.AccessFSRemoveDir
	deviceRights = readRights | ll.AccessFSWriteFile | ll.AccessFSIoctlDev
	fileRights   = ll.AccessFSReadFile | ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
)

var rightsOf = map[Access]landlock.AccessFSSet{Read: readRights, Run: runRights, Write: writeRights, Device: deviceRights}

// restrictFiles forbids access to files that is not granted, from ABI 4 TCP, and from ABI 6 signals to processes outside the
// sandbox and their abstract sockets.
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
				// A rule belongs to an inode, and proc makes a new inode for a name that the kernel has dropped from its
				// cache. This descriptor, which the program inherits, keeps the name cached. It cannot be read.
				unix.Open(p, unix.O_PATH, 0)
			}
		}
	}
	return landlock.V11.BestEffort().Restrict(rules...)
}
