package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlx-go/rlx/core/diag"
)

// A Completer suggests values for a word that is being typed. It returns all values; the shell gets those that begin
// with the word. A value that ends in "=" or ":" is incomplete: no blank follows it. A tab may separate a value from
// its description. Without values, the shell suggests files.
type Completer func(ctx context.Context, line Line) []string

// Line is a command line that is being completed.
type Line struct {
	Args []string                 // arguments except flags, without the word
	Word string                   // the beginning of the word
	Flag func(name string) string // the value of another flag, or empty
}

// function returns a completer as cobra calls it.
func (c Completer) function() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		flag := func(name string) string {
			if f := cmd.Flags().Lookup(name); f != nil {
				return f.Value.String()
			}
			return ""
		}
		all := c(cmd.Context(), Line{args, word, flag})
		if len(all) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		var out []cobra.Completion
		directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		for _, v := range all {
			if !strings.HasPrefix(v, word) {
				continue
			}
			out = append(out, v) // printer replaces control characters
			v, _, _ = strings.Cut(v, "\t")
			if strings.HasSuffix(v, "=") || strings.HasSuffix(v, ":") {
				directive |= cobra.ShellCompDirectiveNoSpace
			}
		}
		return out, directive
	}
}

// completeFlags suggests the values of each Choice, and of the flags in values.
func completeFlags(cmd *cobra.Command, values map[string]Completer) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if c, ok := f.Value.(*Choice); ok {
			fixed(cmd, f.Name, c.allowed...)
		} else if v := values[f.Name]; v != nil {
			register(cmd, f.Name, v.function())
		}
	})
}

// fixed suggests the same values always.
func fixed(cmd *cobra.Command, flag string, values ...string) {
	register(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func register(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("BUG: " + err.Error())
	}
}

// resolveCompletion inserts the default command in a command line that is being completed. The last argument is the
// beginning of a word; if it is the first one, it may become a command.
func (t *tree) resolveCompletion(args []string, from int) []string {
	line := args[from:]
	lead := leading(line)
	switch {
	case lead >= len(line) || t.isCommand(line[lead]):
		return args
	case lead == len(line)-1 && !strings.HasPrefix(line[lead], "-"):
		return args
	}
	return slices.Insert(slices.Clone(args), from, t.program.Default)
}

// completionCommand prints the script that makes a shell complete commands, flags and values.
func completionCommand(p *Program, root func() *cobra.Command) *Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &Command{
		Name: "completion", Args: strings.Join(shells, "|"),
		Short: "print a script with which a shell completes commands",
		Long: fmt.Sprintf(`Prints a script with which a shell completes commands, flags and their values: methods and inputs of the artifact on the line,
backends, devices, error codes. Packages for Linux and Homebrew install the scripts. By hand:
  bash        %[1]s completion bash > ~/.local/share/bash-completion/completions/%[1]s
  zsh         %[1]s completion zsh > "${fpath[1]}/_%[1]s"
  fish        %[1]s completion fish > ~/.config/fish/completions/%[1]s.fish
  powershell  %[1]s completion powershell | Out-String | Invoke-Expression`, p.Name),
		Examples: []Example{{"in this shell only", "source <(" + p.Name + " completion bash)"}},
		Complete: func(_ context.Context, line Line) []string {
			if len(line.Args) > 0 {
				return nil
			}
			return slices.Clone(shells)
		},
		Setup: func(*FlagSet) Run {
			return func(_ context.Context, env *Env, args []string) error {
				if len(args) != 1 || !slices.Contains(shells, args[0]) {
					return Usagef("completion", "takes the name of a shell; allowed are %s", strings.Join(shells, ", "))
				}
				switch args[0] {
				case "bash":
					return root().GenBashCompletionV2(env.Stdout, true)
				case "zsh":
					return root().GenZshCompletion(env.Stdout)
				case "fish":
					return root().GenFishCompletion(env.Stdout, true)
				}
				return root().GenPowerShellCompletionWithDesc(env.Stdout)
			}
		},
	}
}

// completeCodes suggests the codes of errors.
func completeCodes(_ context.Context, line Line) []string {
	if len(line.Args) > 0 {
		return nil
	}
	var out []string
	for _, e := range diag.Entries() {
		out = append(out, string(e.Code)+"\t"+e.Title)
	}
	return out
}
