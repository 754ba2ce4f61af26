//go:build man

package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/rlx-go/rlx/internal/release"
)

// This file is only in builds with the tag man: programs that people run need no generator.

// WriteManuals writes a page of section 1 for the program and each of its commands. Their date is SOURCE_DATE_EPOCH.
func (p *Program) WriteManuals(dir string) error {
	t := newTree(p, &Env{Program: p.Name})
	t.root.Long = p.Short + "\n\nA command line that begins with a file is short for " + p.Name + " " +
		p.Default + "."
	for _, c := range append(t.root.Commands(), t.root) {
		forManual(c)
		for _, sub := range c.Commands() {
			forManual(sub)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return doc.GenManTreeFromOpts(t.root, doc.GenManTreeOptions{Path: filepath.Clean(dir), CommandSeparator: "-",
		Header: &doc.GenManHeader{Section: "1", Source: "RLX " + release.Version, Manual: "RLX"}})
}

// forManual moves the name of a flag's value from the quotes to the end of the text, because manual pages have no place
// for it.
func forManual(c *cobra.Command) {
	c.DisableAutoGenTag = true
	c.InitDefaultHelpFlag()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		rest, ok := strings.CutPrefix(f.Usage, "`")
		if name, text, found := strings.Cut(rest, "`"); ok && found {
			f.Usage = name + ": " + strings.TrimLeft(text, " :,")
		}
	})
}

func init() {
	manuals = func(p *Program) *Command {
		return &Command{hidden: true, Name: "man", Args: "DIR", Short: "write the manual pages",
			Setup: func(*FlagSet) Run {
				return func(_ context.Context, _ *Env, args []string) error {
					if len(args) != 1 {
						return Usagef("man", "takes a folder; found %d arguments", len(args))
					}
					return p.WriteManuals(args[0])
				}
			}}
	}
}
