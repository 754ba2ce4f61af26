package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/strictjson"
)

// MaxFile is the maximum size of a tokenizer.json in bytes.
const MaxFile = 256 << 20 // the largest published ones have 35 MB

const (
	maxID     = 1<<22 - 1
	maxToken  = 1 << 16 // bytes
	maxParts  = 64      // steps of a sequence
	maxValues = 1 << 16 // values in a part of the file other than vocabulary, merges and added tokens
)

// Parse parses a tokenizer.json. Errors are *diag.Error with code.Tokenizer or code.TokenizerFeature.
func Parse(json []byte) (*Tokenizer, error) {
	if len(json) > MaxFile {
		return nil, diag.New(code.Tokenizer, "", "has %d bytes; at most %d are allowed", len(json), MaxFile)
	}
	t, err := parse(json)
	var unknown feature
	switch {
	case errors.As(err, &unknown):
		return nil, diag.New(code.TokenizerFeature, "", "%w", err)
	case err != nil:
		return nil, diag.New(code.Tokenizer, "", "%w", err)
	}
	return t, nil
}

// A feature is an unsupported feature. Parse turns it into an error with code.TokenizerFeature.
type feature struct{ string }

func (f feature) Error() string { return f.string }

func unsupported(format string, args ...any) error { return feature{fmt.Sprintf(format, args...)} }

func parse(json []byte) (*Tokenizer, error) {
	r, err := strictjson.New(json)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{ids: map[string]int32{}, cooking: map[int]string{}}
	parts := map[string]*object{}
	var list []added
	err = r.Object("the document", func(key string) error {
		switch key {
		case "added_tokens":
			return r.Array(key, func(int) error {
				a, err := readAdded(r)
				list = append(list, a)
				return err
			})
		case "model":
			var err error
			t.model, t.vocab, err = readModel(r)
			return err
		case "version", "truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder":
			v, err := r.Value(key, maxValues)
			if err != nil {
				return err
			}
			if s, ok := v.(string); key == "version" {
				if !ok || s != "1.0" {
					return unsupported("version is %.40v; this version reads 1.0", v)
				}
				return nil
			}
			// Like Transformers, which sets truncation and padding anew in each call, this package applies neither.
			parts[key], err = asObject(key, v)
			return err
		}
		return unsupported("has the key %.40q, which this version does not know", key)
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, err
	}
	if t.model == nil {
		return nil, errors.New("has no model")
	}
	if n := parts["normalizer"]; n != nil {
		if t.normalize, err = readNormalizer(n); err != nil {
			return nil, err
		}
	}
	t.split = whole
	if p := parts["pre_tokenizer"]; p != nil {
		if t.split, err = readSplitter(p); err != nil {
			return nil, err
		}
	}
	if p := parts["post_processor"]; p != nil {
		if err := t.readPost(p); err != nil {
			return nil, err
		}
	}
	if d := parts["decoder"]; d != nil {
		if t.decoders, err = readDecoder(d); err != nil {
			return nil, err
		}
	}
	return t, t.addTokens(list)
}

// assignIDs gives the added tokens the ids that the library gives them: the vocabulary's, or else the next free one.
// The ids in the file do not matter. Of several entries with the same content the last counts, but all are special if
// one is.
func (t *Tokenizer) assignIDs(list []added) (out []added) {
	at, next := map[string]int{}, int32(t.vocab.size)
	for _, a := range list {
		if i, again := at[a.content]; again {
			a.id, a.special = out[i].id, a.special || out[i].special
			out[i] = a
			continue
		}
		id, ok := t.vocab.ids[a.content]
		if !ok {
			id = next
		}
		a.id, next = id, max(next, id+1)
		at[a.content] = len(out)
		out = append(out, a)
	}
	return out
}

// addTokens fills the tables indexed by id, and the matchers.
func (t *Tokenizer) addTokens(list []added) error {
	list = t.assignIDs(list)
	size := int32(0)
	for _, id := range t.vocab.ids {
		size = max(size, id+1)
	}
	for _, a := range list {
		size = max(size, a.id+1)
	}
	t.tokens, t.known, t.special = make([]string, size), make([]bool, size), make([]bool, size)
	for token, id := range t.vocab.ids {
		if t.known[id] {
			return fmt.Errorf("model: %.40q and %.40q have the same id %d", min(token, t.tokens[id]),
				max(token, t.tokens[id]), id)
		}
		t.tokens[id], t.known[id] = token, true
	}
	for id, token := range t.vocab.repeats {
		t.tokens[id], t.known[id] = token, true
	}
	for _, a := range list {
		if t.known[a.id] && t.tokens[a.id] != a.content {
			return fmt.Errorf("added token %.40q has the id %d of the token %.40q", a.content, a.id, t.tokens[a.id])
		}
		t.tokens[a.id], t.known[a.id], t.ids[a.content] = a.content, true, a.id
		t.special[a.id] = a.special
		for id, token := range t.vocab.repeats {
			if token == a.content {
				t.special[id] = a.special
			}
		}
		if !a.normalized || t.normalize == nil {
			m := &t.raw
			if a.normalized {
				m = &t.cooked
			}
			m.add(a.content, a)
			continue
		}
		p, err := t.normalize(piece{a.content, 0}, newLimit(len(a.content)))
		if err != nil {
			return fmt.Errorf("added token %.40q cannot be normalised: %w", a.content, err)
		}
		if p.text == "" {
			return unsupported("added token %.40q is empty when it is normalised, which is not supported", a.content)
		}
		if len(p.text) > maxAdded {
			return fmt.Errorf("added token %.40q has %d bytes when it is normalised; at most %d are allowed", a.content,
				len(p.text), maxAdded)
		}
		t.cooked.add(p.text, a)
		if p.text != a.content {
			t.cooking[int(a.id)] = p.text
		}
	}
	return nil
}

func readAdded(r *strictjson.Reader) (added, error) {
	v, err := r.Value("added_tokens", 64)
	if err != nil {
		return added{}, err
	}
	o, err := asObject("added token", v)
	if err != nil || o == nil {
		return added{}, errors.Join(err, errors.New("added_tokens holds null"))
	}
	a := added{
		id: int32(o.integer("id", -1, maxID)), content: o.str("content", ""),
		singleWord: o.boolean("single_word", false), lstrip: o.boolean("lstrip", false),
		rstrip:     o.boolean("rstrip", false),
		normalized: o.boolean("normalized", true), special: o.boolean("special", false),
	}
	switch {
	case o.done() != nil:
		return a, o.done()
	case a.id < 0:
		return a, fmt.Errorf("added token %.40q has no id", a.content)
	case a.content == "" || len(a.content) > maxAdded:
		return a, fmt.Errorf("added token %d has %d bytes; allowed are 1 to %d", a.id, len(a.content), maxAdded)
	}
	return a, nil
}

func readNormalizer(o *object) (normalizer, error) {
	var n normalizer
	switch kind := o.str("type", ""); kind {
	case "Sequence":
		list, err := readList(o, "normalizers", readNormalizer)
		if err != nil {
			return nil, err
		}
		n = inOrder(list)
	case "NFC":
		n = form(norm.NFC)
	case "NFD":
		n = form(norm.NFD)
	case "NFKC":
		n = form(norm.NFKC)
	case "NFKD":
		n = form(norm.NFKD)
	case "Lowercase":
		n = lowercase
	case "StripAccents":
		n = stripAccents
	case "Nmt":
		n = nmt
	case "ByteLevel":
		n = byteLevel
	case "Strip":
		n = strip(o.boolean("strip_left", true), o.boolean("strip_right", true))
	case "Prepend":
		n = prependText(o.str("prepend", ""))
	case "BertNormalizer":
		lower := o.boolean("lowercase", true)
		n = bert(o.boolean("clean_text", true), o.boolean("handle_chinese_chars", true),
			o.boolean("strip_accents", lower), lower)
	case "Precompiled":
		m, err := readCharsmap(o)
		if err != nil {
			return nil, err
		}
		n = m.normalize
	case "Replace":
		pat, err := o.pattern()
		if err != nil {
			return nil, err
		}
		n = replace(pat, o.str("content", ""))
	default:
		return nil, unsupported("normalizer %.40q is not supported", kind)
	}
	return n, o.done()
}

func readSplitter(o *object) (splitter, error) {
	var s splitter
	switch kind := o.str("type", ""); kind {
	case "Sequence":
		list, err := readList(o, "pretokenizers", readSplitter)
		if err != nil {
			return nil, err
		}
		s = chain(list)
	case "Split":
		pat, err := o.pattern()
		if err != nil {
			return nil, err
		}
		b, err := o.behaviour("")
		if err != nil {
			return nil, err
		}
		s = splitBy(pat, b, o.boolean("invert", false))
	case "ByteLevel":
		o.boolean("trim_offsets", true)
		var pat pattern
		if o.boolean("use_regex", true) {
			var err error
			if pat, err = compileRegex(gpt2); err != nil {
				panic("BUG: " + err.Error())
			}
		}
		s = byteLevelSplit(pat, o.boolean("add_prefix_space", true))
	case "Metaspace":
		mark := o.str("replacement", "▁")
		scheme := "always"
		if !o.boolean("add_prefix_space", true) {
			scheme = "never"
		}
		scheme = o.str("prepend_scheme", scheme)
		o.str("str_rep", "")
		if scheme != "always" && scheme != "never" && scheme != "first" {
			return nil, unsupported("%s has the prepend_scheme %.40q; allowed are always, never and first", o.what,
				scheme)
		}
		if utf8.RuneCountInString(mark) != 1 {
			return nil, fmt.Errorf("%s has the replacement %.40q; allowed is one character", o.what, mark)
		}
		s = metaspace(mark, scheme, o.boolean("split", true))
	case "Digits":
		b := contiguous
		if o.boolean("individual_digits", false) {
			b = isolated
		}
		s = splitBy(chars(isNumeric), b, false)
	case "Punctuation":
		b, err := o.behaviour("Isolated")
		if err != nil {
			return nil, err
		}
		s = splitBy(chars(isPunctuation), b, false)
	case "Whitespace":
		s = splitBy(words{}, removed, true)
	case "WhitespaceSplit":
		s = splitBy(chars(unicode.IsSpace), removed, false)
	case "BertPreTokenizer":
		s = chain(
			[]splitter{splitBy(chars(unicode.IsSpace), removed, false), splitBy(chars(isPunctuation), isolated, false)})
	case "CharDelimiterSplit":
		s = splitBy(literal(o.str("delimiter", "")), removed, false)
	default:
		return nil, unsupported("pre-tokenizer %.40q is not supported", kind)
	}
	return s, o.done()
}

func readDecoder(o *object) ([]decoderSpec, error) {
	var d decoderSpec
	switch kind := o.str("type", ""); kind {
	case "Sequence":
		lists, err := readList(o, "decoders", readDecoder)
		if err != nil {
			return nil, err
		}
		var all []decoderSpec
		for _, l := range lists {
			all = append(all, l...)
		}
		if len(all) == 0 || len(all) > maxParts {
			return nil, unsupported("decoder is a sequence of %d; allowed are 1 to %d", len(all), maxParts)
		}
		return all, o.done()
	case "ByteLevel":
		o.boolean("add_prefix_space", true)
		o.boolean("trim_offsets", true)
		o.boolean("use_regex", true)
		d = joinBytes
	case "ByteFallback":
		d = byteFallback
	case "Fuse":
		d = fuseTokens
	case "Strip":
		char, n := utf8.DecodeRuneInString(o.str("content", ""))
		if len(o.str("content", "")) != n || n == 0 {
			return nil, fmt.Errorf("%s has the content %.40q; allowed is one character", o.what, o.str("content", ""))
		}
		d = stripTokens(char, o.integer("start", 0, maxToken), o.integer("stop", 0, maxToken))
	case "Replace":
		pat, err := o.pattern()
		if err != nil {
			return nil, err
		}
		old, ok := pat.(literal)
		if !ok {
			return nil, unsupported("decoder Replace with a regular expression is not supported")
		}
		if old == "" {
			return nil, fmt.Errorf("decoder Replace has an empty pattern")
		}
		d = replaceTokens(string(old), o.str("content", ""))
	case "WordPiece":
		d = joinWordPieces(o.str("prefix", "##"), o.boolean("cleanup", true))
	case "Metaspace":
		mark := o.str("replacement", "▁")
		add := o.boolean("add_prefix_space", true)
		scheme := o.str("prepend_scheme", map[bool]string{true: "always", false: "never"}[add])
		o.str("str_rep", "")
		o.boolean("split", true)
		d = mapTokens(func(n int, token string) string {
			if n == 0 && scheme != "never" {
				return strings.ReplaceAll(token, mark, "")
			}
			return strings.ReplaceAll(token, mark, " ")
		})
	default:
		return nil, unsupported("decoder %.40q is not supported", kind)
	}
	return []decoderSpec{d}, o.done()
}
