package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// flat parses the two large parts of a tokenizer.json, vocabulary and merges. It is several times faster than
// encoding/json, because it may assume that its input is valid JSON.
type flat struct{ in []byte }

// skip skips white space, commas and colons, and returns the byte that follows.
func (f *flat) skip() byte {
	for i, c := range f.in {
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' && c != ',' && c != ':' {
			f.in = f.in[i:]
			return c
		}
	}
	f.in = nil
	return 0
}

// take consumes c if it is the next byte.
func (f *flat) take(c byte) bool {
	if f.skip() != c {
		return false
	}
	f.in = f.in[1:]
	return true
}

func (f *flat) string() (string, bool) {
	if f.skip() != '"' {
		return "", false
	}
	end := 1
	for escaped := false; ; end++ {
		i := bytes.IndexAny(f.in[end:], `"\`)
		end += i
		if f.in[end] == '\\' {
			escaped = true
			end++
			continue
		}
		text := f.in[:end+1]
		f.in = f.in[end+1:]
		if !escaped {
			return string(text[1:end]), true
		}
		var s string
		err := json.Unmarshal(text, &s)
		return s, err == nil
	}
}

// number consumes a value that is not a string, array or object, and returns its text.
func (f *flat) number() string {
	f.skip()
	n := bytes.IndexAny(f.in, ", \n\r\t}]")
	if n < 0 {
		n = len(f.in)
	}
	s := string(f.in[:n])
	f.in = f.in[n:]
	return s
}

// readVocab parses an object that maps tokens to ids.
func readVocab(text []byte) (map[string]int32, error) {
	f := &flat{text}
	if !f.take('{') {
		return nil, fmt.Errorf("vocab is not an object")
	}
	vocab := make(map[string]int32, len(text)/24)
	for !f.take('}') {
		token, _ := f.string()
		if len(token) > maxToken {
			return nil, fmt.Errorf("vocab has a token of %d bytes; at most %d are allowed", len(token), maxToken)
		}
		if c := f.skip(); c < '0' || c > '9' {
			return nil, fmt.Errorf("vocab: the id of %.40q is not a whole number", token)
		}
		n := f.number()
		id, err := strconv.ParseUint(n, 10, 63)
		if err != nil || id > maxID {
			return nil, fmt.Errorf("vocab holds %.40s; allowed are whole numbers from 0 to %d", n, maxID)
		}
		if _, twice := vocab[token]; twice {
			return nil, fmt.Errorf("vocab has the key %.40q twice", token)
		}
		vocab[token] = int32(id)
	}
	return vocab, nil
}

// readMerges parses an array of "a b" or ["a", "b"].
func readMerges(text []byte) ([][2]string, error) {
	f := &flat{text}
	if !f.take('[') {
		return nil, fmt.Errorf("merges is not an array")
	}
	var merges [][2]string
	for !f.take(']') {
		before := f.in
		p, ok := f.merge()
		if !ok {
			return nil, fmt.Errorf(`merges holds %.60s; allowed are "a b" and ["a", "b"]`, before)
		}
		merges = append(merges, p)
	}
	return merges, nil
}

func (f *flat) merge() (p [2]string, ok bool) {
	if f.take('[') {
		var okA, okB bool
		p[0], okA = f.string()
		p[1], okB = f.string()
		return p, okA && okB && f.take(']')
	}
	s, ok := f.string()
	p[0], p[1], _ = strings.Cut(s, " ")
	return p, ok && strings.Count(s, " ") == 1
}
