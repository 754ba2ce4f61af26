package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completing returns probe with values to complete.
func completing() *Program {
	p := probe()
	p.Values = map[string]Completer{"number": func(_ context.Context, line Line) []string {
		return []string{strings.Join(line.Args, "+") + "1", line.Flag("verify") + "=", "\x1b2"}
	}}
	return p
}

// complete returns the suggestions for the last word of a command line, without descriptions.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	var out, errs strings.Builder
	status := completing().Exec(t.Context(), append([]string{"__completeNoDesc"}, words...), nil, &out, &errs)
	if status != 0 {
		t.Fatalf("%q: status %d, %s", words, status, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1] // the last line is for the shell's script
}

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		line string
		want string // suggestions
	}{
		{"b|", "bench"},
		{"pl|", "plugins"},
		{"plugins |", "list"},
		{"explain RLX100|", "RLX1002 RLX1003"},
		{"explain RLX1001 |", ""},
		{"completion |", "bash zsh fish powershell"},
		{"run --verify |", "full lazy"},
		{"x.bin --verify |", "full lazy"}, // the default command
		{"x.bin --veri|", "--verify"},
		{"--json x.bin --verify |", "full lazy"},
		{"--point 1,2 --verify |", "full lazy"},
		{"bench --format |", "text json"},
		{"bench a b --verify lazy -n |", "a+b1 lazy= \uFFFD2"},
		{"bench a --number a|", "a1"},
	} {
		words := strings.Split(strings.TrimSuffix(c.line, "|"), " ")
		if got := complete(t, words...); strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q; want %s", c.line, got, c.want)
		}
	}
	if all := complete(t, ""); !slices.Contains(all, "run") || slices.Contains(all, "man") {
		t.Errorf("commands: %q", all)
	}
}

// TestScripts checks that the shells that this machine has accept the scripts.
func TestScripts(t *testing.T) {
	for shell, check := range map[string][]string{"bash": {"bash", "-n"}, "zsh": {"zsh", "-n"}, "fish": {"fish", "-n"},
		"powershell": nil} {
		var out, errs strings.Builder
		if status := probe().Exec(t.Context(), []string{"completion", shell}, nil, &out, &errs); status != 0 ||
			!strings.Contains(out.String(), "__complete") {
			t.Errorf("%s: status %d, %d bytes, %s", shell, status, out.Len(), errs.String())
		}
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte(out.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		if check == nil {
			continue
		}
		if _, err := exec.LookPath(check[0]); err != nil {
			t.Logf("%s is not here", check[0])
			continue
		}
		if msg, err := exec.Command(check[0], append(check[1:], file)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, msg)
		}
	}
	if status := probe().Exec(t.Context(), []string{"completion", "csh"}, nil, &strings.Builder{},
		&strings.Builder{}); status != 2 {
		t.Errorf("csh: status %d", status)
	}
}
