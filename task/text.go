package task

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// KindText is the kind of a Text in artifacts.
const KindText = "text"

var _ = Register(KindText, func() Task { return &Text{} })

// A layer with a LoRA adapter has two more weights. Their names are the name of the layer and one of these suffixes.
const (
	LoraA = ".lora_A" // f32[rank,in]
	LoraB = ".lora_B" // f32[out,rank]
)

// A Text describes text generation: a method maps token ids to the next token, and keeps a cache in a state from run to
// run. Package text runs it.
//
// One method appends 1 to Chunk tokens to the tokens in a state, and chooses the token that follows the last of them:
//
//	input_ids i64[1,T], position i32[] (tokens seen before), temperature f32[], top_k i32[], top_p f32[], min_p f32[],
//	repeat_penalty f32[], recent i64[R] (tokens that repeat_penalty applies to), seed u32[2], step u32[2] ->
//	logits f32[1,Vocabulary] (of the token after the last), token i32[1] (drawn by the sampling parameters),
//	logprob f32[1] (of token, in log_softmax(logits)), greedy i32[1] (the most probable token, the first of several),
//	greedy_logprob f32[1] (of greedy)
//
// with T from 1 to Chunk and R from 1 to Window. greedy and greedy_logprob are optional.
type Text struct {
	Method  string      `json:"method"` // "extend"
	Inputs  TextInputs  `json:"inputs"`
	Outputs TextOutputs `json:"outputs"`
	// Batch describes a method for several sequences at a time. The zero value means that the model has no such method.
	Batch TextBatch `json:"batch"`
	// Draft describes a head that drafts tokens, which the model then checks together in one run. The zero value means
	// that the model has no such head.
	Draft TextDraft `json:"draft"`
	// Images describes methods for images in a text. The zero value means that the model takes none.
	Images TextImages `json:"images"`
	// Slide describes how to make room in a full state, for models that attend to a window of the last tokens. The zero
	// value means that a full state stays full.
	Slide TextSlide `json:"slide"`

	Vocabulary int `json:"vocabulary"` // ids are less than this
	Context    int `json:"context"`    // rows of a state: the maximum number of tokens in it
	Chunk      int `json:"chunk"`      // maximum number of tokens per run
	Window     int `json:"window"`     // maximum number of tokens that repeat_penalty applies to

	// Tokenizer and ChatTemplate name attachments: a tokenizer.json of the Hugging Face library tokenizers, and a Jinja
	// template that turns a conversation into a prompt. They are empty if the artifact has none.
	Tokenizer    string `json:"tokenizer"`
	ChatTemplate string `json:"chat_template"`
	// BOS and EOS are the texts of the tokens that templates call bos_token and eos_token.
	BOS string `json:"bos"`
	EOS string `json:"eos"`
	// End lists the ids that end a text.
	End []int `json:"end"`
	// Sampling holds the parameters that the authors of the model recommend.
	Sampling Sampling `json:"sampling"`
}

// TextInputs holds the names of the inputs of the method.
type TextInputs struct {
	IDs           string `json:"input_ids"`
	MinP          string `json:"min_p"`
	Position      string `json:"position"`
	Recent        string `json:"recent"`
	RepeatPenalty string `json:"repeat_penalty"`
	Seed          string `json:"seed"`
	Step          string `json:"step"`
	Temperature   string `json:"temperature"`
	TopK          string `json:"top_k"`
	TopP          string `json:"top_p"`
}

// TextOutputs holds the names of the outputs of the method. It may have others.
type TextOutputs struct {
	// Greedy and GreedyLogProb hold what Token and LogProb would for a temperature of 0 and no penalty, but cost no
	// random numbers and no penalties. Both are empty in artifacts that were compiled before these outputs existed.
	Greedy        string `json:"greedy"`
	GreedyLogProb string `json:"greedy_logprob"`
	// Hidden f32[1,T,W] has the input of the last layer for each token: an embedding of the tokens up to it. It is
	// empty if there is no such output.
	Hidden  string `json:"hidden"`
	LogProb string `json:"logprob"`
	Logits  string `json:"logits"`
	Token   string `json:"token"`
}

// TextDraft describes a head that predicts one more token from the last hidden state of the model. It keeps its keys
// and values in the states of the model.
//
//	Method: Hidden f32[1,T,W], input_ids i64[1,T] (the tokens that follow those of Hidden), position i32[] ->
//	Token i32[1] (the most probable one after the last), Hidden f32[1,1,W] (to go on with)
//	Text.Method, beside its other outputs ->
//	Choices i32[1,T] (the most probable token after each), LogProbs f32[1,T] (of these), Hidden f32[1,T,W]
type TextDraft struct {
	Choices  string `json:"choices"`
	Hidden   string `json:"hidden"`
	LogProbs string `json:"logprobs"`
	Method   string `json:"method"`
	// Rewind names a method that replaces the states without positions, to undo the changes of a run. An input has the
	// name of its state after StatePrefix. Empty if there are no such states.
	Rewind string `json:"rewind"`
	Token  string `json:"token"`
}

// TextBatch describes a method like Text.Method for B sequences of a state, B from 1 to Sequences, each with its own
// length and parameters. All inputs and outputs have the axis B: input_ids i64[B,T], position i32[B], temperature
// f32[B], recent i64[B,R], seed u32[B,2] and so on. It also takes Count i32[B], the number of valid tokens of each
// sequence, 1 to T, and Sequence i32[B], which sequences of the state these are, all different.
//
// Move: From i32[], To i32[], Row i32[] (copies Rows rows, from Row on, of one sequence of the state over another's)
//
// If the state is in pages, which sequences may share, Pages is set and Sequence and Row are empty. The method then takes
// Pages i32[B,P] in place of Sequence, the pages with the rows of each sequence, where P pages of Rows rows hold Context
// rows. Move copies a whole page, From, to another, To. The state has PageCount pages, of which one belongs to no sequence.
//
// In artifacts that were compiled before these inputs existed, Sequence and Row are empty. The method then takes the
// first B sequences and one value of each sampling parameter, and Move copies all rows.
type TextBatch struct {
	Count     string `json:"count"`
	From      string `json:"from"`
	Method    string `json:"method"`
	Move      string `json:"move"`
	PageCount int    `json:"page_count"`
	Pages     string `json:"pages"`
	Row       string `json:"row"`
	Rows      int    `json:"rows"`
	Sequence  string `json:"sequence"`
	Sequences int    `json:"sequences"`
	To        string `json:"to"`
}

// PerSequence returns the number of pages of a sequence.
func (t *Text) PerSequence() int { return (t.Context + t.Batch.Rows - 1) / t.Batch.Rows }

// TextSlide describes a method that moves the last Keep rows of a full state to the front.
//
//	Method: First i32[] (the first of these rows)
//
// Text.Method then takes Dropped i32[] too, the number of rows dropped so far. Position still counts all tokens.
type TextSlide struct {
	Dropped string `json:"dropped"`
	First   string `json:"first"`
	Keep    int    `json:"keep"` // less than Context; Chunk more tokens fit after these rows
	Method  string `json:"method"`
}

// StatePrefix precedes the name of a state in the name of the input of TextDraft.Rewind that replaces it.
const StatePrefix = "new."

// Sampling holds the parameters for drawing a token. The zero value chooses the most probable one.
type Sampling struct {
	Temperature float64 `json:"temperature"` // divides the logits; 0 always chooses the most probable token
	TopK        int     `json:"top_k"`       // chooses among the TopK most probable tokens; 0 means all
	// chooses among the most probable tokens whose probabilities add up to TopP; 0 and 1 mean all
	TopP float64 `json:"top_p"`
	// chooses among tokens with at least MinP times the highest probability; 0 means all
	MinP float64 `json:"min_p"`
	// RepeatPenalty divides positive logits, and multiplies negative ones, of tokens that are among the last
	// Text.Window of the context. 0 and 1 switch it off.
	RepeatPenalty float64 `json:"repeat_penalty"`
}

// Greedy reports whether s always chooses the token with the largest logit.
func (s Sampling) Greedy() bool {
	return s.Temperature == 0 && (s.RepeatPenalty == 0 || s.RepeatPenalty == 1)
}

// Chosen returns the names of the outputs with the token that s chooses and with its log probability. A run that asks
// for no others skips the steps that s does not need.
func (t *Text) Chosen(s Sampling) (token, logprob string) {
	if out := &t.Outputs; s.Greedy() && out.Greedy != "" {
		return out.Greedy, out.GreedyLogProb
	}
	return t.Outputs.Token, t.Outputs.LogProb
}

// NewText returns the description of a model whose method extend has the names above.
func NewText(vocabulary, context, chunk, window int) *Text {
	return &Text{
		Method: "extend",
		Inputs: TextInputs{IDs: "input_ids", Position: "position", Temperature: "temperature", TopK: "top_k",
			TopP: "top_p", MinP: "min_p",
			RepeatPenalty: "repeat_penalty", Recent: "recent", Seed: "seed", Step: "step"},
		Outputs: TextOutputs{Logits: "logits", Token: "token", LogProb: "logprob", Greedy: "greedy",
			GreedyLogProb: "greedy_logprob"},
		Vocabulary: vocabulary, Context: context, Chunk: chunk, Window: window,
	}
}

// Kind returns KindText.
func (t *Text) Kind() string { return KindText }

// maxEnd bounds Text.End.
const maxEnd = 64

// Fields lists the fields, sorted by key.
func (t *Text) Fields() []Field {
	in, out, b, d, s, w := &t.Inputs, &t.Outputs, &t.Batch, &t.Draft, &t.Sampling, &t.Slide
	return []Field{
		{Key: "batch", Value: []Field{
			{Key: "count", Value: &b.Count}, {Key: "from", Value: &b.From}, {Key: "method", Value: &b.Method},
			{Key: "move", Value: &b.Move}, {Key: "page_count", Value: &b.PageCount, Added: true},
			{Key: "pages", Value: &b.Pages, Added: true}, {Key: "row", Value: &b.Row, Added: true},
			{Key: "rows", Value: &b.Rows, Added: true}, {Key: "sequence", Value: &b.Sequence, Added: true},
			{Key: "sequences", Value: &b.Sequences}, {Key: "to", Value: &b.To},
		}},
		{Key: "bos", Value: &t.BOS}, {Key: "chat_template", Value: &t.ChatTemplate}, {Key: "chunk", Value: &t.Chunk},
		{Key: "context", Value: &t.Context},
		{Key: "draft", Value: []Field{
			{Key: "choices", Value: &d.Choices}, {Key: "hidden", Value: &d.Hidden},
			{Key: "logprobs", Value: &d.LogProbs}, {Key: "method", Value: &d.Method},
			{Key: "rewind", Value: &d.Rewind}, {Key: "token", Value: &d.Token},
		}},
		{Key: "end", Value: &t.End, Max: maxEnd}, {Key: "eos", Value: &t.EOS},
		{Key: "images", Value: t.Images.fields(), Added: true},
		{Key: "inputs", Value: []Field{
			{Key: "input_ids", Value: &in.IDs}, {Key: "min_p", Value: &in.MinP}, {Key: "position", Value: &in.Position},
			{Key: "recent", Value: &in.Recent},
			{Key: "repeat_penalty", Value: &in.RepeatPenalty}, {Key: "seed", Value: &in.Seed},
			{Key: "step", Value: &in.Step},
			{Key: "temperature", Value: &in.Temperature}, {Key: "top_k", Value: &in.TopK},
			{Key: "top_p", Value: &in.TopP},
		}},
		{Key: "method", Value: &t.Method},
		{Key: "outputs", Value: []Field{
			{Key: "greedy", Value: &out.Greedy, Added: true},
			{Key: "greedy_logprob", Value: &out.GreedyLogProb, Added: true},
			{Key: "hidden", Value: &out.Hidden, Added: true},
			{Key: "logits", Value: &out.Logits}, {Key: "logprob", Value: &out.LogProb},
			{Key: "token", Value: &out.Token},
		}},
		{Key: "sampling", Value: []Field{
			{Key: "min_p", Value: &s.MinP}, {Key: "repeat_penalty", Value: &s.RepeatPenalty},
			{Key: "temperature", Value: &s.Temperature},
			{Key: "top_k", Value: &s.TopK}, {Key: "top_p", Value: &s.TopP},
		}},
		{Key: "slide", Value: []Field{
			{Key: "dropped", Value: &w.Dropped}, {Key: "first", Value: &w.First}, {Key: "keep", Value: &w.Keep},
			{Key: "method", Value: &w.Method},
		}},
		{Key: "tokenizer", Value: &t.Tokenizer}, {Key: "vocabulary", Value: &t.Vocabulary},
		{Key: "window", Value: &t.Window},
	}
}

// Attachments returns the names of the attachments that the description refers to.
func (t *Text) Attachments() []string {
	return slices.DeleteFunc([]string{t.Tokenizer, t.ChatTemplate}, func(s string) bool { return s == "" })
}

// String describes the inputs of the
func (t *Text) String() string {
	with := "token ids"
	if t.Tokenizer != "" {
		with = "text"
	}
	if t.TakesImages() {
		with += " and images"
	}
	if t.Slides() {
		return fmt.Sprintf("%s of any length, continued; %d tokens are seen", with, t.Slide.Keep+1)
	}
	return fmt.Sprintf("%s of up to %d tokens, continued", with, t.Context)
}

// Slides reports whether a full state makes room for more tokens.
func (t *Text) Slides() bool { return t.Slide.Method != "" }

// Most returns the maximum number of tokens of a sequence.
func (t *Text) Most() int {
	if t.Slides() {
		return maxContext
	}
	return t.Context
}

// Limits that Validate enforces.
const (
	maxVocabulary = 1 << 24
	maxContext    = 1 << 30
	maxChunk      = 1 << 16
	maxWindow     = 1 << 16
	maxSequences  = 1 << 10
)

// MaxPages is the maximum of TextBatch.PageCount.
const MaxPages = 1 << 22

// Validate checks a description that was read from a file. The error is a *diag.Error with code.TaskSpec.
func (t *Text) Validate() error {
	for _, check := range []func() error{t.checkNames, t.checkParts, t.checkSizes, t.checkTokens,
		t.checkImageParts} {
		if err := check(); err != nil {
			return diag.New(code.TaskSpec, "task "+KindText, "%w", err)
		}
	}
	return nil
}

// checkNames checks that the inputs and outputs that every file has are named.
func (t *Text) checkNames() error {
	for _, group := range t.Fields() {
		if group.Key != "inputs" && group.Key != "outputs" {
			continue
		}
		for _, f := range group.Value.([]Field) {
			if *f.Value.(*string) == "" && !f.Added {
				return fmt.Errorf("%s.%s is empty", group.Key, f.Key)
			}
		}
	}
	return nil
}

// checkParts checks the parts of a description that a model may lack: each must be complete or absent.
func (t *Text) checkParts() error {
	if out := &t.Outputs; (out.Greedy == "") != (out.GreedyLogProb == "") {
		return fmt.Errorf("outputs.greedy is %q and outputs.greedy_logprob %q; want both, or neither", out.Greedy,
			out.GreedyLogProb)
	}
	if d := t.Draft; d != (TextDraft{}) && slices.Contains([]string{d.Method, d.Choices, d.LogProbs, d.Hidden, d.Token},
		"") {
		return fmt.Errorf("draft is %+v; want all names but rewind, or none", d)
	}
	b := t.Batch
	named := !slices.Contains([]string{b.Method, b.Count, b.Move, b.From, b.To}, "")
	if b != (TextBatch{}) && (!named || b.Sequences < 1 || b.Sequences > maxSequences) {
		return fmt.Errorf("batch is %+v; want all names, and 1 to %d sequences", b, maxSequences)
	}
	if b.Pages != "" || b.PageCount != 0 {
		if err := t.checkPages(); err != nil {
			return err
		}
	} else if chosen := b.Sequence != ""; chosen != (b.Row != "") || chosen != (b.Rows > 0) || b.Rows > t.Context {
		return fmt.Errorf("batch is %+v; want sequence, row and 1 to %d rows, or none of them", b, t.Context)
	}
	w := t.Slide
	named = !slices.Contains([]string{w.Method, w.Dropped, w.First}, "")
	if w != (TextSlide{}) && (!named || w.Keep < 1 || w.Keep > t.Context-t.Chunk) {
		return fmt.Errorf("slide is %+v; want all names, and 1 to %d rows to keep", w, t.Context-t.Chunk)
	}
	return nil
}

// checkPages checks the description of a state in pages.
func (t *Text) checkPages() error {
	b := t.Batch
	switch {
	case b.Pages == "" || b.Sequence != "" || b.Row != "" || t.Slides() || t.TakesImages():
		return fmt.Errorf("batch is %+v; with pages want no sequence, no row, no images and no slide", b)
	case b.Rows < 1 || b.Rows > maxContext || b.PageCount < 1 || b.PageCount > MaxPages:
		return fmt.Errorf("batch is %+v; want pages of 1 and more rows, and up to %d of them", b, MaxPages)
	case t.PerSequence() >= b.PageCount || b.Sequences*t.PerSequence() > 4*MaxPages:
		return fmt.Errorf("batch is %+v with a context of %d; want more pages than a sequence takes, and tables of up to %d pages",
			b, t.Context, 4*MaxPages)
	}
	return nil
}

func (t *Text) checkSizes() error {
	if t.Method == "" {
		return errors.New("method is empty")
	}
	for _, x := range []struct {
		name        string
		value, most int
	}{
		{"vocabulary", t.Vocabulary, maxVocabulary},
		{"context", t.Context, maxContext},
		{"chunk", t.Chunk, min(t.Context, maxChunk)},
		{"window", t.Window, maxWindow},
	} {
		if x.value < 1 || x.value > x.most {
			return fmt.Errorf("%s is %d; allowed are 1 to %d", x.name, x.value, x.most)
		}
	}
	return nil
}

// checkTokens checks what ends a text, how tokens are chosen, and that a chat template has a tokenizer.
func (t *Text) checkTokens() error {
	if t.ChatTemplate != "" && t.Tokenizer == "" {
		return errors.New("there is a chat template and no tokenizer")
	}
	for _, id := range t.End {
		if id < 0 || id >= t.Vocabulary {
			return fmt.Errorf("end token %d; the vocabulary has 0 to %d", id, t.Vocabulary-1)
		}
	}
	if err := t.CheckSampling(t.Sampling); err != nil {
		return fmt.Errorf("sampling: %w", err)
	}
	return nil
}

// CheckSampling checks sampling parameters. The error matches code.TextSampling.
func (t *Text) CheckSampling(s Sampling) error {
	bad := func(what, format string, args ...any) error {
		return diag.New(code.TextSampling, what, format, args...)
	}
	switch {
	case !(s.Temperature >= 0 && s.Temperature <= math.MaxFloat32):
		return bad("temperature", "is %v; allowed are 0 (the most probable token) and more", s.Temperature)
	case s.TopK < 0 || s.TopK > t.Vocabulary:
		return bad("top-k", "is %d; allowed are 0 (off) to %d, the size of the vocabulary", s.TopK, t.Vocabulary)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return bad("top-p", "is %v; allowed are 0 to 1 (both are off)", s.TopP)
	case !(s.MinP >= 0 && s.MinP <= 1):
		return bad("min-p", "is %v; allowed are 0 (off) to 1", s.MinP)
	case !(s.RepeatPenalty >= 0 && s.RepeatPenalty <= 1e6):
		return bad("repeat-penalty", "is %v; allowed are 0 and 1 (off) to 1e6; less than 1 encourages repetition",
			s.RepeatPenalty)
	}
	return nil
}
