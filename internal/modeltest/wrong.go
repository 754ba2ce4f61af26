package modeltest

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/weights"
)

// Kind says which values a configuration key takes.
type Kind string

// The kinds of keys. Size is a whole number from 1, Count one from 0, Positive a number above 0, and Number one of at
// least 0. Word is one of the texts that a family knows, and Text is any.
const (
	Size     Kind = "size"
	Count    Kind = "count"
	Positive Kind = "positive"
	Number   Kind = "number"
	Any      Kind = "any number"
	Bool     Kind = "bool"
	Word     Kind = "word"
	Text     Kind = "text"
	Ints     Kind = "ints" // each from 0, or one whole number
	Numbers  Kind = "numbers"
	Texts    Kind = "texts"
)

// wrong lists JSON values that no key of a kind takes.
var wrong = map[Kind][]string{
	Size:     {`{}`, `[]`, `"x"`, `true`, `-1`, `0`, `0.5`, `1e400`, `{"x":1}`, `[1]`},
	Count:    {`{}`, `[]`, `"x"`, `true`, `-1`, `0.5`, `1e400`, `{"x":1}`, `[1]`},
	Positive: {`{}`, `[]`, `"x"`, `true`, `-1`, `0`, `1e400`, `{"x":1}`, `[1]`},
	Number:   {`{}`, `[]`, `"x"`, `true`, `-1`, `1e400`, `{"x":1}`, `[1]`},
	Any:      {`{}`, `[]`, `"x"`, `true`, `1e400`, `{"x":1}`, `[1]`},
	Bool:     {`{}`, `[]`, `"x"`, `-1`, `0`, `0.5`, `1e400`, `{"x":1}`},
	Word:     {`{}`, `[]`, `"x"`, `true`, `-1`, `0`, `0.5`, `1e400`, `{"x":1}`, `["x"]`},
	Text:     {`{}`, `[]`, `true`, `-1`, `0`, `0.5`, `1e400`, `{"x":1}`, `["x"]`},
	Ints:     {`{}`, `"x"`, `true`, `-1`, `0.5`, `1e400`, `[-1]`, `[0.5]`, `["x"]`, `[{}]`, `{"x":1}`},
	Numbers:  {`{}`, `"x"`, `true`, `-1`, `0`, `0.5`, `1e400`, `["x"]`, `[{}]`, `{"x":1}`},
	Texts:    {`{}`, `"x"`, `true`, `-1`, `0`, `0.5`, `1e400`, `[1]`, `[{}]`, `{"x":1}`},
}

// TypedConfig is a model and the kinds of the keys that building it reads.
type TypedConfig struct {
	Name   string // for messages
	Stored weights.Stored
	Config string            // a config.json; may be empty
	Set    map[string]string // JSON values of other keys; "" removes a key
	Keys   map[string]Kind
}

// CheckTypes gives each key each value of a wrong type or out of range, which must be an error that names the key.
// keys lists the keys of the family; each must occur in one of the configurations.
func CheckTypes(t *testing.T, keys map[string]string, list ...TypedConfig) {
	t.Helper()
	tried := map[string]bool{}
	for _, c := range list {
		if err := c.build("", ""); err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(c.Keys)) {
			tried[key] = true
			for _, value := range wrong[c.Keys[key]] {
				name := key[strings.LastIndexByte(key, '.')+1:]
				if err := c.build(key, value); !errors.Is(err, arch.ErrConfig) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s with %s: %s: %v; want an error of the configuration that names the key", c.Name, key,
						value, err)
				}
			}
			outer, _, nested := strings.Cut(key, ".")
			set := slices.ContainsFunc(slices.Collect(maps.Keys(c.Set)),
				func(k string) bool { return strings.HasPrefix(k, outer+".") })
			if nested && !set {
				if err := c.build(outer, "3"); !errors.Is(err, arch.ErrConfig) ||
					!strings.Contains(err.Error(), outer+" is 3") {
					t.Errorf("%s with %s: 3: %v; want an error, because it is an object", c.Name, outer, err)
				}
			}
		}
	}
	for key := range keys {
		if !tried[key] {
			t.Errorf("no configuration tries wrong values of %s", key)
		}
	}
}

// build builds the model with one key set to a JSON value.
func (c TypedConfig) build(key, value string) error {
	doc := map[string]any{}
	if c.Config != "" {
		text, err := os.ReadFile(c.Config)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			return err
		}
	}
	set := maps.Clone(c.Set)
	if set == nil {
		set = map[string]string{}
	}
	if key != "" {
		set[key] = value
	}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		into, name := doc, k
		first, _, _ := strings.Cut(name, ".")
		_, own := doc[first].(map[string]any) // a part beside the text model, or that itself
		if inner, ok := doc["text_config"].(map[string]any); ok && !own {
			into = inner
		}
		for outer, rest, nested := strings.Cut(name, "."); nested; outer, rest, nested = strings.Cut(name, ".") {
			next, ok := into[outer].(map[string]any)
			if !ok {
				next = map[string]any{}
				into[outer] = next
			}
			into, name = next, rest
		}
		into[name] = json.RawMessage(set[k])
		if set[k] == "" {
			delete(into, name)
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	var cfg arch.Config
	if err := cfg.Decode(text, "config.json"); err != nil {
		return err
	}
	family, err := arch.Find("auto", c.Stored, c.Stored.Path(), "")
	if err != nil {
		return err
	}
	_, err = family.Build(c.Stored, cfg)
	return err
}
