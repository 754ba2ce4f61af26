package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errNoCommand is the error of a command line without a command.
var errNoCommand = errors.New("no command")

// manuals returns the command that writes manual pages; nil unless the program was built with the tag man.
var manuals func(*Program) *Command

// tree is a program as commands of cobra, for one execution.
type tree struct {
	program  *Program
	env      *Env
	commands []*Command // those of the program, and those that every program has
	root     *cobra.Command
	shared   sharedFlags
	lines    map[*cobra.Command]bool // those with Command.JSONLines
	began    bool                    // whether the flags were valid, so that env is complete
	helpErr  error                   // of a help text
}

func newTree(p *Program, env *Env) *tree {
	t := &tree{program: p, env: env, lines: map[*cobra.Command]bool{}}
	t.commands = append(slices.Clone(p.Commands), explainCommand(p),
		completionCommand(p, func() *cobra.Command { return t.root }), versionCommand(p))
	if manuals != nil {
		t.commands = append(t.commands, manuals(p))
	}
	t.root = &cobra.Command{
		Use: p.Name, Short: p.Short, SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs, RunE: func(*cobra.Command, []string) error { return errNoCommand },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	t.root.SetIn(env.Stdin)
	t.root.SetOut(env.Stdout)
	t.root.SetErr(env.Stderr)
	t.root.SetHelpFunc(func(*cobra.Command, []string) { fmt.Fprint(env.Stdout, t.help()) })
	t.root.SetHelpCommand(t.helpCommand())
	t.root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if help, _ := cmd.Flags().GetBool("help"); help {
			return pflag.ErrHelp
		}
		return parseError(cmd.Flags(), err)
	})
	t.shared.declare(t.root.PersistentFlags())
	register(t.root, "format", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		values := []string{"text", "json"}
		if t.lines[cmd] {
			values = append(values, "jsonl")
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	})
	for _, c := range t.commands {
		parent := t.root
		if word, _, two := strings.Cut(c.Name, " "); two {
			parent = t.group(word)
		}
		parent.AddCommand(t.command(c))
	}
	return t
}

// group returns the parent of the commands of two words that begin with word.
func (t *tree) group(word string) *cobra.Command {
	for _, c := range t.root.Commands() {
		if c.Name() == word {
			return c
		}
	}
	c := &cobra.Command{Use: word, Short: "commands about " + word, Args: cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE:               func(_ *cobra.Command, args []string) error { return t.secondWord(word, args) }}
	c.SetHelpFunc(func(*cobra.Command, []string) { fmt.Fprint(t.env.Stdout, t.groupHelp(word)) })
	t.root.AddCommand(c)
	return c
}

// command returns a command as one of cobra.
func (t *tree) command(c *Command) *cobra.Command {
	name := c.Name[strings.LastIndexByte(c.Name, ' ')+1:]
	cmd := &cobra.Command{Use: strings.TrimSpace(name + " " + c.Args), DisableFlagsInUseLine: true,
		Short: c.Short, Hidden: c.hidden, Long: Wrapped(c.long()),
		Example: strings.TrimSuffix(c.examples(), "\n"), Args: cobra.ArbitraryArgs}
	cmd.Flags().SortFlags = false
	t.lines[cmd] = c.JSONLines
	fs := &FlagSet{FlagSet: cmd.Flags()}
	run := c.Setup(fs)
	fs.Group("General") // followed by the flags of the root
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := t.shared.check(cmd.Flags(), c.JSONLines); err != nil {
			return err
		}
		t.began = true
		t.env.JSONLines = t.shared.format == "jsonl"
		t.env.JSON = t.shared.format == "json" || t.shared.json || t.env.JSONLines
		t.env.Quiet, t.env.Verbose = t.shared.quiet, t.shared.verbose
		return run(cmd.Context(), t.env, args)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		more := ""
		if c.MoreHelp != nil {
			if more, t.helpErr = c.MoreHelp(cmd.Context(), t.env, fs.Args()); t.helpErr != nil {
				return
			}
		}
		fmt.Fprint(t.env.Stdout, t.commandHelp(c, fs, more))
	})
	completeFlags(cmd, t.program.Values)
	if c.Complete != nil {
		cmd.ValidArgsFunction = c.Complete.function()
	}
	return cmd
}

// helpCommand returns `rlxrun help [COMMAND]`.
func (t *tree) helpCommand() *cobra.Command {
	return &cobra.Command{Use: "help", Hidden: true, RunE: func(_ *cobra.Command, args []string) error {
		cmd, rest, err := t.root.Find(args)
		if err != nil || len(rest) > 0 {
			return Usagef("help", "no command %q; commands are %s", strings.Join(args, " "),
				strings.Join(t.names(), ", "))
		}
		cmd.InitDefaultHelpFlag() // adds the flags of the root, too
		cmd.HelpFunc()(cmd, nil)
		return t.helpErr
	}}
}

// execute runs a command line. of is the command that was found, with a blank before it.
func (t *tree) execute(ctx context.Context, args []string) (of string, err error) {
	if args, err = t.resolve(args); err != nil {
		return "", err
	}
	t.root.SetArgs(args)
	cmd, err := t.root.ExecuteContextC(ctx)
	if err == nil {
		err = t.helpErr
	}
	return strings.TrimPrefix(cmd.CommandPath(), t.program.Name), err
}

// resolve inserts the default command where args begin with a file or a flag of it. --format, --json, --quiet and
// --verbose may precede a command.
func (t *tree) resolve(args []string) ([]string, error) {
	lead := leading(args)
	if lead >= len(args) {
		return args, nil
	}
	word := args[lead]
	insert := func(command string, at int) []string { return slices.Insert(slices.Clone(args), at, command) }
	switch {
	case word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd:
		return t.resolveCompletion(args, lead+1), nil
	case word == "--help" || word == "-h":
		return insert("help", 0), nil
	case word == "--version" || word == "-V":
		return slices.Concat(args[:lead], []string{"version"}, args[lead+1:]), nil
	case strings.HasPrefix(word, "-") && len(word) > 1:
		return insert(t.program.Default, 0), nil
	}
	if word == "help" || t.isCommand(word) {
		return args, nil
	}
	if _, err := os.Stat(word); err == nil || strings.ContainsAny(word, "./") {
		return insert(t.program.Default, 0), nil
	}
	return nil, t.unknown(word, args[lead+1:])
}

// isCommand reports whether word is a command or the first word of some.
func (t *tree) isCommand(word string) bool {
	return slices.ContainsFunc(t.root.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
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
func (t *tree) secondWord(word string, tail []string) error {
	group := slices.DeleteFunc(t.names(), func(n string) bool { return !strings.HasPrefix(n, word+" ") })
	e := Usagef(word, "a second word is missing or unknown; allowed are %s", strings.Join(group, ", "))
	if len(tail) > 0 {
		if near := Nearest(word+" "+tail[0], group); near != "" {
			e.WithHint("did you mean %q?", near)
		}
	}
	return e
}

// unknown returns the error for a word that is neither a command nor a file.
func (t *tree) unknown(word string, tail []string) error {
	names := t.names()
	e := Usagef("", "unknown command %q, and no such file; commands are %s", word, strings.Join(names, ", "))
	near := Nearest(word, names)
	if near == "" && len(tail) > 0 {
		near = Nearest(word+" "+tail[0], names)
	}
	if near != "" {
		e.WithHint("did you mean %q?", near)
	}
	return e
}

func (t *tree) byName(name string) *Command {
	if i := slices.IndexFunc(t.commands, func(c *Command) bool { return c.Name == name }); i >= 0 {
		return t.commands[i]
	}
	return nil
}

func (t *tree) names() []string {
	var out []string
	for _, c := range t.commands {
		out = append(out, c.Name)
	}
	return out
}
