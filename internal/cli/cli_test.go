package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rlx-go/rlx/core/diag"
)

// probe is a program whose commands print their arguments.
func probe() *Program {
	show := func(name string) *Command {
		return &Command{Name: name, Args: "FILE [flags]", Short: "do " + name,
			Examples: []Example{{"an example", "tool " + name + " x.bin"}},
			Setup: func(fs *FlagSet) Run {
				var points List
				var verify Choice
				fs.Group("Prompts")
				fs.ListVarP(&points, "point", "p", "`X,Y` of a place")
				n := fs.IntP("number", "n", 1, "how often")
				fs.ChoiceVar(&verify, "verify", "how much", "full", "lazy")
				return func(_ context.Context, env *Env, args []string) error {
					fmt.Fprintf(env.Stdout, "%s args=%q points=%q n=%d verify=%s json=%v quiet=%v\n", name, args,
						points.Values, *n, verify.Value, env.JSON, env.Quiet)
					return nil
				}
			}}
	}
	bad := &Command{Name: "fail", Short: "fail", Setup: func(*FlagSet) Run {
		return func(ctx context.Context, env *Env, args []string) error {
			switch args[0] {
			case "typed":
				return diag.New("RLX4008", "a.rlx", "section\x1b[2J 3 is %d bytes", 7).WithHint("compile it again")
			case "wrapped":
				return fmt.Errorf("while loading: %w", diag.New("RLX8001", "arena", "too large"))
			case "panic":
				panic("BUG: met")
			case "wait":
				<-ctx.Done()
				return ctx.Err()
			}
			return fmt.Errorf("plain")
		}
	}}
	return &Program{Name: "tool", Short: "Does things.", Default: "run",
		Commands: []*Command{show("run"), show("bench"), show("plugins list"), bad},
		Versions: []Version{{"format", "1.0"}}}
}

func execute(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	status = probe().Exec(t.Context(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

func TestDispatch(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile(filepath.Join(dir, "plainfile"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want string }{
		{"x.bin", `run args=["x.bin"] points=[] n=1 verify=full`},
		{"x.bin --point 1,2 -p 3,4,0", `run args=["x.bin"] points=["1,2" "3,4,0"]`},
		{"run x.bin", `run args=["x.bin"]`},
		{"./bench", `run args=["./bench"]`},
		{"bench x.bin -n 5", `bench args=["x.bin"] points=[] n=5`},
		{"plainfile", `run args=["plainfile"]`},
		{"-n 3 plainfile", `run args=["plainfile"] points=[] n=3`},
		{"plugins list", `plugins list args=[]`},
		{"--format json bench x", `bench args=["x"] points=[] n=1 verify=full json=true quiet=false`},
		{"--json bench x", `bench args=["x"] points=[] n=1 verify=full json=true quiet=false`},
		{"bench x --json", `bench args=["x"] points=[] n=1 verify=full json=true quiet=false`},
		{"--format=json --quiet plugins list", `plugins list args=[] points=[] n=1 verify=full json=true quiet=true`},
		{"x.bin --verify lazy", `verify=lazy`},
		{"x.bin -- --point", `run args=["x.bin" "--point"]`},
	} {
		status, out, errs := execute(t, strings.Fields(c.line)...)
		if status != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s: status %d\n out %s err %s want %s", c.line, status, out, errs, c.want)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ line, want string }{
		{"", "Usage:"},
		{"banch", `unknown command "banch"`},
		{"banch", `did you mean "bench"?`},
		{"plugins", "plugins list"},
		{"plugins lost", `did you mean "plugins list"?`},
		{"plugin list", `did you mean "plugins list"?`},
		{"x.bin --poin 1,2", "--poin: no such flag; did you mean --point?"},
		{"x.bin --num 2", "did you mean --number?"},
		{"x.bin --numbers=2", "did you mean --number?"},
		{"x.bin -z", "-z: no such flag"},
		{"x.bin -n", "--number: its value is missing: --number int: how often"},
		{"x.bin -n many", `--number many: is not a whole number`},
		{"x.bin --verify half", `--verify half: is not known; allowed are full, lazy`},
		{"x.bin --format yaml", "allowed are text and json"},
		{"help nonsense", "no command"},
		{"version 2", "takes no arguments"},
		{"explain RLX0000", "not a code"},
	} {
		status, out, errs := execute(t, strings.Fields(c.line)...)
		if status != 2 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d\n out %s err %s want %s", c.line, status, out, errs, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"fail typed", 4,
			"tool: a.rlx: section\uFFFD[2J 3 is 7 bytes; compile it again (RLX4008; see tool explain RLX4008)\n"},
		{"fail typed --format json", 4, `{"error":{"code":"RLX4008","exit":4,"subject":"a.rlx","message":"section` +
			"\uFFFD" + `[2J 3 is 7 bytes","hint":"compile it again"}}` + "\n"},
		{"fail wrapped", 8, "tool: while loading: arena: too large (RLX8001; see tool explain RLX8001)\n"},
		{"fail plain", 70, "tool: plain (RLX9001; see tool explain RLX9001)\n"},
		{"fail plain --format=json", 70, `{"error":{"code":"RLX9001","exit":70,"message":"plain"}}` + "\n"},
		{"x.bin --bogus --json", 2,
			`{"error":{"code":"RLX2001","exit":2,"subject":"--bogus","message":"no such flag"}}` + "\n"},
		{"x.bin --json --format text", 2,
			`{"error":{"code":"RLX2001","exit":2,"subject":"--json","message":"cannot be combined with --format text"}}` +
				"\n"},
		{"x.bin --bogus --format json", 2,
			`{"error":{"code":"RLX2001","exit":2,"subject":"--bogus","message":"no such flag"}}` + "\n"},
		{"bogus --format=json", 2, `{"error":{"code":"RLX2001"`},
	} {
		status, out, errs := execute(t, strings.Fields(c.line)...)
		if status != c.status || out != "" || !strings.HasPrefix(errs, c.want) {
			t.Errorf("%q: status %d\n out %s err %s want %s", c.line, status, out, errs, c.want)
		}
	}
	if status, _, errs := execute(t, "fail", "panic"); status != 70 || !strings.Contains(errs, "BUG: met") ||
		!strings.Contains(errs, "goroutine") {
		t.Errorf("panic: status %d, %s", status, errs)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestStdoutFull checks that a command fails if its results cannot be written, even if it ignores the error.
func TestStdoutFull(t *testing.T) {
	for _, line := range []string{"run x.bin", "explain RLX1002", "explain", "version", "version --format json",
		"--help", "run --help"} {
		var errs strings.Builder
		status := probe().Exec(t.Context(), strings.Fields(line), nil, fullDisk{}, &errs)
		if status != 8 || !strings.Contains(errs.String(), "standard output") ||
			!strings.Contains(errs.String(), "cannot be written: no space left on device") {
			t.Errorf("%s: status %d, %s", line, status, errs.String())
		}
	}
}

// TestStoppedBySignal checks that after a signal the status is 128 + its number, even if the command returns another
// error.
func TestStoppedBySignal(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&stopped{sig})
		var out, errs strings.Builder
		if got := probe().Exec(ctx, []string{"fail", "wait"}, nil, &out, &errs); got != want ||
			!strings.Contains(errs.String(), "RLX1002") {
			t.Errorf("%v: status %d, want %d; %s", sig, got, want, errs.String())
		}
	}
}

func TestHelp(t *testing.T) {
	_, top, _ := execute(t, "--help")
	for _, want := range []string{"Does things.", "tool COMMAND", "plugins list",
		"tool FILE is short for tool run FILE", "Exit status:"} {
		if !strings.Contains(top, want) {
			t.Errorf("--help lacks %q:\n%s", want, top)
		}
	}
	status, run, _ := execute(t, "run", "--help")
	_, same, _ := execute(t, "help", "run")
	if status != 0 || run != same {
		t.Errorf("status %d; help run differs from run --help:\n%s\n%s", status, run, same)
	}
	for _, want := range []string{"tool [run] FILE [flags]", "Examples:\n  # an example\n  tool run x.bin\n",
		"Prompts:\n  -p, --point X,Y", "General:\n      --format text|json", "--verify full|lazy"} {
		if !strings.Contains(run, want) {
			t.Errorf("run --help lacks %q:\n%s", want, run)
		}
	}
}

func TestWrapped(t *testing.T) {
	word := strings.Repeat("x", 30)
	for _, c := range []struct{ text, want string }{
		{"a\nb", "a b"},
		{strings.Repeat(word+" ", 4), word + " " + word + " " + word + "\n" + word},
		{"list:\n  one  two\n  three", "list:\n  one  two\n  three"},
		{"  one\nafter", "one after"},
		{"x\n  one\nafter", "x\n  one\nafter"},
	} {
		if got := Wrapped(c.text); got != c.want {
			t.Errorf("%q: %q; want %q", c.text, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	_, out, _ := execute(t, "explain", "rlx1002")
	if !strings.HasPrefix(out, "RLX1002: interrupted (exit status 1)\n\n") {
		t.Errorf("explain RLX1002: %s", out)
	}
	if _, short, _ := execute(t, "explain", "1002"); short != out {
		t.Errorf("explain 1002: %s", short)
	}
	_, out, _ = execute(t, "explain", "--format", "json")
	var list []explanation
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != len(diag.Entries()) {
		t.Errorf("%d of %d entries, %v", len(list), len(diag.Entries()), err)
	}
	_, out, _ = execute(t, "version")
	if !strings.HasPrefix(out, "tool ") || !strings.Contains(out, "\nformat 1.0\n") {
		t.Errorf("version: %s", out)
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"saturday", "sunday", 3}, {"", "abc", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestStarted checks that the process started before its first Go code, but not earlier than a test binary takes to
// start.
func TestStarted(t *testing.T) {
	if d := start.Sub(Started()); d < 0 || d > time.Minute {
		t.Errorf("started %v before the first Go code", d)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 99_940: "99.9 kB",
		7_700_000: "7.7 MB", 375_400_000: "375 MB", 999_600_000: "1.0 GB"} {
		if got := Size(n); got != want {
			t.Errorf("%d: %s; want %s", n, got, want)
		}
	}
}

// TestShort checks that a name from a file does not make an error as long as the file.
func TestShort(t *testing.T) {
	long := "weight " + strings.Repeat("é", 1<<20) + " is missing"
	f := failureOf(t.Context(), diag.New(diag.Internal, long, "%s", long).WithHint("%s", long))
	for _, got := range []string{f.Subject, f.Message, f.Hint} {
		if len(got) > maxPart+100 || !strings.HasPrefix(got, "weight éé") || !strings.HasSuffix(got, "éé is missing") ||
			!strings.Contains(got, "bytes left out") || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %.40q ... %q", len(got), got, got[len(got)-40:])
		}
	}
}
