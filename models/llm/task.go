package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/task"
)

// Files that Transformers stores beside a checkpoint.
const (
	fileTokenizerConfig = "tokenizer_config.json"
	fileTemplate        = "chat_template.jinja"
	fileOldTemplate     = "chat_template.json" // of processors of text and images
	fileGeneration      = "generation_config.json"

	maxText = 4 << 20 // bytes of each file
)

// describe describes extend as a task, with the files beside the checkpoint: the tokenizer, the chat template, and the
// recommended sampling parameters.
func (c config) describe(cfg arch.Config, m *arch.Model) error {
	t := task.NewText(int(c.vocab), int(c.context), int(c.extendTokens()), maxRecent)
	if err := c.sampling(cfg, t); err != nil {
		return err
	}
	t.Outputs.Hidden = "hidden"
	if n := int(c.kept()); n > 0 {
		t.Slide = task.TextSlide{Method: "slide", First: "first", Dropped: "dropped", Keep: n}
	}
	if n := int(c.sequences); n > 1 {
		t.Batch = task.TextBatch{Method: "extend_batch", Count: "count", Sequences: n, Move: "move", From: "from",
			To: "to", Sequence: "sequence", Row: "row", Rows: int(c.moveRows())}
		if c.pages > 0 {
			t.Batch.Sequence, t.Batch.Row, t.Batch.Rows = "", "", pageRows
			t.Batch.Pages, t.Batch.PageCount = "pages", int(c.pages)
		}
	}
	if c.mtp {
		t.Draft = task.TextDraft{Method: "draft", Choices: "choices", LogProbs: "logprobs", Hidden: "hidden",
			Token: "greedy"}
		if c.recurrent() {
			t.Draft.Rewind = "rewind"
		}
	}
	if v := c.vision; v != nil {
		t.Images = v.tower.Images
		t.Images.Token, t.Images.Video = v.image, v.video
		if c.sequences > 1 {
			t.Images.Sequence = "sequence"
		}
	}
	data, err := cfg.Tokenizer(c.vocab)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		t.Tokenizer = arch.TokenizerFile
		m.Attachments = append(m.Attachments, arch.Attachment{Name: arch.TokenizerFile, Data: data})
		template, err := c.template(cfg, t)
		if err != nil {
			return err
		}
		if len(template) > 0 {
			t.ChatTemplate = fileTemplate
			m.Attachments = append(m.Attachments, arch.Attachment{Name: fileTemplate, Data: template})
		}
	}
	m.Task = t
	if err := t.Validate(); err != nil {
		return diag.New(arch.ErrConfig, fileGeneration, "%w", err)
	}
	return nil
}

// decodeFile decodes a JSON file, if it exists.
func decodeFile(cfg arch.Config, name string, into any) error {
	data, ok, err := cfg.File(name, maxText)
	if err != nil || !ok {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return diag.New(arch.ErrConfig, name, "does not have the format of Transformers: %w", arch.JSONError(err))
	}
	return nil
}

// ids is a token id or a list of ids.
type ids []int

func (x *ids) UnmarshalJSON(b []byte) error {
	var one *int
	if json.Unmarshal(b, &one) == nil {
		if one != nil { // null is no token
			*x = ids{*one}
		}
		return nil
	}
	if err := json.Unmarshal(b, (*[]int)(x)); err != nil {
		return fmt.Errorf("token ids are neither a whole number nor a list of these: %w", arch.JSONError(err))
	}
	return nil
}

// sampling reads generation_config.json. Absent values are off. Without do_sample, the most probable token is chosen.
func (c config) sampling(cfg arch.Config, t *task.Text) error {
	var g struct {
		Sample      bool     `json:"do_sample"`
		Temperature *float64 `json:"temperature"`
		TopK        int      `json:"top_k"`
		TopP        float64  `json:"top_p"`
		MinP        float64  `json:"min_p"`
		Penalty     float64  `json:"repetition_penalty"`
		End         ids      `json:"eos_token_id"`
	}
	if err := decodeFile(cfg, fileGeneration, &g); err != nil {
		return err
	}
	t.Sampling.RepeatPenalty = g.Penalty
	if g.Sample {
		t.Sampling = task.Sampling{Temperature: 1, TopK: min(g.TopK, t.Vocabulary), TopP: g.TopP, MinP: g.MinP,
			RepeatPenalty: g.Penalty}
		if g.Temperature != nil {
			t.Sampling.Temperature = *g.Temperature
		}
	}
	t.End = g.End
	if t.End == nil {
		var err error
		if t.End, err = cfg.Ints("eos_token_id", 0, c.vocab-1); err != nil {
			return err
		}
	}
	slices.Sort(t.End)
	t.End = slices.Compact(t.End)
	return nil
}

// template reads the chat template, for which newer checkpoints have a separate file, and the texts of its special
// tokens.
func (c config) template(cfg arch.Config, t *task.Text) ([]byte, error) {
	var k struct {
		Template json.RawMessage `json:"chat_template"`
		BOS      special         `json:"bos_token"`
		EOS      special         `json:"eos_token"`
	}
	if err := decodeFile(cfg, fileTokenizerConfig, &k); err != nil {
		return nil, err
	}
	t.BOS, t.EOS = string(k.BOS), string(k.EOS)
	if data, ok, err := cfg.File(fileTemplate, maxText); ok || err != nil {
		return data, err
	}
	origin := fileTokenizerConfig
	var old struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := decodeFile(cfg, fileOldTemplate, &old); err != nil {
		return nil, err
	}
	if len(old.Template) > 0 {
		k.Template, origin = old.Template, fileOldTemplate
	}
	if len(k.Template) == 0 {
		return nil, nil
	}
	var one *string
	if json.Unmarshal(k.Template, &one) == nil {
		if one == nil {
			return nil, nil
		}
		return []byte(*one), nil
	}
	var several []struct{ Name, Template string }
	if err := json.Unmarshal(k.Template, &several); err != nil {
		return nil,
			diag.New(arch.ErrConfig, origin,
				"chat_template is neither a text nor a list of named texts: %w", arch.JSONError(err))
	}
	var names []string
	for _, s := range several {
		if s.Name == "default" {
			return []byte(s.Template), nil
		}
		names = append(names, s.Name)
	}
	return nil, diag.New(arch.ErrConfig, origin, "chat_template has %q; want one that is called default",
		names)
}

// special is the text of a special token. Old checkpoints write it as an object.
type special string

func (s *special) UnmarshalJSON(b []byte) error {
	var text *string
	if err := json.Unmarshal(b, &text); err != nil {
		var object struct{ Content *string }
		switch {
		case json.Unmarshal(b, &object) != nil:
			return fmt.Errorf("a special token is neither a text nor an object: %w", arch.JSONError(err))
		case object.Content == nil:
			return errors.New("a special token is an object without the text content")
		}
		text = object.Content
	}
	if text != nil {
		*s = special(*text)
	}
	return nil
}
