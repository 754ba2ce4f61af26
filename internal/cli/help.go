package cli

import (
	"fmt"
	"strings"
)

// helpWidth is the width of help texts in columns. It does not depend on the terminal, so that help looks the same
// everywhere.
const helpWidth = 100

// help returns the text of `rlxrun --help`.
func (t *tree) help() string {
	p := t.program
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n", p.Short)
	def := t.byName(p.Default)
	if def != nil {
		fmt.Fprintf(&b, "  %s %s\n", p.Name, def.Args)
	}
	fmt.Fprintf(&b, "  %s COMMAND [arguments]\n\nCommands:\n", p.Name)
	var rows [][]string
	for _, c := range t.commands {
		short := c.Short
		if c.Name == p.Default {
			short += fmt.Sprintf(" (%s FILE is short for %s %s FILE)", p.Name, p.Name, c.Name)
		}
		rows = append(rows, []string{"  " + c.Name, short})
	}
	_ = Table(&b, rows) // a strings.Builder returns no errors
	if def != nil && len(def.Examples) > 0 {
		fmt.Fprintf(&b, "\nExample:\n  %s\n", def.Examples[0].Line)
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

// groupHelp returns the text of, for example, `rlxrun plugins --help`.
func (t *tree) groupHelp(word string) string {
	var rows [][]string
	for _, c := range t.commands {
		if strings.HasPrefix(c.Name, word+" ") {
			rows = append(rows, []string{t.program.Name + " " + c.Name, c.Short})
		}
	}
	var b strings.Builder
	_ = Table(&b, rows)
	return b.String()
}

// commandHelp returns the text of, for example, `rlxrun run --help`.
func (t *tree) commandHelp(c *Command, fs *FlagSet, more string) string {
	var b strings.Builder
	name := c.Name
	if name == t.program.Default {
		name = "[" + name + "]"
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", Wrapped(c.long()), strings.TrimSpace(t.program.Name+" "+name+" "+c.Args))
	if len(c.Examples) > 0 {
		b.WriteString("\nExamples:\n" + c.examples())
	}
	b.WriteString(fs.help())
	if more != "" {
		b.WriteString("\n" + strings.TrimRight(more, "\n") + "\n")
	}
	return b.String()
}

// long returns the description, or the line of the list of commands as a sentence.
func (c *Command) long() string {
	if c.Long != "" {
		return c.Long
	}
	return strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
}

func (c *Command) examples() string {
	var b strings.Builder
	for _, e := range c.Examples {
		fmt.Fprintf(&b, "  # %s\n  %s\n", e.About, e.Line)
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
