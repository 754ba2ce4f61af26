package gguf

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Kinds of tokens, in tokenizer.ggml.token_type.
const (
	normalToken  = 1
	unknownToken = 2
	controlToken = 3
	userToken    = 4
)

// obj is a JSON object.
type obj = map[string]any

// Regular expressions of pre-tokenizers.
const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	rest         = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Regex  = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` + rest
	qwen2Regex   = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + rest
	upper        = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower        = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	tekkenRegex  = `[^\r\n\p{L}\p{N}]?` + upper + `*` + lower + `+|[^\r\n\p{L}\p{N}]?` + upper + `+` + lower +
		`*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// preTokenizers lists the known values of tokenizer.ggml.pre.
var preTokenizers = map[string]struct {
	regex      string // empty means the expression of GPT-2
	nfc        bool
	wholeFirst bool // a piece that is itself a token is not merged
	bos        bool // default of add_bos_token
}{
	"llama3": {llama3Regex, false, true, true}, "llama-v3": {llama3Regex, false, true, true},
	"llama-bpe": {llama3Regex, false, true, true},
	"smaug-bpe": {llama3Regex, false, false, false}, "qwen2": {qwen2Regex, true, false, false},
	"deepseek-r1-qwen": {qwen2Regex, true, false, false},
	"tekken":           {tekkenRegex, false, true, true}, "gpt-2": {}, "default": {},
}

// vocabulary holds the tokenizer in the metadata.
type vocabulary struct {
	tokens []string
	kinds  []int64
	scores []float64
	merges []string
	pre    string
	bos    int // -1 if there is no such token
	eos    int
	unk    int
	addBOS bool
	addEOS bool
	space  bool // put a space before the text
}

// addText adds the files for text: tokenizer.json, tokenizer_config.json and generation_config.json.
func (m *model) addText(meta metadata) error {
	kind, err := get(meta, "tokenizer.ggml.model", "none")
	if err != nil || kind == "none" || kind == "no_vocab" {
		return err
	}
	v, err := readVocabulary(meta, kind)
	if err != nil {
		return err
	}
	var doc obj
	switch kind {
	case "gpt2":
		doc, err = v.byteLevel()
	case "llama":
		doc, err = v.sentencePiece()
	default:
		err = unsupported("has a tokenizer of model %.40q; supported are gpt2 and llama", kind)
	}
	if err != nil {
		return err
	}
	if m.files["tokenizer.json"], err = json.Marshal(doc); err != nil {
		return err
	}
	about := obj{}
	for name, id := range map[string]int{"bos_token": v.bos, "eos_token": v.eos} {
		if id >= 0 {
			about[name] = v.tokens[id]
		}
	}
	template, err := get(meta, "tokenizer.chat_template", "")
	if err != nil {
		return err
	}
	if template != "" {
		about["chat_template"] = template
	}
	if m.files["tokenizer_config.json"], err = json.Marshal(about); err != nil {
		return err
	}
	var end []int
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		id, err := v.id(meta, key)
		if err != nil {
			return err
		}
		if id >= 0 {
			end = append(end, id)
		}
	}
	if len(end) > 0 {
		m.files["generation_config.json"], err = json.Marshal(obj{"eos_token_id": end})
	}
	return err
}

func readVocabulary(meta metadata, kind string) (v *vocabulary, err error) {
	v = &vocabulary{}
	if v.tokens, err = get[[]string](meta, "tokenizer.ggml.tokens", nil); err != nil {
		return nil, err
	}
	if v.kinds, err = get[[]int64](meta, "tokenizer.ggml.token_type", nil); err != nil {
		return nil, err
	}
	if v.scores, err = get[[]float64](meta, "tokenizer.ggml.scores", nil); err != nil {
		return nil, err
	}
	if v.merges, err = get[[]string](meta, "tokenizer.ggml.merges", nil); err != nil {
		return nil, err
	}
	if v.kinds == nil {
		v.kinds = slices.Repeat([]int64{normalToken}, len(v.tokens))
	}
	if len(v.tokens) == 0 || len(v.kinds) != len(v.tokens) || v.scores != nil && len(v.scores) != len(v.tokens) {
		return nil, fmt.Errorf("has %d tokens, %d token types and %d scores; want equal numbers", len(v.tokens),
			len(v.kinds), len(v.scores))
	}
	for i, t := range v.tokens {
		if !utf8.ValidString(t) {
			return nil, fmt.Errorf("token %d is %.40q, which is not UTF-8", i, t)
		}
	}
	if v.pre, err = get(meta, "tokenizer.ggml.pre", "default"); err != nil {
		return nil, err
	}
	for key, to := range map[string]*int{"bos_token_id": &v.bos, "eos_token_id": &v.eos, "unknown_token_id": &v.unk} {
		if *to, err = v.id(meta, key); err != nil {
			return nil, err
		}
	}
	for key, to := range map[string]struct {
		flag      *bool
		otherwise bool
	}{
		"add_bos_token": {&v.addBOS, kind == "llama" || preTokenizers[v.pre].bos}, "add_eos_token": {&v.addEOS, false},
		"add_space_prefix": {&v.space, true},
	} {
		if *to.flag, err = get(meta, "tokenizer.ggml."+key, to.otherwise); err != nil {
			return nil, err
		}
	}
	if clean, err := get(meta, "tokenizer.ggml.remove_extra_whitespaces", false); err != nil || clean {
		return nil, unsupported("has a tokenizer that removes white space, which is not supported")
	}
	if v.addBOS && v.bos < 0 || v.addEOS && v.eos < 0 {
		return nil, fmt.Errorf("adds a begin or end token to texts and does not say which")
	}
	return v, nil
}

// id reads a token id, or returns -1 if it is absent.
func (v *vocabulary) id(meta metadata, key string) (int, error) {
	if _, ok := meta["tokenizer.ggml."+key]; !ok {
		return -1, nil
	}
	return meta.integer("tokenizer.ggml."+key, -1, 0, len(v.tokens)-1)
}

// file returns the parts that both kinds of tokenizer.json share.
func (v *vocabulary) file(model obj) (obj, error) {
	vocab := map[string]int{}
	for i, t := range v.tokens {
		if other, twice := vocab[t]; twice {
			return nil, fmt.Errorf("tokens %d and %d are both %.40q", other, i, t)
		}
		vocab[t] = i
	}
	model["type"], model["vocab"] = "BPE", vocab
	added := []obj{}
	for i, kind := range v.kinds {
		if kind == unknownToken || kind == controlToken || kind == userToken {
			added = append(
				added, obj{"id": i, "content": v.tokens[i], "single_word": false, "lstrip": false, "rstrip": false,
					"normalized": false, "special": kind != userToken})
		}
	}
	single := []obj{{"Sequence": obj{"id": "A", "type_id": 0}}}
	special := obj{}
	around := func(id int) obj {
		t := v.tokens[id]
		special[t] = obj{"id": t, "ids": []int{id}, "tokens": []string{t}}
		return obj{"SpecialToken": obj{"id": t, "type_id": 0}}
	}
	if v.addBOS {
		single = append([]obj{around(v.bos)}, single...)
	}
	if v.addEOS {
		single = append(single, around(v.eos))
	}
	return obj{"version": "1.0", "added_tokens": added, "model": model,
		"post_processor": obj{"type": "TemplateProcessing", "single": single, "special_tokens": special}}, nil
}

// byteLevel returns the tokenizer of models whose tokenizer.ggml.model is gpt2.
func (v *vocabulary) byteLevel() (obj, error) {
	pre, ok := preTokenizers[v.pre]
	if !ok {
		return nil, unsupported("has the pre-tokenizer %.40q, which is not supported", v.pre)
	}
	doc, err := v.file(obj{"merges": v.merges, "ignore_merges": pre.wholeFirst})
	if err != nil {
		return nil, err
	}
	doc["pre_tokenizer"] = obj{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}
	if pre.regex != "" {
		doc["pre_tokenizer"] = obj{"type": "Sequence", "pretokenizers": []obj{
			{"type": "Split", "pattern": obj{"Regex": pre.regex}, "behavior": "Isolated", "invert": false},
			{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		}}
	}
	if pre.nfc {
		doc["normalizer"] = obj{"type": "NFC"}
	}
	doc["decoder"] = obj{"type": "ByteLevel"}
	return doc, nil
}

const maxPiece = 512 // bytes of a SentencePiece token; published ones have at most 64

// sentencePiece returns the tokenizer of models whose tokenizer.ggml.model is llama. SentencePiece joins the pair whose
// result has the best score. So the merges are all divisions of tokens into two tokens, in the order of the scores.
func (v *vocabulary) sentencePiece() (obj, error) {
	if v.scores == nil || v.unk < 0 {
		return nil, fmt.Errorf("has a tokenizer of model llama without scores or unknown_token_id")
	}
	ids := map[string]int{}
	var pieces []int
	for i, t := range v.tokens {
		if v.kinds[i] == normalToken || v.kinds[i] == userToken {
			ids[t] = i
		}
		if v.kinds[i] == normalToken {
			if len(t) > maxPiece {
				return nil, fmt.Errorf("token %d has %d bytes; at most %d are allowed", i, len(t), maxPiece)
			}
			if s := v.scores[i]; s != s {
				return nil, fmt.Errorf("token %d has a score that is not a number", i)
			}
			pieces = append(pieces, i)
		}
	}
	slices.SortStableFunc(pieces, func(a, b int) int {
		switch {
		case v.scores[a] > v.scores[b]:
			return -1
		case v.scores[a] < v.scores[b]:
			return 1
		}
		return 0
	})
	merges := [][2]string{}
	for _, p := range pieces {
		t := v.tokens[p]
		for i := range t {
			if i == 0 {
				continue
			}
			if _, ok := ids[t[:i]]; !ok {
				continue
			}
			if _, ok := ids[t[i:]]; ok {
				merges = append(merges, [2]string{t[:i], t[i:]})
			}
		}
	}
	doc, err := v.file(obj{"merges": merges, "unk_token": v.tokens[v.unk], "fuse_unk": true, "byte_fallback": true})
	if err != nil {
		return nil, err
	}
	replace := func(old, with string) obj {
		return obj{"type": "Replace", "pattern": obj{"String": old}, "content": with}
	}
	normalizers := []obj{replace(" ", "▁")}
	decoders := []obj{replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}}
	if v.space {
		normalizers = append([]obj{{"type": "Prepend", "prepend": "▁"}}, normalizers...)
		decoders = append(decoders, obj{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	doc["normalizer"] = obj{"type": "Sequence", "normalizers": normalizers}
	doc["decoder"] = obj{"type": "Sequence", "decoders": decoders}
	return doc, nil
}
