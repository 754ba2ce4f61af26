package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// tiny returns a small tokenizer with one part replaced, given as `"normalizer": {...}`.
func tiny(part string) string {
	doc := `"added_tokens": [{"id": 6, "content": "<x>", "lstrip": true, "special": true}], "normalizer": null, "pre_tokenizer": null,
"post_processor": null, "decoder": null, "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, " ": 3, "▁": 4, "▁a": 5}, "merges": ["a b", "▁ a"]}`
	if key, _, ok := strings.Cut(part, ":"); ok {
		if i := strings.Index(doc, key+":"); i >= 0 {
			end := strings.Index(doc[i:], ", \"")
			if key == `"added_tokens"` {
				end = strings.Index(doc[i:], "],") + 1
			}
			if j := strings.Index(doc[i:], `,`+"\n"); end < 0 || j >= 0 && j < end {
				end = j
			}
			if key == `"model"` {
				end = len(doc) - i
			}
			doc = doc[:i] + part + doc[i+end:]
		} else {
			doc = part + ", " + doc
		}
	}
	return "{" + doc + "}"
}

var parts = []string{
	"",
	`"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Nmt"}]}`,
	`"normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "bb"}`,
	`"normalizer": {"type": "Strip", "strip_left": true, "strip_right": false}`,
	`"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}`,
	`"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "Punctuation"}, {"type": "Whitespace"}]}`,
	`"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?i:a)b?|\\s+(?!\\S)|[^\\s\\p{L}]++"}, "behavior": "MergedWithNext", "invert": true}`,
	`"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}`,
	`"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"<x>": {"id": "<x>", "ids": [6], "tokens": ["<x>"]}}}`,
	`"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}]}`,
	`"decoder": {"type": "Metaspace", "replacement": "▁"}`,
	`"decoder": {"type": "ByteLevel"}`,
	`"normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}`,
	`"normalizer": {"type": "Precompiled", "precompiled_charsmap": "CAAAAAAEAABhAQAAYgA="}`,
	`"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}`,
	tinyUnigram, tinyWordPiece,
	`"model": {"unk_token": "b", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9, "vocab": {"a": 0, "b": 1, "##a": 2}}`,
}

const (
	tinyUnigram   = `"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["<unk>", 0], ["a", -1.5], ["ab", -2e0], ["▁a", -3], ["a", -1], ["<0x62>", -9]]}`
	tinyWordPiece = `"model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 4, "vocab": {"a": 0, "ab": 1, "##b": 2, "##ab": 3, "?": 4, "##": 5}}`
)

func TestTiny(t *testing.T) {
	for _, part := range parts {
		if _, err := Parse([]byte(tiny(part))); err != nil {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func TestErrors(t *testing.T) {
	split := func(expr string) string {
		return `"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "` + expr +
			`"}, "behavior": "Isolated", "invert": false}`
	}
	for _, c := range []struct {
		part string
		code diag.Code
		want string
	}{
		{`"model": {"type": "WordLevel", "vocab": {}, "unk_token": "a"}`, code.TokenizerFeature,
			`model has the type "WordLevel"; supported are BPE, Unigram and WordPiece`},
		{`"model": {"type": "Unigram", "vocab": [], "merges": []}`, code.TokenizerFeature,
			`model has merges, which a model of the type Unigram does not use`},
		{`"model": {"type": "Unigram"}`, code.Tokenizer, `model has no vocab`},
		{`"model": {"type": "Unigram", "vocab": {}}`, code.Tokenizer, `vocab is not an array of ["piece", score]`},
		{`"model": {"type": "Unigram", "vocab": [["a", "b"]]}`, code.Tokenizer, `vocab holds ["a", "b"]`},
		{`"model": {"type": "Unigram", "vocab": [["a", -1, 0]]}`, code.Tokenizer, `vocab holds ["a", -1, 0]`},
		{`"model": {"type": "Unigram", "vocab": [[1, -1]]}`, code.Tokenizer, `vocab holds [1, -1]`},
		{`"model": {"type": "Unigram", "vocab": ["a"]}`, code.Tokenizer, `vocab holds "a"`},
		{`"model": {"type": "Unigram", "vocab": [["a", -1e999]]}`, code.Tokenizer,
			`the score -1e999 of "a" is out of range`},
		{`"model": {"type": "Unigram", "vocab": [["a", -1]], "unk_id": 1}`, code.Tokenizer,
			`unk_id is 1; the vocabulary has 1 pieces`},
		{`"model": {"type": "Unigram", "vocab": [["a", -1]], "unk_id": -1}`, code.Tokenizer,
			`unk_id is not a whole number from 0 to 4194303`},
		{`"model": {"type": "Unigram", "vocab": [["a", -1]], "byte_fallback": 1}`, code.Tokenizer,
			`byte_fallback is not true or false`},
		{`"model": {"type": "Unigram", "vocab": [["` + strings.Repeat("a", 2049) + `", -1]]}`, code.Tokenizer,
			`vocab has a piece of 2049 bytes; at most 2048 are allowed`},
		{`"model": {"type": "WordPiece", "vocab": [], "unk_token": "a"}`, code.Tokenizer, `vocab is not an object`},
		{`"model": {"type": "WordPiece", "vocab": {"a": 0}}`, code.Tokenizer,
			`the unk_token "[UNK]" is not in the vocabulary`},
		{`"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a", "max_input_chars_per_word": -1}`,
			code.Tokenizer, `max_input_chars_per_word is not a whole number from 0 to 2147483647`},
		{`"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a", "novel": 1}`, code.TokenizerFeature,
			`model has the key "novel"`},
		{`"model": {"type": 1, "vocab": {}}`, code.Tokenizer, `model: type is not a string`},
		{`"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.1}`, code.TokenizerFeature,
			`dropout of 0.1`},
		{`"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}`, code.Tokenizer, `merge 0 joins "a" and "b"`},
		{`"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}`, code.Tokenizer,
			`"a" and "b" have the same id 0`},
		{`"model": {"type": "BPE", "vocab": {"a": 9999999}, "merges": []}`, code.Tokenizer,
			`vocab holds 9999999; allowed are whole numbers from 0 to 4194303`},
		{`"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "?"}`, code.Tokenizer,
			`the unk_token "?" is not in the vocabulary`},
		{`"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a a"]}`, code.Tokenizer, `merges holds "a a a"`},
		{`"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "novel": 1}`, code.TokenizerFeature,
			`model has the key "novel"`},
		{`"truncation": 5`, code.Tokenizer, `truncation is not an object`},
		{`"version": "2.0"`, code.TokenizerFeature, `version is 2.0`},
		{`"novel": 1`, code.TokenizerFeature, `has the key "novel"`},
		{`"normalizer": {"type": "Novel"}`, code.TokenizerFeature, `normalizer "Novel" is not supported`},
		{`"normalizer": {"type": "BertNormalizer", "lowercase": "no"}`, code.Tokenizer,
			`normalizer BertNormalizer: lowercase is not true or false`},
		{`"normalizer": {"type": "Precompiled"}`, code.Tokenizer,
			`normalizer Precompiled: precompiled_charsmap has 0 bytes; at least 4 are needed`},
		{`"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}`, code.Tokenizer,
			`precompiled_charsmap is not base64`},
		{`"normalizer": {"type": "Precompiled", "precompiled_charsmap": "CAAAAAAEAAA="}`, code.Tokenizer,
			`has a trie of 8 bytes; allowed are 4 to 4`},
		{`"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAEAAD/"}`, code.Tokenizer,
			`has replacements that are not valid UTF-8`},
		{`"decoder": {"type": "WordPiece", "prefix": 1}`, code.Tokenizer, `decoder WordPiece: prefix is not a string`},
		{`"normalizer": {"type": "Strip", "strip_left": 1}`, code.Tokenizer,
			`normalizer Strip: strip_left is not true or false`},
		{`"normalizer": {"type": "NFC", "more": 1}`, code.TokenizerFeature, `normalizer NFC has the key "more"`},
		{`"pre_tokenizer": {"type": "UnicodeScripts"}`, code.TokenizerFeature,
			`pre-tokenizer "UnicodeScripts" is not supported`},
		{split(`(a)\\1`), code.TokenizerFeature, `has the escape "\\1"`},
		{split(`[a[b]]`), code.TokenizerFeature, `a class within a class`},
		{split(`(?<n>a)`), code.TokenizerFeature, `has a group "(?<n"`},
		{split(`\\p{Novel}`), code.TokenizerFeature, `has the property "Novel"`},
		{split(`a{1,2000}`), code.TokenizerFeature, `has an interval "{1,2000}"`},
		{`"decoder": {"type": "CTC"}`, code.TokenizerFeature, `decoder "CTC" is not supported`},
		{`"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B", "type_id": 0}}], "special_tokens": {}}`,
			code.TokenizerFeature, `a text other than A`},
	} {
		_, err := Parse([]byte(tiny(c.part)))
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s with %s", c.part, err, c.code, c.want)
		}
	}
	if _, err := Parse([]byte(`{"model": `)); !errors.Is(err, code.Tokenizer) {
		t.Error(err)
	}
}

// TestAddedIDs checks that added tokens get the ids that the library gives them, whatever the file says.
func TestAddedIDs(t *testing.T) {
	tok, err := Parse(
		[]byte(
			tiny(
				`"added_tokens": [{"id": 7, "content": "a"}, {"id": 1, "content": "<x>"}, {"id": 9, "content": "<y>"}]`)))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{"a": 0, "<x>": 6, "<y>": 7} {
		if id, ok := tok.ID(token); !ok || id != want {
			t.Errorf("%s has the id %d, %v; want %d", token, id, ok, want)
		}
	}
	if tok.Size() != 8 {
		t.Errorf("%d ids; want 8", tok.Size())
	}
	for _, c := range []struct {
		old, new string
		code     diag.Code
		want     string
	}{
		// a vocabulary with a hole
		{`"b": 1`, `"b": 6`, code.Tokenizer, `added token "<x>" has the id 6 of the token "b"`},
		{`"normalizer": null`, `"normalizer": {"type": "Replace", "pattern": {"String": "<x>"}, "content": ""}`,
			code.TokenizerFeature, `added token "<x>" is empty when it is normalised`},
	} {
		doc := strings.Replace(tiny(""), c.old, c.new, 1)
		if _, err := Parse([]byte(strings.Replace(doc, `"lstrip": true`, `"normalized": true`, 1))); !errors.Is(
			err, c.code) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s with %s", c.new, err, c.code, c.want)
		}
	}
}

// TestNoUnknownToken checks the error for a character outside the vocabulary of a tokenizer that has no token for it.
// The library fails, too.
func TestNoUnknownToken(t *testing.T) {
	tok, err := Parse([]byte(tiny(`"model": {"type": "Unigram", "vocab": [["a", -1], ["ab", -1]]}`)))
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := tok.Encode("aa", false); err != nil || len(ids) != 2 {
		t.Error(ids, err)
	}
	if _, err := tok.Encode("aé", false); !errors.Is(err, code.TokenizerText) ||
		!strings.Contains(err.Error(), `the character "é", which is not in the vocabulary`) {
		t.Error(err)
	}
}

// TestScores checks that scores are parsed as the library parses them. The values on the right were written by it.
func TestScores(t *testing.T) {
	for in, want := range map[string]float64{
		"-15.275492379532281": -15.27549237953228, "-9.908701741838819": -9.90870174183882,
		"-1.8771917354846979": -1.877191735484698,
		"0":                   0, "-3": -3, "0.1": 0.1, "1e-7": 1e-7, "2.5E+2": 250, "1e-400": 0, "0e999": 0,
		"123456789012345678901234":                    1.2345678901234567e+23,
		"1844674407370955161912.5e-30":                1.8446744073709553e-9,
		"0.00000000000000000000000123456789012345678": 1.2345678901234567e-24,
	} {
		if got, ok := libraryFloat(in); !ok || got != want {
			t.Errorf("libraryFloat(%s) = %v, %v; want %v", in, got, ok, want)
		}
	}
	for _, in := range []string{"1e309", "-1e99999999999999999999", "1000e307"} {
		if got, ok := libraryFloat(in); ok {
			t.Errorf("libraryFloat(%s) = %v", in, got)
		}
	}
}

func TestInvalidText(t *testing.T) {
	tok, err := Parse([]byte(tiny("")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode("ab\xffab", false); !errors.Is(err, code.TokenizerText) ||
		!strings.Contains(err.Error(), "byte 2") {
		t.Error(err)
	}
}

// Truncation and padding, which the files of many embedding models set, change no ids: Transformers sets both anew in
// each call.
func TestBatchSettings(t *testing.T) {
	plain, err := Parse([]byte(tiny("")))
	if err != nil {
		t.Fatal(err)
	}
	set, err := Parse([]byte(tiny(`"truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0},
		"padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "a"}`)))
	if err != nil {
		t.Fatal(err)
	}
	want, err := plain.Encode("abab", true)
	if got, err2 := set.Encode("abab", true); err != nil || err2 != nil || !slices.Equal(got, want) {
		t.Errorf("ids are %v, %v; without the settings %v, %v", got, err2, want, err)
	}
}
