package compile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	driver "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/internal/regular"
)

// targetEnding is the file name extension of target descriptions.
const targetEnding = ".target"

// targetFile splits the name of a target into a file and a level, which may be empty. ok is false if it is the name of
// a target.
func targetFile(name string) (path, level string, ok bool) {
	if path, level, ok = strings.Cut(name, targetEnding+":"); ok {
		return path + targetEnding, level, true
	}
	return name, "", strings.HasSuffix(name, targetEnding) || strings.Contains(name, "/")
}

// chooseTargets returns the targets of Options.Targets. Their order in the artifact does not depend on the order of the
// names: built-in targets, then files by name, then portable, because a backend without a program of its own uses the
// first one that fits.
func chooseTargets(names []string) ([]driver.Target, error) {
	if len(names) == 0 {
		return driver.Defaults(), nil
	}
	var out []driver.Target
	from := map[string]string{}
	for _, n := range names {
		t, err := chooseTarget(n)
		if err != nil {
			return nil, err
		}
		if old, ok := from[t.Name]; ok {
			if old == n {
				continue
			}
			return nil, usage("--target "+n, "is target %s, as %s is", t.Name, old)
		}
		from[t.Name] = n
		out = append(out, t)
	}
	order := func(t driver.Target) int {
		i := slices.Index(driver.TargetNames(), t.Name)
		switch {
		case t.Name == target.Portable:
			return 1 << 20
		case i < 0:
			return 1 << 10
		}
		return i
	}
	slices.SortFunc(out, func(a, b driver.Target) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

func chooseTarget(name string) (driver.Target, error) {
	path, level, isFile := targetFile(name)
	if !isFile {
		return driver.FindTarget(name)
	}
	text, err := regular.ReadFile(path, target.MaxText)
	if err != nil {
		return driver.Target{}, diag.New(code.TargetFile, path, "%w", err)
	}
	d, err := target.Parse(string(text))
	if err == nil {
		err = d.Check()
	}
	if err != nil {
		return driver.Target{}, diag.New(code.TargetFile, path, "%w", err)
	}
	t := driver.Target{Name: d.Name, Takes: d}
	if level != "" {
		if !slices.Contains(d.Levels, level) {
			return driver.Target{},
				diag.New(code.Target, "--target "+name, "the description has no level %q; it has %s", level,
					cmp.Or(strings.Join(d.Levels, ", "), "none"))
		}
		t.Name += ":" + level
	}
	return t, nil
}

// targetFiles lists the files that names of targets name.
func targetFiles(names []string) (out []string) {
	for _, n := range names {
		if path, _, ok := targetFile(n); ok {
			out = append(out, path)
		}
	}
	return out
}
