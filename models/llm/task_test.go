package llm

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/task"
)

// fileTokenizer is short for the name of the file.
const fileTokenizer = arch.TokenizerFile

// TestTask checks the description made from the files beside a checkpoint.
func TestTask(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+"llama_tiny"), dtype.F32)
	for _, c := range []struct {
		name       string
		files      map[string]string
		sampling   task.Sampling
		end        []int
		template   string
		bos, wrong string
		code       error // of wrong; nil means arch.ErrConfig
	}{
		{name: "nothing", end: []int{2}},
		{name: "sampling", files: map[string]string{
			fileGeneration: `{"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 40, "repetition_penalty": 1.1, "eos_token_id": [9, 2, 9]}`,
		}, sampling: task.Sampling{Temperature: 0.6, TopP: 0.9, TopK: 40, RepeatPenalty: 1.1}, end: []int{2, 9}},
		{name: "greedy", files: map[string]string{fileGeneration: `{"temperature": 0.6, "eos_token_id": 5}`},
			end: []int{5}},
		{name: "template in the configuration", files: map[string]string{
			fileTokenizer:       tinymodel.Tokenizer,
			fileTokenizerConfig: `{"chat_template": "{{ a }}", "bos_token": {"content": "<s>"}, "eos_token": null}`,
		}, end: []int{2}, template: "{{ a }}", bos: "<s>"},
		{name: "several templates", files: map[string]string{
			fileTokenizer:       tinymodel.Tokenizer,
			fileTokenizerConfig: `{"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}], "bos_token": "<b>"}`,
		}, end: []int{2}, template: "d", bos: "<b>"},
		{name: "template in a file", files: map[string]string{fileTokenizer: tinymodel.Tokenizer, fileTemplate: "file",
			fileTokenizerConfig: `{"chat_template": "other"}`}, end: []int{2}, template: "file"},
		{name: "template of a processor", files: map[string]string{fileTokenizer: tinymodel.Tokenizer,
			fileOldTemplate: `{"chat_template": "images"}`, fileTokenizerConfig: `{"chat_template": "other"}`},
			end: []int{2}, template: "images"},
		{name: "no default",
			files: map[string]string{fileTokenizer: tinymodel.Tokenizer,
				fileTokenizerConfig: `{"chat_template": [{"name": "rag"}]}`},
			wrong: `tokenizer_config.json: chat_template has ["rag"]; want one that is called default`},
		{name: "not JSON", files: map[string]string{fileGeneration: `[`},
			wrong: "generation_config.json: does not have the format of Transformers"},
		{name: "type", files: map[string]string{fileGeneration: `{"top_k": "5"}`},
			wrong: "Transformers: top_k is a string; want a whole number"},
		{name: "types of ids", files: map[string]string{fileGeneration: `{"eos_token_id": [1, "2"]}`},
			wrong: "token ids are neither a whole number nor a list of these: the value is a string; want a whole number"},
		{name: "numeric template",
			files: map[string]string{fileTokenizer: tinymodel.Tokenizer, fileTokenizerConfig: `{"chat_template": 5}`},
			wrong: "chat_template is neither a text nor a list of named texts: the value is a number; want an array"},
		{name: "numeric token",
			files: map[string]string{fileTokenizer: tinymodel.Tokenizer, fileTokenizerConfig: `{"bos_token": 5}`},
			wrong: "a special token is neither a text nor an object: the value is a number; want a string"},
		{name: "tokenizer of another model",
			files: map[string]string{fileTokenizer: strings.Replace(tinymodel.Tokenizer, `"p": 15`, `"p": 160`, 1)},
			wrong: "tokenizer.json: has tokens up to 160; the vocabulary of the checkpoint has 0 to 159"},
		{name: "no tokenizer", files: map[string]string{fileTokenizer: "[]"}, code: code.Tokenizer,
			wrong: "tokenizer.json: "},
		{name: "end token", files: map[string]string{fileGeneration: `{"eos_token_id": 160}`},
			wrong: "end token 160; the vocabulary has 0 to 159"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cfg arch.Config
			if err := cfg.Load(goldens + "llama_tiny/config.json"); err != nil {
				t.Fatal(err)
			}
			cfg.Files = func(name string, _ int64) ([]byte, error) {
				if data, ok := c.files[name]; ok {
					return []byte(data), nil
				}
				return nil, fs.ErrNotExist
			}
			m, err := build(s, cfg)
			if c.wrong != "" {
				if c.code == nil {
					c.code = arch.ErrConfig
				}
				if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v; want %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := m.Task.(*task.Text)
			files := map[string]string{}
			for _, a := range m.Attachments {
				files[a.Name] = string(a.Data)
			}
			if got.Sampling != c.sampling || !reflect.DeepEqual(got.End, c.end) ||
				files[got.ChatTemplate] != c.template || files[got.Tokenizer] != c.files[fileTokenizer] ||
				got.BOS != c.bos {
				t.Errorf("task %+v with %q; want %+v", got, files, c)
			}
		})
	}
}
