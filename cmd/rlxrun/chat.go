package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/text"
)

// chatFlags are the flags of `rlxrun chat`.
type chatFlags struct {
	samplingFlags
	system     string
	tokens     int
	grammar    grammarFlags
	load, save string
	host       hostFlags
}

// chatTokens is the number of tokens of an answer if -n is not given.
const chatTokens = 1024

func chatCommand() *cli.Command {
	return &cli.Command{
		Name: "chat", Args: "MODEL.rlx [flags]", Short: "talk with a language model",
		Long: `Holds a conversation with a model that has a chat template. Each line is a message; a line that ends with a backslash
continues in the next. Ctrl-C stops an answer, and pressed twice at the prompt it ends the conversation, as Ctrl-D does. Lines may
also come from a file or pipe; answers are then all that is printed to standard output.
` + chatHelp,
		Examples: []cli.Example{
			{About: "a conversation that the next one continues",
				Line: "rlxrun chat llama.rlx --load talk.json --save talk.json"},
			{About: "questions from a file, answers to another",
				Line: "rlxrun chat llama.rlx --system \"Answer with one word.\" < questions.txt > answers.txt"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f chatFlags
			fs.Group("The conversation")
			fs.StringVar(&f.system, "system", "", "`TEXT` the system message")
			fs.StringVar(&f.load, "load", "", "`FILE` continue a conversation that --save or /save wrote")
			fs.StringVar(&f.save, "save", "", "`FILE` save the conversation at the end; may be the file of --load")
			fs.Group("Answers")
			fs.IntVarP(&f.tokens, "tokens", "n", chatTokens, "`N` at most N tokens for each answer")
			f.samplingFlags.declare(fs)
			f.grammar.declare(fs)
			f.host.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				switch {
				case env.JSON:
					return cli.Usagef("--format", "json is not for conversations; use rlxrun run --chat, or rlxrun serve")
				case f.tokens < 1:
					return cli.Usagef("-n", "%d tokens; allowed are 1 and more", f.tokens)
				case f.grammar.schema == "-" || f.grammar.grammar == "-":
					return cli.Usagef("--json-schema, --grammar", "cannot be stdin, which has the messages; name a file")
				}
				if err := f.grammar.settle(); err != nil {
					return err
				}
				return inSession(ctx, env, args, &f.host, new(debugFlags), func(ctx context.Context, s *session) error {
					return s.chat(ctx, &f)
				})
			}
		},
	}
}

const chatHelp = `
  /retry            answer the last message again, with other random numbers
  /edit [N] TEXT    replace message N, or your last one, and answer it; later messages are dropped
  /image FILE       an image for the next message (repeatable)
  /history          show the messages with their numbers
  /system [TEXT]    show or replace the system message
  /clear            begin anew; the system message stays
  /save FILE        save messages and the model's state
  /load FILE        continue a saved conversation
  /help             show this list
  /exit             end`

// A chat is a conversation in progress.
type chat struct {
	s        *session
	flags    *chatFlags
	facts    text.Facts
	options  text.Options
	g        *text.Generator
	lines    *cli.Lines
	system   string
	messages []text.Message // without the system message; yours and the model's in turns
	skipped  int            // of the first messages, which the model does not see any more
	images   []*text.Image  // of the next message
	names    map[*text.Image]string

	mu   sync.Mutex
	stop context.CancelCauseFunc // of the answer in progress, or nil
}

// errStopped is the cause of an answer that Ctrl-C has ended.
var errStopped = errors.New("stopped")

func (s *session) chat(ctx context.Context, f *chatFlags) (err error) {
	c := &chat{s: s, flags: f, system: f.system, names: map[*text.Image]string{}}
	if c.facts, err = text.FactsOf(s.model); err != nil {
		return err
	}
	sampling, err := f.samplingOf(c.facts)
	if err != nil {
		return err
	}
	c.options = text.Options{Sampling: &sampling, Seed: f.seed, Stop: f.stop.Values}
	if c.options.Grammar, err = f.grammar.read(ctx, s.env); err != nil {
		return err
	}
	if _, err := text.ChatPrompt(s.model, c.withSystem([]text.Message{{Role: "user", Content: "?"}})); err != nil {
		return err
	}
	inputs := f.grammar.files()
	if f.save != "" {
		s.outputs = append(s.outputs, f.save, statePath(f.save))
	}
	if f.load != "" && f.load != f.save {
		inputs = append(inputs, f.load, statePath(f.load))
	}
	if err := s.ready(ctx, nil, inputs); err != nil {
		return err
	}
	if c.g, err = text.NewGenerator(ctx, s.host); err != nil {
		return err
	}
	defer func() { c.g.Close() }()
	if f.load != "" {
		if err := c.load(ctx, f.load); err != nil {
			return err
		}
		if f.fs.Changed("system") {
			c.system = f.system
		}
	}
	c.lines = s.env.Lines(ctx)
	if c.lines.Terminal() {
		defer cli.OnInterrupt(c.interrupt)()
		s.env.Notef("%s; /help lists the commands, Ctrl-D ends", s.model.Facts().Name)
	}
	if err := c.loop(ctx); err != nil {
		return err
	}
	if f.save != "" {
		return c.save(ctx, f.save)
	}
	return nil
}

// interrupt ends the answer in progress. It returns false if no answer is in progress.
func (c *chat) interrupt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		return false
	}
	c.stop(errStopped)
	return true
}

// loop reads messages and commands until the end.
func (c *chat) loop(ctx context.Context) error {
	interrupted := false
	for {
		line, err := c.lines.Read(ctx, "> ")
		switch {
		case err == io.EOF || err == cli.ErrInterrupted && interrupted:
			return nil
		case err == cli.ErrInterrupted:
			c.s.env.Notef("Ctrl-C again, or Ctrl-D, ends")
			interrupted = true
			continue
		case err != nil:
			return err
		}
		interrupted = false
		over, err := c.do(ctx, line)
		switch {
		case over:
			return nil
		case err == nil:
		case !c.lines.Terminal() || ctx.Err() != nil || errors.Is(err, rlx.ErrLost):
			return err
		default:
			c.s.env.Notef("%v", err)
		}
	}
}

// do executes a line.
func (c *chat) do(ctx context.Context, line string) (over bool, err error) {
	command, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch command {
	case "":
		return false, nil
	case "/exit", "/quit":
		return true, nil
	case "/help":
		c.s.env.Notef("%s", "commands:")
		for l := range strings.Lines(strings.TrimSpace(chatHelp)) {
			c.s.env.Notef("%s", "  "+strings.TrimSpace(l))
		}
		return false, nil
	case "/history":
		c.history()
		return false, nil
	case "/system":
		if rest == "" {
			c.s.env.Notef("the system message is %q", c.system)
			return false, nil
		}
		c.system, c.skipped = rest, 0
		return false, nil
	case "/clear":
		c.messages, c.images, c.skipped = nil, nil, 0
		return false, nil
	case "/retry":
		return false, c.retry(ctx)
	case "/edit":
		return false, c.edit(ctx, rest)
	case "/save", "/load":
		if rest == "" {
			return false, cli.Usagef(command, "the file's name is missing")
		}
		if command == "/save" {
			return false, c.save(ctx, rest)
		}
		return false, c.load(ctx, rest)
	case "/image":
		return false, c.attach(ctx, rest)
	}
	if strings.HasPrefix(command, "/") && !strings.HasPrefix(command, "//") {
		return false, cli.Usagef(command, "no such command; /help lists them").WithHint(
			"a message that begins with / is written with //")
	}
	message := strings.TrimPrefix(line, "/")
	if !strings.HasPrefix(command, "//") {
		message = line
	}
	return false, c.ask(ctx, message)
}

// ask adds a message with the images that were given for it, and answers it. If that fails, the message is not part of
// the conversation, and the images are for the next one.
func (c *chat) ask(ctx context.Context, message string) error {
	before, images := c.messages, c.images
	c.messages = append(before[:len(before):len(before)], imageMessage(images, message))
	c.images = nil
	err := c.answer(ctx)
	if err != nil {
		c.messages, c.images = before, images
	}
	return err
}

// retry answers the last message again.
func (c *chat) retry(ctx context.Context) error {
	n := len(c.messages)
	if n < 2 {
		return cli.Usagef("/retry", "there is no answer yet")
	}
	before := c.messages
	c.messages = before[: n-1 : n-1]
	c.options.Seed++
	err := c.answer(ctx)
	if err != nil {
		c.messages = before
	}
	return err
}

// edit replaces a message and answers it.
func (c *chat) edit(ctx context.Context, rest string) error {
	n := len(c.messages) - 1 // its number; messages count from 1, and the last is the model's
	if first, more, ok := strings.Cut(rest, " "); ok {
		if k, err := atoi(first); err == nil {
			n, rest = k, strings.TrimSpace(more)
		}
	}
	switch {
	case rest == "":
		return cli.Usagef("/edit", "the new text is missing")
	case n < 1 || n > len(c.messages) || c.messages[n-1].Role != "user":
		return cli.Usagef("/edit", "message %d is not one of yours", n).WithHint("/history shows the numbers")
	}
	before, images, skipped := c.messages, c.images, c.skipped
	c.messages, c.skipped = before[:n-1:n-1], min(skipped, n-1)
	c.images = append(messageImages(before[n-1]), images...)
	err := c.ask(ctx, rest)
	if err != nil {
		c.messages, c.images, c.skipped = before, images, skipped
	}
	return err
}

func (c *chat) history() {
	if c.system != "" {
		c.s.env.Notef("system: %s", c.system)
	}
	for i, m := range c.messages {
		who, mark := "you", ""
		if m.Role != "user" {
			who = "model"
		}
		if i < c.skipped {
			mark = " (not seen any more)"
		}
		c.s.env.Notef("%d %s%s: %s%s", i+1, who, mark, c.listed(messageImages(m)), contentOf(m))
	}
	if len(c.images) > 0 {
		c.s.env.Notef("for the next message: %s", c.listed(c.images))
	}
}

// withSystem puts the system message before others.
func (c *chat) withSystem(messages []text.Message) []text.Message {
	if c.system == "" {
		return messages
	}
	return append([]text.Message{{Role: "system", Content: c.system}}, messages...)
}

// answer lets the model answer the last message, and prints the answer.
func (c *chat) answer(ctx context.Context) error {
	out, _ := c.s.env.Exact()
	answering, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.lines.Terminal() {
		c.setStop(cancel)
		defer c.setStop(nil)
	}
	said, left, unfinished := "", c.flags.tokens, false
	for {
		rest, err := c.prompt(ctx, said, left)
		if err != nil {
			return err
		}
		o := c.options
		o.Tokens, o.Images = left, rest.Images
		printed := 0
		o.Each = func(t text.Token) error {
			printed += len(t.Text)
			_, err := io.WriteString(out, t.Text)
			return err
		}
		r, err := c.g.Generate(answering, rest.IDs, o)
		if failed := c.recover(ctx, err); failed != nil {
			return failed
		}
		stopped := err != nil && context.Cause(answering) == errStopped
		if r == nil {
			if !stopped {
				return err
			}
			r = &text.Result{Stop: text.StopCancelled}
		}
		io.WriteString(out, r.Text[printed:])
		said, left, unfinished = said+r.Text, left-len(r.Tokens), r.Unfinished
		if errors.Is(err, text.ErrContext) && len(r.Tokens) > 0 && left > 0 && c.options.Grammar == nil && c.drop() {
			continue
		}
		io.WriteString(out, "\n")
		switch {
		case stopped:
			c.s.env.Notef("stopped")
		case errors.Is(err, text.ErrContext) && r.Stop == text.StopContext:
			c.s.env.Notef("the context of %d tokens is full; the answer ends here", c.facts.Context)
		case err != nil:
			return err
		case r.Stop == text.StopLength:
			c.s.env.Notef("the answer ends after %d tokens (-n)", c.flags.tokens)
		}
		c.messages = append(c.messages, text.Message{Role: "assistant", Content: said})
		if unfinished {
			c.s.env.Notef("the answer ended within its grammar, so it does not parse")
		}
		return nil
	}
}

func (c *chat) setStop(f context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop = f
}

// recover makes a new state if a run had to be cancelled, which invalidates the old one.
func (c *chat) recover(ctx context.Context, err error) error {
	if !errors.Is(err, rlx.ErrState) {
		return nil
	}
	c.g.Close()
	g, err := text.NewGenerator(ctx, c.s.host)
	if err == nil {
		c.g = g
	}
	return err
}

// prompt returns the part of the prompt that must be computed before an answer that begins with said and may have left
// more tokens. If the context has no room, the first messages are dropped.
func (c *chat) prompt(ctx context.Context, said string, left int) (text.Prompt, error) {
	for {
		p, err := text.EncodeAnswer(c.s.model, c.withSystem(c.messages[c.skipped:]), nil, said)
		if err != nil {
			return p, err
		}
		if len(p.IDs)+min(left, c.facts.Context/4) > c.facts.Context && c.drop() {
			continue
		}
		if err := c.facts.CheckPrompt(p.IDs); err != nil {
			return p, err
		}
		if rest, ok := c.g.After(p); ok {
			return rest, nil
		}
		return p, c.g.Reset(ctx)
	}
}

// drop leaves out the first message that the model still sees, with its answer. The last message stays.
func (c *chat) drop() bool {
	if c.skipped+2 >= len(c.messages) {
		return false
	}
	c.s.env.Notef("the context of %d tokens is full: messages %d and %d are not seen any more", c.facts.Context,
		c.skipped+1, c.skipped+2)
	c.skipped += 2
	return true
}

func atoi(s string) (n int, err error) {
	_, err = fmt.Sscanf(s+"\n", "%d\n", &n)
	return n, err
}
