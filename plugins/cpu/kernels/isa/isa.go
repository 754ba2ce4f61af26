// Package isa knows the instruction sets for which there are kernels, and which of these sets this processor has. Each
// family of kernels keeps its routines in a Table, by set.
//
// The set Generic is plain Go. The others have routines in assembly, with names such as avx2 and neon.
package isa

import (
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// FeaturesEnv names the environment variable that chooses an instruction set. It is read once.
const FeaturesEnv = "RLX_CPU_FEATURES"

// Set is an instruction set.
type Set struct {
	Name  string
	Lanes int  // the number of float32 in a vector
	base  *Set // the set that this one extends, or nil
	id    uint8
}

// Generic is the set of every processor: plain Go.
var Generic = &Set{Name: "generic", Lanes: 4}

// sets counts the sets other than Generic.
var sets atomic.Int32

func newSet(name string, lanes int) *Set {
	id := sets.Add(1)
	if id >= maxSets {
		panic("BUG: too many instruction sets")
	}
	return &Set{Name: name, Lanes: lanes, id: uint8(id)}
}

// Extend returns a set that has the routines of base, except for those that tables list for it. Tests emulate
// instructions with such sets. Calls with the same arguments return the same set.
func Extend(base *Set, name string) *Set {
	key := extension{base, name}
	if s, ok := extensions.Load(key); ok {
		return s.(*Set)
	}
	s := newSet(name, base.Lanes)
	s.base = base
	first, _ := extensions.LoadOrStore(key, s)
	return first.(*Set)
}

type extension struct {
	base *Set
	name string
}

var extensions sync.Map // of *Set, by extension

// Features lists the names of the sets that this processor can run, the best one last.
func Features() []string {
	var names []string
	for _, s := range Available() {
		names = append(names, s.Name)
	}
	return names
}

// Available returns the sets that this processor can run, the best one last.
func Available() []*Set { return available() }

var available = sync.OnceValue(func() []*Set { return append([]*Set{Generic}, native()...) })

var forced = sync.OnceValue(func() string { return os.Getenv(FeaturesEnv) })

// Choose returns the set of this name. If name is empty, it returns the set that RLX_CPU_FEATURES names, or else the
// best.
func Choose(name string) (*Set, error) {
	subject := "cpu features"
	if name == "" {
		name, subject = forced(), FeaturesEnv
	}
	sets := Available()
	if name == "" {
		return sets[len(sets)-1], nil
	}
	if i := slices.IndexFunc(sets, func(s *Set) bool { return s.Name == name }); i >= 0 {
		return sets[i], nil
	}
	return nil, diag.New(code.Features, subject, "%q is not available on this processor; it has %s", name,
		strings.Join(Features(), ", "))
}

// Extends reports whether s has the routines of base, directly or through another set.
func (s *Set) Extends(base *Set) bool {
	for ; s != nil; s = s.base {
		if s == base {
			return true
		}
	}
	return false
}
