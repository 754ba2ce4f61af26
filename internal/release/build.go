package release

import (
	"runtime/debug"
	"strings"
)

// Set by the linker in releases, which are built without Go's own record, and date in the form of RFC 3339:
// .goreleaser.yaml.
var commit, date string

// A Build describes the sources of an executable. Go records the commit when it builds in a work tree.
type Build struct {
	Version  string
	Commit   string // empty if unknown
	Date     string // of the commit, such as 2026-05-04; empty if unknown
	Modified bool   // whether the work tree had changes
}

// Own returns the build of the running executable.
func Own() Build {
	if commit != "" {
		day, _, _ := strings.Cut(date, "T")
		return Build{Version: Version, Commit: commit, Date: day}
	}
	b := Build{Version: Version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date, _, _ = strings.Cut(s.Value, "T")
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is, for example, "0.1.0 (c9d5ea0f1234, 2026-05-04)".
func (b Build) String() string {
	var parts []string
	if b.Commit != "" {
		short := b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			short += " with changes"
		}
		parts = append(parts, short)
	}
	if b.Date != "" {
		parts = append(parts, b.Date)
	}
	if len(parts) == 0 {
		return b.Version
	}
	return b.Version + " (" + strings.Join(parts, ", ") + ")"
}
