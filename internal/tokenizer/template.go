package tokenizer

import (
	"fmt"
	"strings"
)

// A template adds tokens before and after a text.
type template struct{ before, after []int }

func (p template) apply(ids []int) []int {
	out := make([]int, 0, len(p.before)+len(ids)+len(p.after))
	return append(append(append(out, p.before...), ids...), p.after...)
}

// readPost reads a post-processor. It ignores settings for pairs of texts and offsets.
func (t *Tokenizer) readPost(o *object) error {
	switch kind := o.str("type", ""); kind {
	case "Sequence":
		_, err := readList(o, "processors", func(o *object) (struct{}, error) { return struct{}{}, t.readPost(o) })
		if err == nil && len(t.post) > maxParts {
			err = fmt.Errorf("post_processor has %d templates; at most %d are allowed", len(t.post), maxParts)
		}
		if err != nil {
			return err
		}
	case "ByteLevel":
		o.boolean("add_prefix_space", true)
		o.boolean("trim_offsets", true)
		o.boolean("use_regex", true)
	case "BertProcessing", "RobertaProcessing":
		o.boolean("trim_offsets", true)
		o.boolean("add_prefix_space", true)
		var p template
		for key, to := range map[string]*[]int{"cls": &p.before, "sep": &p.after} {
			v, _ := o.take(key)
			list, ok := v.([]any)
			if !ok || len(list) != 2 {
				return fmt.Errorf("%s: %s is not a token and its id", o.what, key)
			}
			token := &object{what: o.what + ": " + key, fields: map[string]any{"id": list[1]}, used: map[string]bool{}}
			*to = []int{token.integer("id", 0, maxID)}
			if token.err != nil {
				return token.err
			}
		}
		t.post = append(t.post, p)
	case "TemplateProcessing":
		p, err := readTemplate(o)
		if err != nil {
			return err
		}
		t.post = append(t.post, p)
	default:
		return unsupported("post-processor %.40q is not supported", kind)
	}
	return o.done()
}

func readTemplate(o *object) (p template, err error) {
	tokens, err := specialIDs(o)
	if err != nil {
		return p, err
	}
	o.take("pair")
	texts := 0
	into := &p.before
	_, err = readList(o, "single", func(part *object) (struct{}, error) {
		if v, ok := part.take("Sequence"); ok {
			text, err := asObject("Sequence", v)
			if err != nil || text == nil || text.str("id", "") != "A" {
				return struct{}{}, unsupported("%s: the template of one text has a text other than A", o.what)
			}
			text.take("type_id")
			texts++
			into = &p.after
			return struct{}{}, text.done()
		}
		v, _ := part.take("SpecialToken")
		token, err := asObject("SpecialToken", v)
		if err != nil || token == nil {
			return struct{}{}, fmt.Errorf("%s: single holds neither Sequence nor SpecialToken", o.what)
		}
		token.take("type_id")
		name := token.str("id", "")
		ids, ok := tokens[name]
		if !ok {
			return struct{}{}, fmt.Errorf("%s: %.40q is not among special_tokens", o.what, name)
		}
		*into = append(*into, ids...)
		return struct{}{}, token.done()
	})
	if err == nil && texts != 1 {
		err = unsupported("%s: the template of one text has it %d times", o.what, texts)
	}
	return p, err
}

// specialIDs returns the ids for each name in a template.
func specialIDs(o *object) (map[string][]int, error) {
	v, _ := o.take("special_tokens")
	all, err := asObject(o.what+": special_tokens", v)
	if err != nil || all == nil {
		return nil, err
	}
	out := map[string][]int{}
	for name, v := range all.fields {
		token, err := asObject(strings.Join([]string{o.what, name}, ": "), v)
		if err != nil || token == nil {
			return nil, fmt.Errorf("%s: special_tokens: %.40q is not an object", o.what, name)
		}
		token.take("id")
		token.take("tokens")
		v, _ := token.take("ids")
		list, ok := v.([]any)
		if !ok || len(list) > maxParts {
			return nil, fmt.Errorf("%s: special_tokens: %.40q has no ids, or more than %d", o.what, name, maxParts)
		}
		for _, v := range list {
			one := &object{what: token.what, fields: map[string]any{"ids": v}, used: map[string]bool{}}
			out[name] = append(out[name], one.integer("ids", 0, maxID))
			if one.err != nil {
				return nil, one.err
			}
		}
		if err := token.done(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
