package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/regular"
)

// Config holds configuration values that tensor shapes do not determine. Keys are paths in a Transformers config.json,
// such as mask_decoder_config.num_attention_heads.
type Config struct {
	// Files reads a file beside the checkpoint, such as tokenizer.json, of at most the given number of bytes. If the
	// file does not exist, the error matches fs.ErrNotExist. A nil Files means that there are no files.
	Files func(name string, most int64) ([]byte, error)

	values map[string]configValue
}

// File reads a file beside the checkpoint, of at most most bytes. ok is false if the file does not exist. The error
// names the file.
func (c Config) File(name string, most int64) (data []byte, ok bool, err error) {
	if c.Files == nil {
		return nil, false, nil
	}
	data, err = c.Files(name, most)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, diag.New(ErrConfig, name, "%w", err)
	}
	return data, true, nil
}

// fromSet is the origin of values that --set gave.
const fromSet = "--set"

type configValue struct {
	raw    any    // as decoded by encoding/json, but object{} for an object; numbers are json.Number
	origin string // a file name, or a flag such as --set
}

// object stands for a JSON object, whose members have keys of their own. It lets a reader of a number tell {} from an
// absent key.
type object struct{}

// absent reports whether there is no value: the key is missing, or null.
func (v configValue) absent() bool { return v.raw == nil }

// String returns the value for an error message, shortened: a list may have megabytes.
func (v configValue) String() string {
	if v.raw == any(object{}) {
		return "an object"
	}
	s := fmt.Sprint(v.raw)
	if len(s) > 80 {
		s = s[:80] + "..."
	}
	return s
}

// Limits of a config.json in bytes. Published ones have a few kilobytes, and keys of at most a hundred bytes.
const (
	maxConfig = 4 << 20
	maxKey    = 512
)

// Load reads a config.json, a regular file of at most 4 MiB. The keys of nested objects are joined with dots.
func (c *Config) Load(path string) error {
	raw, err := regular.ReadFile(path, maxConfig)
	if err != nil {
		return diag.New(ErrConfig, path, "%w", err)
	}
	return c.Decode(raw, path)
}

// Decode parses the text of a config.json. Errors name origin.
func (c *Config) Decode(raw []byte, origin string) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var root map[string]any
	if err := d.Decode(&root); err != nil {
		return diag.New(ErrConfig, origin, "is not a JSON object: %w", JSONError(err))
	}
	if root == nil {
		return diag.New(ErrConfig, origin, "is not a JSON object: it is null")
	}
	if err := c.flatten("", root, origin); err != nil {
		return diag.New(ErrConfig, origin, "%w", err)
	}
	return nil
}

// flatten adds the values of obj under prefix. Two keys that are equal once they are joined are an error, because the
// order of an object's members means nothing. It limits the length of joined keys: a file of 4 MB with deeply nested
// objects could otherwise need gigabytes for keys.
func (c *Config) flatten(prefix string, obj map[string]any, origin string) error {
	for k, v := range obj {
		if len(prefix)+len(k) > maxKey {
			return fmt.Errorf("has a key of more than %d bytes, counted with the objects around it: %.40q", maxKey,
				prefix+k)
		}
		if _, twice := c.values[prefix+k]; twice {
			return fmt.Errorf("has the key %.80q twice: once with a dot in its name, once inside an object", prefix+k)
		}
		if sub, ok := v.(map[string]any); ok {
			c.put(prefix+k, object{}, origin)
			if err := c.flatten(prefix+k+".", sub, origin); err != nil {
				return err
			}
			continue
		}
		c.put(prefix+k, v, origin)
	}
	return nil
}

func (c *Config) put(key string, v any, origin string) {
	if c.values == nil {
		c.values = map[string]configValue{}
	}
	c.values[key] = configValue{v, origin}
}

// Set applies one --set KEY=VALUE, which overrides files. The family must know the key. The value null is allowed for
// any key, and removes it.
func (c *Config) Set(arg string, known map[string]string) error {
	key, value, ok := strings.Cut(arg, "=")
	if !ok || value == "" {
		return diag.New(diag.Usage, "--set", "%q; want KEY=VALUE", arg)
	}
	if known[key] == "" && value != "null" {
		return diag.New(diag.Usage, "--set", "unknown key %q; known are %s", key,
			strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		v = value
	}
	if _, ok := v.(map[string]any); ok {
		return diag.New(diag.Usage, "--set", "%s is an object; want a number, a text, true, false or a list", key)
	}
	c.put(key, v, fromSet)
	return nil
}

// SetFlag applies a flag that has the name of a key, such as --context, which overrides files and --set. Errors about
// the value name the flag. ok is false if the family does not know the key.
func (c *Config) SetFlag(key string, value int, known map[string]string) (ok bool) {
	if known[key] == "" {
		return false
	}
	c.put(key, json.Number(strconv.Itoa(value)), "--"+key)
	return true
}

// value returns the value of a key. No other function reads values. ok is false if the key is absent. An object in
// place of the value, or anything but an object around it, is an error; want says what is allowed.
func (c Config) value(key, want string) (v configValue, ok bool, err error) {
	for i, r := range key {
		if r != '.' {
			continue
		}
		if outer := c.values[key[:i]]; !outer.absent() && outer.raw != any(object{}) {
			return v, true, diag.New(ErrConfig, outer.origin, "%s is %s; want an object", key[:i], outer)
		}
	}
	v = c.values[key]
	if v.raw == any(object{}) {
		return v, true, v.wrong(key, want)
	}
	return v, !v.absent(), nil
}

// wrong returns the error of a value that has the wrong type or is out of range.
func (v configValue) wrong(key, want string) error {
	return diag.New(ErrConfig, v.origin, "%s is %s; want %s", key, v, want)
}

// String returns the value of a key. ok is false if it is absent.
func (c Config) String(key string) (string, bool, error) {
	const want = "a string"
	v, ok, err := c.value(key, want)
	if !ok || err != nil {
		return "", ok, err
	}
	s, isString := v.raw.(string)
	if !isString {
		return "", true, v.wrong(key, want)
	}
	return s, true, nil
}

// Float returns the value of a key. ok is false if it is absent.
func (c Config) Float(key string) (float64, bool, error) {
	const want = "a number"
	v, ok, err := c.value(key, want)
	if !ok || err != nil {
		return 0, ok, err
	}
	if n, isNumber := v.raw.(json.Number); isNumber {
		if f, err := n.Float64(); err == nil {
			return f, true, nil
		}
	}
	return 0, true, v.wrong(key, want)
}

// Int returns the value of a key, which must be from lo to hi. ok is false if it is absent.
func (c Config) Int(key string, lo, hi int64) (int64, bool, error) {
	return c.int(key, lo, hi, fmt.Sprintf("an integer from %d to %d", lo, hi))
}

func (c Config) int(key string, lo, hi int64, want string) (int64, bool, error) {
	v, ok, err := c.value(key, want)
	if !ok || err != nil {
		return 0, ok, err
	}
	if n, isNumber := v.raw.(json.Number); isNumber {
		if i, err := n.Int64(); err == nil && i >= lo && i <= hi {
			return i, true, nil
		}
	}
	return 0, true, v.wrong(key, want)
}

// Bool returns the value of a key. ok is false if it is absent.
func (c Config) Bool(key string) (value, ok bool, err error) {
	const want = "true or false"
	v, ok, err := c.value(key, want)
	if !ok || err != nil {
		return false, ok, err
	}
	if b, isBool := v.raw.(bool); isBool {
		return b, true, nil
	}
	return false, true, v.wrong(key, want)
}

// Ints returns the value of a key that holds an integer or a list of integers, each from lo to hi, or nil if it is
// absent.
func (c Config) Ints(key string, lo, hi int64) (out []int, err error) {
	want := fmt.Sprintf("an integer from %d to %d, or a list of them", lo, hi)
	v, ok, err := c.value(key, want)
	if !ok || err != nil {
		return nil, err
	}
	list, isList := v.raw.([]any)
	if !isList {
		list = []any{v.raw}
	}
	for _, x := range list {
		n, isNumber := x.(json.Number)
		i, err := n.Int64()
		if !isNumber || err != nil || i < lo || i > hi {
			return nil, v.wrong(key, want)
		}
		out = append(out, int(i))
	}
	return out, nil
}

// Floats returns the value of a key that holds a list of numbers, or nil if it is absent.
func (c Config) Floats(key string) (out []float64, err error) {
	const want = "a list of numbers"
	v, ok, err := c.value(key, want)
	if !ok || err != nil {
		return nil, err
	}
	list, isList := v.raw.([]any)
	out = []float64{} // not nil, because the key is there
	for _, x := range list {
		n, isNumber := x.(json.Number)
		f, err := n.Float64()
		isList = isList && isNumber && err == nil
		out = append(out, f)
	}
	if !isList {
		return nil, v.wrong(key, want)
	}
	return out, nil
}

// Strings returns the value of a key that holds a list of strings. ok is false if it is absent.
func (c Config) Strings(key string) (out []string, ok bool, err error) {
	const want = "a list of strings"
	v, ok, err := c.value(key, want)
	if !ok || err != nil {
		return nil, ok, err
	}
	list, isList := v.raw.([]any)
	for _, x := range list {
		s, isString := x.(string)
		isList = isList && isString
		out = append(out, s)
	}
	if !isList {
		return nil, true, v.wrong(key, want)
	}
	return out, true, nil
}

// Given reports whether a key is present, even with value null.
func (c Config) Given(key string) bool {
	_, ok := c.values[key]
	return ok
}

// Lift moves the values of a nested object to the top, as if it were the whole configuration. They override values at
// the top, except those given by flags. It fails if the key has another value than an object.
func (c *Config) Lift(key string) error {
	if v := c.values[key]; !v.absent() && v.raw != any(object{}) {
		return v.wrong(key, "an object")
	}
	outer := key + "."
	for key, v := range maps.Clone(c.values) {
		if inner, ok := strings.CutPrefix(key, outer); ok {
			delete(c.values, key)
			if old, ok := c.values[inner]; !ok || !strings.HasPrefix(old.origin, "--") {
				c.values[inner] = v
			}
		}
	}
	return nil
}

// Has reports whether there is a value for a key, or for keys of an object of that name.
func (c Config) Has(key string) bool {
	for k, v := range c.values {
		if !v.absent() && v.raw != any(object{}) && (k == key || strings.HasPrefix(k, key+".")) {
			return true
		}
	}
	return false
}

// Unknown fails on the first key, in sorted order, that known rejects. It accepts values that switch something off:
// null, false, and empty lists and objects.
func (c Config) Unknown(known func(key string) bool) error {
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		v := c.values[key]
		list, isList := v.raw.([]any)
		if off, isBool := v.raw.(bool); v.absent() || v.raw == any(object{}) || isBool && !off || isList &&
			len(list) == 0 || known(key) {
			continue
		}
		return diag.New(
			ErrConfig, v.origin, "%s is %s; this key is not known, and it may change what the model computes", key, v).
			WithHint("if it changes nothing, rerun with --set %s=null", key)
	}
	return nil
}

// Agree compares the value of a key with the one that the tensors determine.
func (c Config) Agree(key string, fromTensors int64) error {
	v, ok, err := c.int(key, math.MinInt64, math.MaxInt64,
		fmt.Sprintf("the integer %d, which the tensors say", fromTensors))
	if err == nil && ok && v != fromTensors {
		return diag.New(ErrConfig, c.values[key].origin, "%s is %d; the tensors say %d", key, v, fromTensors).
			WithHint("this configuration belongs to another checkpoint; give the right one with --model-config")
	}
	return err
}

// Origin returns where the value of a key came from: a file name or --set.
func (c Config) Origin(key string) string {
	if v, ok := c.values[key]; ok {
		return v.origin
	}
	return "default"
}

// Fact returns a fact that shows a value and its origin. Facts are stored in the artifact, so a file appears without
// its folder: the same model gives the same bytes wherever it is.
func (c Config) Fact(name, key string, value any) Fact {
	return Fact{name, fmt.Sprintf("%v (%s)", value, filepath.Base(c.Origin(key)))}
}
