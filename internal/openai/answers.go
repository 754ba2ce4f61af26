package openai

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rlx-go/rlx/text"
)

func randomSeed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func randomID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// A body is an answer, or a part of one that is streamed.
type body struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int       `json:"index"`
	Message      *turn     `json:"message,omitempty"` // of an answer to a conversation
	Delta        *turn     `json:"delta,omitempty"`   // of a part of one
	Text         *string   `json:"text,omitempty"`    // of another completion
	LogProbs     *logProbs `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

type turn struct {
	Role    string     `json:"role,omitempty"`
	Content *string    `json:"content,omitempty"`
	Refusal *string    `json:"refusal"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

// logProbs has the form of chat completions in Content, and that of completions in the others.
type logProbs struct {
	Content []chosenLogProb  `json:"content,omitempty"`
	Tokens  []string         `json:"tokens,omitempty"`
	Values  []float32        `json:"token_logprobs,omitempty"`
	Top     []map[string]any `json:"top_logprobs,omitempty"`
	Offsets []int            `json:"text_offset,omitempty"`
}

type tokenLogProb struct {
	Token   string  `json:"token"`
	LogProb float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// A chosenLogProb is that of a token in a text, with the most probable ones in its place.
type chosenLogProb struct {
	tokenLogProb
	Top []tokenLogProb `json:"top_logprobs"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// add adds the tokens of a text. Those of a prompt count once, however many texts continue it.
func (u *usage) add(t *text.Result, first bool) {
	if first {
		u.Prompt += t.Prompt
		u.Details.Cached += t.Cached
	}
	u.Completion += len(t.Tokens)
	u.Total = u.Prompt + u.Completion
}

// finish returns the finish_reason of a text.
func finish(s text.Stop) *string {
	reason := "stop"
	if s == text.StopLength || s == text.StopContext {
		reason = "length"
	}
	return &reason
}

// chat answers a request for a chat completion.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, in *chatRequest) {
	err := in.check()
	var prompt text.Prompt
	if err == nil {
		prompt, err = s.encodeChat(r.Context(), in)
	}
	var grammar *text.Grammar
	if err == nil {
		grammar, err = s.chatGrammar(in)
	}
	if err != nil {
		failed(r.Context(), w, failureFor(err, "messages"))
		return
	}
	j := &job{server: s, w: w, input: "messages", chat: true, request: &in.common, prompts: [][]int{prompt.IDs},
		images: prompt.Images, logProbs: in.LogProbs, top: in.TopLogProbs, tools: in.callsTools(),
		one: in.Parallel != nil && !*in.Parallel, grammar: grammar,
		head: body{ID: randomID("chatcmpl-"), Object: "chat.completion"}}
	j.answer(r.Context())
}

func (s *Server) encodeChat(ctx context.Context, in *chatRequest) (text.Prompt, error) {
	var all []text.Message
	var count imageCount
	for i, m := range in.Messages {
		if m.Role == "" {
			return text.Prompt{}, refuse("messages", fmt.Sprintf("message %d has no role", i))
		}
		one, err := s.message(ctx, m, &count)
		if err != nil {
			return text.Prompt{}, err
		}
		all = append(all, one)
	}
	var tools []byte
	if in.callsTools() {
		var err error
		if tools, err = json.Marshal(in.Tools); err != nil {
			return text.Prompt{}, err
		}
	}
	prompt, err := text.EncodeMessages(s.model, all, tools)
	if errors.Is(err, text.ErrPrompt) && tools != nil {
		return prompt, refuse("tools", err.Error())
	}
	return prompt, err
}

// complete answers a request for a completion.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, in *completionRequest) {
	err := in.check()
	var t *text.Tokenizer
	if err == nil {
		t, err = text.NewTokenizer(s.model)
	}
	var ids [][]int
	if err == nil {
		ids, err = prompts(in.Prompt, t, "prompt", maxPrompts)
	}
	var grammar *text.Grammar
	if err == nil {
		grammar, err = s.grammar(&in.common)
	}
	if err != nil {
		failed(r.Context(), w, failureFor(err, "prompt"))
		return
	}
	if in.MaxTokens == nil {
		tokens := 16 // the API's default
		in.MaxTokens = &tokens
	}
	j := &job{server: s, w: w, input: "prompt", request: &in.common, prompts: ids, logProbs: in.LogProbs != nil,
		grammar: grammar,
		head:    body{ID: randomID("cmpl-"), Object: "text_completion"}}
	if in.LogProbs != nil {
		j.top = *in.LogProbs
	}
	for i := 0; in.Echo && i < len(ids); i++ {
		j.echo = append(j.echo, t.Decode(ids[i], true))
	}
	j.answer(r.Context())
}

// A job is the answer to a request.
type job struct {
	server   *Server
	w        http.ResponseWriter
	input    string // the parameter with the prompts
	chat     bool
	request  *common
	prompts  [][]int
	images   []*text.Image // of the only prompt
	logProbs bool
	top      int           // tokens beside each in logProbs
	tools    bool          // the answer may have calls of tools
	one      bool          // at most one
	grammar  *text.Grammar // of the answer, or nil
	echo     []string      // texts of the prompts, which the answer repeats; nil if it does not
	head     body

	mu     sync.Mutex // the texts of several choices come at the same time
	stream *stream    // nil until the first part is sent, or if the answer is not streamed
}

func (j *job) answer(ctx context.Context) {
	j.head.Created, j.head.Model = time.Now().Unix(), j.server.name
	facts, err := text.FactsOf(j.server.model)
	var o text.Options
	if err == nil {
		o, err = j.request.options(facts)
	}
	for i := 0; err == nil && i < len(j.prompts); i++ {
		err = facts.CheckPrompt(j.prompts[i])
	}
	if err != nil {
		failed(ctx, j.w, failureFor(err, j.input))
		return
	}
	o.Top, o.Grammar, o.Images = j.top, j.grammar, j.images
	choices, err := j.choices(ctx, o)
	if err != nil {
		j.fail(ctx, err)
		return
	}
	total := &recordOf(ctx).usage
	j.head.Choices = choices
	if !j.request.Stream {
		j.head.Usage = total
		answer(j.w, j.head)
		return
	}
	if j.request.StreamOpts != nil && j.request.StreamOpts.IncludeUsage {
		last := j.head
		last.Object, last.Choices, last.Usage = j.partObject(), []choice{}, total
		j.stream.send(last)
	}
	j.stream.end()
}

// choices continues each prompt as often as the request says, several at a time. The first error ends all.
func (j *job) choices(ctx context.Context, o text.Options) ([]choice, error) {
	n := j.request.choices()
	if len(j.prompts)*n > maxPrompts {
		return nil, refuse("n", fmt.Sprintf("makes more than %d choices of all prompts", maxPrompts))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]choice, len(j.prompts)*n)
	var all sync.WaitGroup
	var once sync.Once
	var failed error
	entered := make(chan struct{}) // the first choice is let in, or refused, for all
	for i := range out {
		all.Go(func() {
			client := Client{Name: recordOf(ctx).Client, Begun: i > 0}
			if i == 0 {
				client.Entered = func() { close(entered) }
			} else {
				select {
				case <-entered:
				case <-ctx.Done():
					return
				}
			}
			one := o
			one.Seed += uint64(i % n) // or they would be the same text
			var err error
			if out[i], err = j.choice(ctx, i, j.prompts[i/n], one, client); err != nil {
				once.Do(func() { failed = err })
				cancel(err)
			}
		})
	}
	all.Wait()
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return out, failed
}

// fail reports an error, within the stream if it has begun.
func (j *job) fail(ctx context.Context, err error) {
	f := failureFor(err, j.input)
	if j.stream == nil {
		failed(ctx, j.w, f)
		return
	}
	recordOf(ctx).Err = f.message
	j.stream.send(f.body())
}

func (j *job) partObject() string {
	if j.chat {
		return "chat.completion.chunk"
	}
	return j.head.Object
}

// choice continues a prompt, for the choice of number i.
func (j *job) choice(ctx context.Context, i int, prompt []int, o text.Options, client Client) (choice, error) {
	sent, offset, begun := 0, 0, false
	begin := func() { // sends what precedes the text
		empty := ""
		switch {
		case begun:
		case j.chat:
			j.part(choice{Index: i, Delta: &turn{Role: "assistant", Content: &empty}})
		case j.echo != nil:
			j.part(choice{Index: i, Text: &j.echo[i/j.request.choices()]})
		}
		begun = true
	}
	each := func(t text.Token) error {
		begin()
		c := choice{Index: i, LogProbs: j.logProbsOf([]text.Token{t}, offset)}
		j.setText(&c, t.Text, true)
		sent += len(t.Text)
		offset += utf8.RuneCountInString(t.Text)
		if t.Text == "" && c.LogProbs == nil {
			return nil
		}
		return j.part(c)
	}
	if j.request.Stream && !j.tools {
		o.Each = each
	}
	about := recordOf(ctx)
	t, err := j.server.engine.Generate(ctx, client, prompt, o)
	if err != nil {
		return choice{}, err
	}
	j.mu.Lock()
	about.add(t, i%j.request.choices() == 0)
	j.mu.Unlock()
	c := choice{Index: i, FinishReason: finish(t.Stop)}
	var calls []toolCall
	if j.tools {
		if calls, t.Text = toolCalls(t.Text, j.one); len(calls) > 0 {
			reason := "tool_calls"
			c.FinishReason = &reason
		}
	}
	if !j.request.Stream {
		if j.echo != nil {
			t.Text = j.echo[i/j.request.choices()] + t.Text
		}
		j.setText(&c, t.Text, false)
		if calls != nil {
			c.Message.Calls = calls
		}
		c.LogProbs = j.logProbsOf(t.Tokens, 0)
		return c, nil
	}
	begin()
	for k := range calls {
		calls[k].Index = &k
	}
	if calls != nil {
		j.part(choice{Index: i, Delta: &turn{Calls: calls}})
	}
	if rest := t.Text[min(sent, len(t.Text)):]; rest != "" {
		more := choice{Index: i}
		j.setText(&more, rest, true)
		j.part(more)
	}
	if j.chat {
		c.Delta = &turn{}
	} else {
		j.setText(&c, "", true)
	}
	if j.tools { // nothing was sent for each token
		c.LogProbs = j.logProbsOf(t.Tokens, 0)
	}
	return c, j.part(c)
}

// setText sets the text of a choice.
func (j *job) setText(c *choice, s string, part bool) {
	switch {
	case !j.chat:
		c.Text = &s
	case part:
		c.Delta = &turn{Content: &s}
	default:
		c.Message = &turn{Role: "assistant", Content: &s}
	}
}

// logProbsOf returns the logarithms of probabilities in the form of the request, or nil if they are not wanted. offset
// is that of the first token in the text, in characters.
func (j *job) logProbsOf(tokens []text.Token, offset int) *logProbs {
	if !j.logProbs {
		return nil
	}
	out := &logProbs{}
	for _, t := range tokens {
		if j.chat {
			one := chosenLogProb{logProbOf(t.Text, t.LogProb), []tokenLogProb{}}
			for _, x := range t.Top {
				one.Top = append(one.Top, logProbOf(j.server.tokenText(x.ID), x.LogProb))
			}
			out.Content = append(out.Content, one)
			continue
		}
		out.Tokens, out.Values = append(out.Tokens, t.Text), append(out.Values, t.LogProb)
		top := map[string]any{t.Text: t.LogProb}
		for _, x := range t.Top {
			top[j.server.tokenText(x.ID)] = x.LogProb
		}
		out.Top = append(out.Top, top)
		out.Offsets = append(out.Offsets, offset)
		offset += utf8.RuneCountInString(t.Text)
	}
	return out
}

func logProbOf(token string, p float32) tokenLogProb {
	bytes := []int{}
	for _, b := range []byte(token) {
		bytes = append(bytes, int(b))
	}
	return tokenLogProb{token, p, bytes}
}

// tokenText returns the text of a single token.
func (s *Server) tokenText(id int) string {
	t, err := text.NewTokenizer(s.model)
	if err != nil {
		return ""
	}
	return t.Decode([]int{id}, false)
}

func (j *job) part(c choice) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.head
	b.Object, b.Choices = j.partObject(), []choice{c}
	if j.stream == nil {
		j.stream = newStream(j.w)
	}
	return j.stream.send(b)
}

// A stream sends server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// writeTimeout is how long a client may take to read an event.
const writeTimeout = 30 * time.Second

func newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	return &stream{w, http.NewResponseController(w)}
}

func (s *stream) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.write("data: " + string(b) + "\n\n")
}

func (s *stream) write(event string) error {
	s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write([]byte(event)); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s *stream) end() error { return s.write("data: [DONE]\n\n") }
