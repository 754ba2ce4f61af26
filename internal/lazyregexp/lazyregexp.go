// Package lazyregexp has regular expressions that are compiled when they are first used. A program that has variables
// with many expressions then starts faster, because each run uses few of them.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// A Regexp is a regular expression of package regexp. Its methods may be called concurrently.
type Regexp struct{ compiled func() *regexp.Regexp }

// inTest reports whether the program is a test.
var inTest = len(os.Args) > 0 && (strings.HasSuffix(os.Args[0], ".test") || strings.HasSuffix(os.Args[0], ".test.exe"))

// New returns an expression, which must be valid. In tests it is compiled at once, so that an invalid one is found
// even if no test uses it.
func New(expr string) *Regexp {
	r := &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
	if inTest {
		r.compiled()
	}
	return r
}

// MatchString reports whether s contains a match.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindStringSubmatch returns the leftmost match in s and those of its groups, or nil.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// ReplaceAllString replaces the matches in s; repl may refer to groups, such as $1.
func (r *Regexp) ReplaceAllString(s, repl string) string {
	return r.compiled().ReplaceAllString(s, repl)
}
