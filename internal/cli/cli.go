// Package cli implements what the commands rlxc and rlxrun share: a table of subcommands, flags and help texts, errors
// with codes and exit statuses, text and JSON output, and signals.
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
	"slices"
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
	JSON    bool      // --format json or --json
	Quiet   bool      // --quiet: no progress and no closing line; errors are still printed
	Verbose bool      // --verbose: errors are followed by diag.Error.More
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

// WriteJSON writes v to stdout, indented.
func (e *Env) WriteJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
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
	helpFor := ""
	fail := func(err error) int { return env.report(ctx, err, helpFor) }
	defer func() {
		if status == 0 && out.err != nil {
			status = fail(out.err)
		}
	}()
	defer catch(env, &status)
	if err := checkHost(); err != nil {
		return fail(err)
	}
	name, rest, err := p.split(args)
	if err != nil {
		env.JSON = asksForJSON(args)
		return fail(err)
	}
	if name == "" {
		fmt.Fprint(stderr, p.help())
		return diag.Usage.Exit()
	}
	if name == "help" {
		return p.runHelp(ctx, env, rest, fail)
	}
	cmd := p.find(name)
	helpFor = " " + cmd.Name
	fs := newFlagSet(cmd.Name)
	run := cmd.Setup(fs)
	shared := fs.shared()
	perr := fs.parse(rest)
	env.JSON = shared.format == "json" || shared.json || perr != nil && asksForJSON(rest)
	env.Quiet, env.Verbose = shared.quiet, shared.verbose
	if shared.help {
		more := ""
		if cmd.MoreHelp != nil {
			if more, err = cmd.MoreHelp(ctx, env, fs.Args()); err != nil {
				return fail(err)
			}
		}
		fmt.Fprint(env.Stdout, p.commandHelp(cmd, fs, more))
		return 0
	}
	if perr == nil {
		perr = shared.check(fs)
	}
	if perr != nil {
		return fail(perr)
	}
	if err := run(ctx, env, fs.Args()); err != nil {
		return fail(err)
	}
	return 0
}

// split finds the command that args name and returns the remaining arguments. If the first word is not a command but
// looks like a file (it exists, or contains a dot or a slash), or args begin with a flag, the default command gets all
// of them. --format, --json, --quiet and --verbose may precede the name.
func (p *Program) split(args []string) (name string, rest []string, err error) {
	lead := leading(args)
	if lead >= len(args) {
		return "", nil, nil
	}
	word, tail := args[lead], args[lead+1:]
	with := func(tail []string) []string { return append(slices.Clone(args[:lead]), tail...) }
	switch {
	case word == "--help" || word == "-h" || word == "help":
		return "help", tail, nil
	case word == "--version" || word == "-V":
		return "version", with(tail), nil
	case strings.HasPrefix(word, "-") && len(word) > 1:
		return p.Default, args, nil
	case len(tail) > 0 && p.find(word+" "+tail[0]) != nil:
		return word + " " + tail[0], with(tail[1:]), nil
	case p.find(word) != nil:
		return word, with(tail), nil
	}
	if group := p.group(word); len(group) > 0 {
		if len(tail) == 0 || tail[0] != "--help" && tail[0] != "-h" {
			return "", nil, secondWord(word, tail, group)
		}
		if len(group) == 1 {
			return group[0], with(tail), nil
		}
		return "help", []string{word}, nil
	}
	if _, err := os.Stat(word); err == nil || strings.ContainsAny(word, "./") {
		return p.Default, args, nil
	}
	return "", nil, p.unknown(word, tail)
}

// leading returns the number of arguments that may precede the name of a command.
func leading(args []string) int {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--format" && i+1 < len(args):
			i++ // its value
		case strings.HasPrefix(a, "--format=") ||
			slices.Contains([]string{"--json", "--quiet", "-q", "--verbose", "-v"}, a):
		default:
			return i
		}
	}
	return len(args)
}

// secondWord returns the error for a command of two words, of which the second is missing or unknown.
func secondWord(word string, tail, group []string) error {
	e := Usagef(word, "a second word is missing or unknown; allowed are %s", strings.Join(group, ", "))
	if len(tail) > 0 {
		if near := Nearest(word+" "+tail[0], group); near != "" {
			e.WithHint("did you mean %q?", near)
		}
	}
	return e
}

// unknown returns the error for a word that is neither a command nor a file.
func (p *Program) unknown(word string, tail []string) error {
	e := Usagef("", "unknown command %q, and no such file; commands are %s", word, strings.Join(p.names(), ", "))
	near := Nearest(word, p.names())
	if near == "" && len(tail) > 0 {
		near = Nearest(word+" "+tail[0], p.names())
	}
	if near != "" {
		e.WithHint("did you mean %q?", near)
	}
	return e
}

// asksForJSON reports whether a command line that could not be parsed contains --json or --format json.
func asksForJSON(args []string) bool {
	for i, a := range args {
		if a == "--json" || a == "--format=json" || a == "--format" && i+1 < len(args) && args[i+1] == "json" {
			return true
		}
	}
	return false
}

// all returns the program's own commands and those that every program has.
func (p *Program) all() []*Command {
	return append(slices.Clone(p.Commands), explainCommand(p), versionCommand(p))
}

func (p *Program) find(name string) *Command {
	for _, c := range p.all() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (p *Program) names() []string {
	var out []string
	for _, c := range p.all() {
		out = append(out, c.Name)
	}
	return out
}

// group returns the two-word commands that begin with word.
func (p *Program) group(word string) []string {
	var out []string
	for _, n := range p.names() {
		if strings.HasPrefix(n, word+" ") {
			out = append(out, n)
		}
	}
	return out
}
