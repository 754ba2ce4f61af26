// Package cli implements what the commands rlxc and rlxrun share: help texts, errors with codes and exit statuses, text
// and JSON output, and signals. Commands, flags and completion in shells are those of cobra.
//
// It imports only core/diag and internal/ctxio, so each command links only the packages that it needs.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/rlx-go/rlx/core/diag"
)

// start is the time at which the process began to run Go code; see Started.
var start = time.Now()

// Program is one executable with its subcommands.
type Program struct {
	Name  string // such as "rlxrun"
	Short string // what it does, in one sentence
	// Default is the command to run if the first argument is a file: `rlxrun FILE` means `rlxrun run FILE`.
	Default  string
	Commands []*Command
	// Values suggest values to the shell for the flags of these names, in all commands.
	Values map[string]Completer
	// Versions are printed by `version` after the program's own, for example {"artifact format", "1.0"}.
	Versions []Version
}

// Version is the name of a component and its version.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Command is one subcommand.
type Command struct {
	Name     string // such as "run", or two words such as "plugins list"
	Args     string // arguments in the synopsis, such as "FILE [flags]"
	Short    string // one line, for the list of commands
	Long     string // description for --help; may be empty
	Examples []Example
	// Setup declares the flags and returns the function to run. --format, --json, --quiet and --help are already
	// declared.
	Setup func(fs *FlagSet) Run
	// MoreHelp, if not nil, returns text for the end of --help that depends on the arguments, such as the methods of an
	// artifact. args are the arguments except flags.
	MoreHelp func(ctx context.Context, env *Env, args []string) (string, error)
	// Complete, if not nil, suggests arguments to the shell. Without it, the shell suggests files.
	Complete Completer

	// JSONLines allows --format jsonl.
	JSONLines bool

	hidden bool // from lists of commands
}

// Run runs a command. args are the arguments except flags.
type Run func(ctx context.Context, env *Env, args []string) error

// Example is a command line in a help text.
type Example struct{ About, Line string }

// Env is the environment of a command: its streams and shared flags.
type Env struct {
	Program string // such as "rlxrun"
	Stdin   io.Reader
	Stdout  io.Writer // results as text; replaces control characters, see Binary
	Stderr  io.Writer // everything else, as text
	JSON    bool      // --format json or --json, or jsonl
	Quiet   bool      // --quiet: no progress and no closing line; errors are still printed
	Verbose bool      // --verbose: errors are followed by diag.Error.More
	// JSONLines is set by --format jsonl: WriteJSON writes each value on a line of its own.
	JSONLines bool
}

// Binary returns standard output for data that is not text, such as an image.
func (e *Env) Binary() io.Writer { return unprinted(e.Stdout) }

// Exact returns standard output for text that must reach a file or pipe unchanged. If standard output is a terminal,
// terminal is true and control characters are replaced as in Stdout.
func (e *Env) Exact() (w io.Writer, terminal bool) {
	if c, ok := unprinted(e.Stdout).(*checked); ok {
		if f, ok := c.to.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return e.Stdout, true
		}
	}
	return unprinted(e.Stdout), false
}

// WriteJSON writes v to stdout, indented unless JSONLines is set.
func (e *Env) WriteJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	if !e.JSONLines {
		enc.SetIndent("", "  ")
	}
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := e.Stdout.Write(printableJSON(b.Bytes()))
	return err
}

// Table writes rows in aligned columns to stdout. The first row is the header.
func (e *Env) Table(rows [][]string) error { return Table(e.Stdout, rows) }

// Table writes rows in aligned columns, two spaces apart, without trailing blanks. Control characters in cells are
// replaced.
func Table(w io.Writer, rows [][]string) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = diag.Printable(c)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	tw.Flush()
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// Notef writes a line to stderr unless --quiet was given. Control characters are replaced.
func (e *Env) Notef(format string, args ...any) {
	if !e.Quiet {
		fmt.Fprintln(e.Stderr, diag.Printable(fmt.Sprintf(format, args...)))
	}
}

// Usagef returns a usage error.
func Usagef(subject, format string, args ...any) *diag.Error {
	return diag.New(diag.Usage, subject, format, args...)
}

// Exec runs the command line args (without the program's name) and returns the exit status. Main calls it with the
// process's streams, tests with their own.
func (p *Program) Exec(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	out := newChecked(ctx, stdout)
	env := &Env{Program: p.Name, Stdin: stdin, Stdout: &printer{w: out}, Stderr: &printer{w: stderr}}
	defer func() {
		if status == 0 && out.err != nil {
			status = env.report(ctx, out.err, "")
		}
	}()
	defer catch(env, &status)
	if err := checkHost(); err != nil {
		return env.report(ctx, err, "")
	}
	t := newTree(p, env)
	of, err := t.execute(ctx, args)
	if err == nil {
		return 0
	}
	if !t.began {
		env.JSON = asksForJSON(args)
	}
	if err == errNoCommand {
		fmt.Fprint(stderr, t.help())
		return diag.Usage.Exit()
	}
	return env.report(ctx, err, of)
}

// asksForJSON reports whether a command line that could not be parsed contains --json or --format json.
func asksForJSON(args []string) bool {
	for i, a := range args {
		value, ok := strings.CutPrefix(a, "--format=")
		if a == "--format" && i+1 < len(args) {
			value, ok = args[i+1], true
		}
		if a == "--json" || ok && (value == "json" || value == "jsonl") {
			return true
		}
	}
	return false
}
