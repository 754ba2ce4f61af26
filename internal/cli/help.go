package cli

import (
	"context"
	"fmt"
	"strings"
)

// helpWidth is the width of help texts in columns. It does not depend on the terminal, so that help looks the same
// everywhere.
const helpWidth = 100

// help returns the text of `rlxrun --help`.
func (p *Program) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n", p.Short)
	if d := p.find(p.Default); d != nil {
		fmt.Fprintf(&b, "  %s %s\n", p.Name, d.Args)
	}
	fmt.Fprintf(&b, "  %s COMMAND [arguments]\n\nCommands:\n", p.Name)
	var rows [][]string
	for _, c := range p.all() {
		short := c.Short
		if c.Name == p.Default {
			short += fmt.Sprintf(" (%s FILE is short for %s %s FILE)", p.Name, p.Name, c.Name)
		}
		rows = append(rows, []string{"  " + c.Name, short})
	}
	_ = Table(&b, rows) // a strings.Builder returns no errors
	if d := p.find(p.Default); d != nil && len(d.Examples) > 0 {
		fmt.Fprintf(&b, "\nExample:\n  %s\n", d.Examples[0].Line)
	}
	fmt.Fprintf(&b, `
%s COMMAND --help explains a command. Every command takes --json.
Results go to stdout, everything else to stderr.

Exit status:
  0 ok              1 a check failed      2 wrong usage             3 bad source or input file
  4 bad artifact    5 backend             6 device                  7 unsupported op
  8 memory, disk    70 internal error     124 --timeout expired     128+N stopped by signal N (130: Ctrl-C)
`, p.Name)
	return b.String()
}

// commandHelp returns the text of, for example, `rlxrun run --help`.
func (p *Program) commandHelp(c *Command, fs *FlagSet, more string) string {
	var b strings.Builder
	text := c.Long
	if text == "" {
		text = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	name := c.Name
	if name == p.Default {
		name = "[" + name + "]"
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", Wrapped(text), strings.TrimSpace(p.Name+" "+name+" "+c.Args))
	if len(c.Examples) > 0 {
		b.WriteString("\nExamples:\n")
		for _, e := range c.Examples {
			fmt.Fprintf(&b, "  # %s\n  %s\n", e.About, e.Line)
		}
	}
	b.WriteString(fs.help())
	if more != "" {
		b.WriteString("\n" + strings.TrimRight(more, "\n") + "\n")
	}
	return b.String()
}

// Wrapped breaks text into lines of at most helpWidth columns. Indented lines are kept unchanged.
func Wrapped(text string) string {
	var lines []string
	open := false // whether words may be added to the last line
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, " ") {
			lines, open = append(lines, line), false
			continue
		}
		for _, word := range strings.Fields(line) {
			if last := len(lines) - 1; open && len(lines[last])+1+len(word) <= helpWidth {
				lines[last] += " " + word
			} else {
				lines, open = append(lines, word), true
			}
		}
	}
	return strings.Join(lines, "\n")
}

// runHelp runs `rlxrun help [COMMAND]` and `rlxrun --help`.
func (p *Program) runHelp(ctx context.Context, env *Env, args []string, fail func(error) int) int {
	if len(args) == 0 {
		fmt.Fprint(env.Stdout, p.help())
		return 0
	}
	name := strings.Join(args, " ")
	if group := p.group(name); p.find(name) == nil && len(group) > 0 {
		rows := [][]string{}
		for _, n := range group {
			rows = append(rows, []string{p.Name + " " + n, p.find(n).Short})
		}
		if err := env.Table(rows); err != nil {
			return fail(err)
		}
		return 0
	}
	if p.find(name) == nil {
		return fail(Usagef("help", "no command %q; commands are %s", name, strings.Join(p.names(), ", ")))
	}
	return p.Exec(ctx, append(strings.Fields(name), "--help"), env.Stdin, unprinted(env.Stdout), unprinted(env.Stderr))
}
