package atomicfile

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/rlx-go/rlx/internal/filelock"
	"github.com/rlx-go/rlx/internal/lazyregexp"
)

// tempNames matches the names of our temporary files.
var tempNames = lazyregexp.New(`^\.rlx-[0-9a-z]{1,13}\.tmp$`)

func tempName(dir string) string {
	return filepath.Join(dir, ".rlx-"+strconv.FormatUint(rand.Uint64(), 36)+".tmp")
}

var unnamed = createUnnamed // tests disable it to cover both ways

var errNoName = errors.New("no free name for a temporary file")

// retries bounds how many names are tried. Only a collision of 64-bit random numbers needs a second attempt.
const retries = 100

// createTemp creates a locked temporary file in dir. name is empty if the file has no name.
func createTemp(dir string) (f *os.File, name string, err error) {
	sweepOnce(dir)
	if f := unnamed(dir); f != nil {
		lock(f)
		return f, "", nil
	}
	for range retries {
		name := tempName(dir)
		f, err := newTemp(name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		// Between the open and the lock, another process may sweep the file: then that process has the lock, or the
		// name is gone.
		if lock(f) && sameFile(f, name) {
			return f, name, nil
		}
		f.Close()
	}
	return nil, "", errNoName
}

// lock locks f until it is closed. It returns false if another process has the lock. On a file system without locks it
// returns true, because nobody can remove files there.
func lock(f *os.File) bool { return !errors.Is(filelock.Try(f), filelock.ErrHeld) }

func sameFile(f *os.File, name string) bool {
	a, aerr := f.Stat()
	b, berr := os.Lstat(name)
	return aerr == nil && berr == nil && os.SameFile(a, b)
}

var swept sync.Map // directories that this process has already swept

func sweepOnce(dir string) {
	if _, done := swept.LoadOrStore(dir, true); !done {
		sweep(dir)
	}
}

// sweep removes temporary files that killed processes have left in dir: regular files of this user with one of our
// names that nobody has locked. Files that cannot be examined stay.
func sweep(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(1024)
		for _, n := range names {
			if tempNames.MatchString(n) {
				reclaim(filepath.Join(dir, n))
			}
		}
		if err != nil {
			return
		}
	}
}
