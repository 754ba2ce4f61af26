package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// words is a vocabulary like that of a language model: all bytes, and pieces of JSON, of which some hold half a
// character.
func words() *Vocabulary {
	list := []string{`":`, `",`, `{"`, `"}`, ` "`, `": `, `": "`, `", "`, "true", "fal", "se", "nul", "null", "\n  ",
		"\n", "    ", "12", "-0", "e+", `\u`, `\ud8`, `\n`, "\xc3", "é", "é\xe2", "\x82\xac", "\xf0\x9f", "\x98\x80",
		"[{", "}]", "],", "abc", "ab", "name", `"name"`, `"a":`, "20", "24-0", "T1", ":00", "0.5", "1e", "[]", "{}",
		`{"a":1`,
		`"b`, "//", "0123456789", "]]", "}}", "", "0"}
	return NewVocabulary(256+len(list), func(id int, first bool) []byte {
		if id < 256 {
			return []byte{byte(id)}
		}
		if w := list[id-256]; first {
			return []byte(strings.TrimPrefix(w, " "))
		} else {
			return []byte(w)
		}
	})
}

// draw makes a text of a grammar with random tokens of the masks. After a while it prefers what ends the text. It
// returns false if the text does not end.
func draw(t *testing.T, e *Engine, rng *rand.Rand) (string, bool) {
	t.Helper()
	m, err := e.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	soon := rng.IntN(60)
	for n := range 3000 {
		may, must := m.Ends()
		if must || may && (n > soon || rng.IntN(4) == 0) {
			return string(text), true
		}
		mask, err := m.Mask()
		if err != nil {
			t.Fatal(err)
		}
		var allowed []int
		for id := range e.v.size {
			fits := mask[id>>6]>>(id&63)&1 == 1
			if fits {
				allowed = append(allowed, id)
			}
			if n < 4 || rng.IntN(200) == 0 { // the matcher says the same
				if ok, err := m.Fits(id); err != nil || ok != fits {
					t.Fatalf("after %q: token %q fits %v, and by the mask %v; %v", text,
						e.v.bytes[m.table()][id], ok, fits, err)
				}
			}
		}
		if len(allowed) == 0 {
			t.Fatalf("after %q nothing may follow, and the text may not end", text)
		}
		id := allowed[rng.IntN(len(allowed))]
		if n > soon {
			for _, c := range []byte(`"}],:0`) {
				if slices.Contains(allowed, int(c)) {
					id = int(c)
					if rng.IntN(8) > 0 {
						break
					}
				}
			}
		}
		text = append(text, e.v.bytes[m.table()][id]...)
		if ok, err := m.Accept(id); err != nil || !ok {
			t.Fatalf("token %d of the mask does not fit: %v", id, err)
		}
	}
	return string(text), false
}

// validator returns a validator of another implementation.
func validator(t *testing.T, schema string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(schema, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(schema, err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(schema, err)
	}
	return s
}

// drawAll draws texts of a schema and validates each. It returns how many there were.
func drawAll(t *testing.T, schema string, rng *rand.Rand, n int) (ended int) {
	t.Helper()
	g, err := ParseSchema([]byte(schema))
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	valid := validator(t, schema)
	e := NewEngine(g, words())
	for range n {
		text, ok := draw(t, e, rng)
		if !ok {
			continue
		}
		ended++
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = valid.Validate(v)
		}
		if err != nil {
			t.Fatalf("%s\ngives %s\nwhich is not valid: %v", schema, text, err)
		}
	}
	return ended
}

func TestSchema(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		schema  string
		yes, no string // texts, separated by |
	}{
		{`true`, `1|{"a":[null, {}]}|"x"`, `|{|01|'a'`},
		{`{}`, `[1,2]|-0.5e+10|"\u00e9\ud83d\ude00"`, `"\ud83d"|[1,]|nan`},
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}`,
			`{"a":1}|{"a": 12,"b":""}|{ "a":-3, "b":"x" }`, `{}|{"b":"x"}|{"a":1.5}|{"a":1,"c":2}|{"b":"","a":1}`},
		{`{"properties":{"a":{},"b":{"const":"x"},"c":{"enum":[1,"two",null,{"k":[1]}]}},"additionalProperties":{"type":"boolean"}}`,
			`{}|{"a":1,"z":true}|{"b":"x","c":{"k":[1]},"d":false}|{"z":true}`, `{"z":1}|{"b":"y"}|{"b":true}|{"a":1,"a":true}`},
		{`{"type":"object","additionalProperties":false,"required":["k"],"properties":{"k":{"type":["string","null"],"maxLength":2}}}`,
			`{"k":null}|{"k":"ab"}|{"k":"\n\""}`, `{"k":"abc"}|{}`},
		{`{"type":"object","required":["x"],"properties":{"y":true}}`, `{"y":1,"x":2}|{"x":[]}`, `{"y":1}`},
		{`{"type":"array","items":{"type":"integer","minimum":-5,"exclusiveMaximum":17},"minItems":1,"maxItems":3}`,
			`[-5]|[0, 16,3]|[ 9 ]`, `[]|[17]|[-6]|[1,2,3,4]|[01]|[-0]`},
		{`{"type":"array","prefixItems":[{"const":1},{"type":"string"}],"items":false,"minItems":1}`,
			`[1]|[1,"x"]`, `[]|[2]|[1,"x",1]`},
		{`{"items":[{"const":1}],"additionalItems":{"type":"null"}}`, `[]|[1]|[1,null,null]`, `[null]`},
		{`{"type":"array","prefixItems":[{"const":1}],"maxItems":0}`, `[]`, `[1]`},
		{`{"anyOf":[{"type":"number"},{"type":"string","minLength":2,"maxLength":3}]}`, `1.5|"ab"|"\u00e9\n"`, `"a"|"abcd"|true`},
		{`{"type":"string","pattern":"^[a-c]{2,3}(-|\"\\d+\")?$"}`, `"ab"|"abc-"|"ab\"12\""`, `"a"|"abcd"|"ab\"\""`},
		{`{"type":"string","pattern":"b"}`, `"abc"|"b"`, `"ac"|""`},
		{`{"type":"string","pattern":"^(?:a|b)|c$"}`, `"ax"|"xc"`, `"xa"|"cx"`},
		{`{"type":"string","format":"date"}`, `"2024-02-29"|"2000-02-29"|"1999-12-31"`, `"2023-02-29"|"1900-02-29"|"2024-13-01"|"2024-04-31"`},
		{`{"type":"string","format":"date-time"}`, `"2024-02-29T23:59:59.5+01:00"|"2024-01-01T00:00:00Z"`, `"2024-01-01"|"2024-01-01T24:00:00Z"`},
		{`{"type":"string","format":"uuid"}`, `"01234567-89ab-CDEF-0123-456789abcdef"`, `"01234567"`},
		{`{"type":"string","format":"ipv4"}`, `"127.0.0.1"|"255.255.255.0"`, `"256.0.0.1"|"1.2.3"|"01.2.3.4"`},
		{`{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"sub":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v"]}}}`,
			`{"v":1}|{"v":1,"sub":[{"v":2,"sub":[]},{"v":3}]}`, `{"sub":[]}|{"v":1,"sub":[1]}`},
		{`{"type":"object","properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["next"]}`,
			`{"next":null}|{"next":{"next":null}}`, `{}|{"next":1}`},
		{`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":3,"type":"number"},"b":{"type":"null"}},"required":["b"],"type":"object"}]}`,
			`{"a":3,"b":null}`, `{"a":2,"b":null}|{"a":3}|{"a":3.5,"b":null}`},
		{`{"allOf":[{"type":"object","properties":{"a":{}},"additionalProperties":false},{"type":"object","properties":{"b":{}}}]}`,
			`{}|{"a":1}`, `{"b":1}`},
		{`{"$ref":"#/$defs/p","maxLength":2,"$defs":{"p":{"type":"string","minLength":1}}}`, `"a"|"ab"`, `""|"abc"`},
		{`{"type":"object","properties":{"kind":{"type":"string"}},"required":["kind"],"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"]},{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}]}`,
			`{"kind":"a","x":1}|{"kind":"b"}`, `{"kind":"a"}|{"kind":"c"}|{"kind":"b","x":1}`},
		{`{"type":"integer","nullable":true}`, `1|null`, `"a"`},
		{`{"type":"integer","minimum":95,"maximum":1234}`, `95|100|999|1000|1234`, `94|1235|9|095|10000`},
		{`{"type":"integer","maximum":-7}`, `-7|-8|-100`, `-6|0|7`},
		{`{"type":["integer","number"],"title":"t","description":"d","default":1}`, `1.5`, `"a"`},
		{`{"type":"object","properties":{"a":false,"b":true}}`, `{}|{"b":1}`, `{"a":1}`},
		{`{"type":"object","properties":{"":{"type":"null"},"é/~":{"type":"null"}},"additionalProperties":{"type":"integer"}}`,
			`{"":null,"é/~":null,"é":1,"e":2}`, `{"":1}|{"é/~":1}`},
		{`{"properties":{"loop":{"$ref":"#/$defs/x"},"a":{"type":"null"}},"$defs":{"x":{"type":"object","properties":{"y":{"$ref":"#/$defs/x"}},"required":["y"]}}}`,
			`{}|{"a":null}`, `{"loop":{}}`},
	} {
		if strings.Contains(c.schema, "nullable") || strings.Contains(c.schema, "additionalItems") {
			// not of this draft
		} else if n := drawAll(t, c.schema, rng, 60); n < 5 {
			t.Errorf("%s: only %d of 60 texts ended", c.schema, n)
		}
		g, err := ParseSchema([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, s := range strings.Split(c.yes, "|") {
			if ok, n := fits(t, g, s); !ok {
				t.Errorf("%s: %q does not fit at byte %d", c.schema, s, n)
			}
		}
		for _, s := range strings.Split(c.no, "|") {
			if ok, _ := fits(t, g, s); ok {
				t.Errorf("%s: %q fits", c.schema, s)
			}
		}
	}
}

func TestSchemaErrors(t *testing.T) {
	for schema, want := range map[string]string{
		``:                      "the schema is not JSON: unexpected EOF",
		`{} 1`:                  "there is more after the value",
		`{"type":"a","type":1}`: `has the key "type" twice`,
		`3`:                     "#: is 3; want an object, true or false",
		`{"type":"thing"}`:      `#/type: is "thing"; want one of null, boolean`,
		`{"type":3}`:            `#/type: is 3; want the name of a type`,
		`{"properties":{"a/b":{"items":{"not":{}}}}}`:        `#/properties/a~1b/items/not: the keyword "not" is not supported`,
		`{"$ref":"#/$defs/x","$defs":{"x":{"if":true}}}`:     `#/$defs/x/if: the keyword "if"`,
		`{"uniqueItems":true}`:                               `#/uniqueItems: the keyword`,
		`{"patternProperties":{}}`:                           `#/patternProperties`,
		`{"type":"number","multipleOf":2}`:                   `#/multipleOf`,
		`{"type":"number","minimum":2}`:                      `#/minimum: limits are supported for the type integer only`,
		`{"type":"integer","minimum":1e30}`:                  `#/minimum: is 1e30; want a number from -1e18`,
		`{"type":"integer","minimum":"1"}`:                   `#/minimum: is "1"`,
		`{"type":"integer","minimum":5,"maximum":4}`:         `no finite text fits`,
		`{"minLength":-1}`:                                   `#/minLength: is -1; want a whole number`,
		`{"minLength":1.5}`:                                  `#/minLength: is 1.5`,
		`{"minLength":3,"maxLength":2}`:                      `#/maxLength: is 2 and minLength 3`,
		`{"maxLength":100000}`:                               `#/maxLength: is 100000; allowed are 16384`,
		`{"format":"hostname"}`:                              `#/format: is "hostname"; supported are date, date-time, ipv4, time, uuid`,
		`{"pattern":"(?=a)"}`:                                `#/pattern: a group (?=a is not supported`,
		`{"pattern":"(a)\\1"}`:                               `#/pattern: a reference \1`,
		`{"pattern":"a\\b"}`:                                 `#/pattern: \b is not supported`,
		`{"pattern":"a^"}`:                                   `is not supported; supported are ^ at the beginning`,
		`{"pattern":"("}`:                                    `#/pattern: "(" cannot be used`,
		`{"pattern":"a","minLength":1}`:                      `#/pattern: cannot be combined with minLength`,
		`{"enum":[]}`:                                        `#/enum: is []; want a list of values`,
		`{"enum":[1],"type":"string"}`:                       `#/enum: has no value of the type string`,
		`{"enum":["a"],"minLength":1}`:                       `#/enum: cannot be combined with "minLength"`,
		`{"$ref":"other.json"}`:                              `#/$ref: refers to "other.json"; want # or #/`,
		`{"$ref":"#/$defs/x"}`:                               `#/$ref: refers to "#/$defs/x", which is not in the schema`,
		`{"$ref":"#"}`:                                       `the schema at #: no finite text fits`,
		`{"allOf":[{"$ref":"#"}],"type":"string"}`:           `refers to itself without an object`,
		`{"oneOf":[{"type":"number"},{"type":"integer"}]}`:   `#/oneOf: a value may fit both alternatives 0 and 1`,
		`{"oneOf":[{"properties":{}},{"type":"string"}]}`:    `may fit both`,
		`{"allOf":[{"type":"string"},{"type":"null"}]}`:      `the schema at #: no finite text fits`,
		`{"allOf":[{"pattern":"a"},{"pattern":"b"}]}`:        `"pattern" is "a" in one place and "b" in another`,
		`{"properties":{"a":{"$ref":"#"}},"required":["a"]}`: `no finite text fits`,
		`false`:              `no finite text fits`,
		`{"anyOf":{}}`:       `#/anyOf: is {}; want a list of schemas`,
		`{"required":[1]}`:   `#/required: is [1]; want a list of texts`,
		`{"prefixItems":[]}`: `#/prefixItems: is []; want a list of schemas`,
		strings.Repeat(`{"items":`, 600) + "{}" + strings.Repeat("}", 600): `nested more than 500 deep`,
	} {
		if _, err := ParseSchema([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v; want %q", schema, err, want)
		}
	}
}

// A maker makes random schemas.
type maker struct {
	rng  *rand.Rand
	defs int
}

func (m *maker) one(list ...string) string { return list[m.rng.IntN(len(list))] }

func (m *maker) schema(depth int) map[string]any {
	kind := m.rng.IntN(12)
	if depth <= 0 {
		kind = m.rng.IntN(7)
	}
	s := map[string]any{}
	switch kind {
	case 0:
		s["type"] = m.one("null", "boolean", "number", "integer", "string")
	case 1:
		s["type"] = "integer"
		lo := m.rng.IntN(3000) - 1500
		s[m.one("minimum", "exclusiveMinimum")] = lo
		if m.rng.IntN(2) == 0 {
			s[m.one("maximum", "exclusiveMaximum")] = lo + 2 + m.rng.IntN(2000)
		}
	case 2:
		s["type"] = "string"
		lo := m.rng.IntN(4)
		s["minLength"] = lo
		if m.rng.IntN(2) == 0 {
			s["maxLength"] = lo + m.rng.IntN(5)
		}
	case 3:
		s["type"], s["format"] = "string", m.one("date", "time", "date-time", "uuid", "ipv4")
	case 4:
		s["type"], s["pattern"] = "string", m.one(`^[a-f]+$`, `x`,
			`^\d{2,4}-[^"a-z\s]{1,3}$`, `\S\s\w\W`, `^(ab|c\\)*$`, `.`, `a$`)
	case 5:
		s["enum"] = []any{1, "a\n", nil, true, 2.5, []any{"x"}, map[string]any{"k": 1}}[m.rng.IntN(5):]
	case 6:
		s["const"] = m.one("ä", "\"q\"", "</b>", "")
	case 7:
		s["type"] = "array"
		if m.rng.IntN(3) > 0 {
			s["items"] = m.schema(depth - 1)
		}
		if m.rng.IntN(3) == 0 {
			s["prefixItems"] = []any{m.schema(depth - 1), m.schema(depth - 1)}[:1+m.rng.IntN(2)]
		}
		lo := m.rng.IntN(3)
		s["minItems"] = lo
		if m.rng.IntN(2) == 0 {
			s["maxItems"] = lo + m.rng.IntN(3)
		}
	case 8, 9:
		s["type"] = "object"
		p, required := map[string]any{}, []any{}
		for range m.rng.IntN(4) {
			k := m.one("a", "ab", "abc", "b", "name", "ü", "x y", "")
			p[k] = m.schema(depth - 1)
			if m.rng.IntN(2) == 0 && !slices.Contains(required, any(k)) {
				required = append(required, k)
			}
		}
		s["properties"] = p
		if m.rng.IntN(4) == 0 && !slices.Contains(required, "zz") {
			required = append(required, "zz")
		}
		s["required"] = required
		switch m.rng.IntN(3) {
		case 0:
			s["additionalProperties"] = m.schema(depth - 2)
		case 1:
			s["additionalProperties"] = true
		}
	case 10:
		s["anyOf"] = []any{m.schema(depth - 1), m.schema(depth - 1)}
	case 11:
		if m.rng.IntN(2) == 0 {
			s["$ref"] = fmt.Sprintf("#/$defs/d%d", m.rng.IntN(m.defs))
		} else {
			s["allOf"] = []any{m.schema(depth - 1), m.schema(depth - 2)}
		}
	}
	return s
}

// TestSchemaFuzz draws texts of random schemas, and validates each by another implementation.
func TestSchemaFuzz(t *testing.T) {
	schemas, texts := 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m := &maker{rng: rng, defs: 2}
		s := m.schema(3)
		s["$defs"] = map[string]any{"d0": m.schema(2), "d1": m.schema(2)}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSchema(b); err != nil {
			if !strings.Contains(err.Error(), "no finite text") && !strings.Contains(err.Error(), "combined") &&
				!strings.Contains(err.Error(), "not supported") && !strings.Contains(err.Error(), "itself") &&
				!strings.Contains(err.Error(), "has no value") && !strings.Contains(err.Error(), "is not among") &&
				!strings.Contains(err.Error(), "limits are") && !strings.Contains(err.Error(), "and minLength") {
				t.Fatalf("%s: %v", b, err)
			}
			continue
		}
		schemas++
		texts += drawAll(t, string(b), rng, 8)
	}
	if schemas < 200 || texts < 1500 {
		t.Errorf("only %d schemas and %d texts", schemas, texts)
	}
	t.Logf("%d schemas, %d texts", schemas, texts)
}

func FuzzParseSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"anyOf":[{"type":"integer","minimum":3},{"$ref":"#"}]}},"required":["a"]}`))
	f.Add([]byte(`{"allOf":[{"type":"string","pattern":"^a|b{2,3}[^c]\\u00e9$"},{"minLength":1}],"oneOf":[true,false]}`))
	f.Add([]byte(`{"prefixItems":[{"const":1},{"enum":["a",null]}],"items":{"format":"date"},"minItems":2}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		g, err := ParseSchema(schema)
		if err != nil {
			return
		}
		m, err := NewEngine(g, words()).Begin()
		for i := 0; err == nil && i < 20; i++ {
			mask, err := m.Mask()
			if err != nil {
				return
			}
			may, _ := m.Ends()
			id := slices.IndexFunc(mask, func(bits uint64) bool { return bits != 0 })
			if id < 0 {
				if !may {
					t.Fatal("nothing may follow")
				}
				return
			}
			id *= 64
			for mask[id>>6]>>(id&63)&1 == 0 {
				id++
			}
			if ok, err := m.Accept(id); !ok && err == nil {
				t.Fatal("a token of the mask does not fit")
			}
		}
	})
}

// TestForget checks that matchers go on when all states are forgotten.
func TestForget(t *testing.T) {
	g, err := ParseSchema([]byte(`{"type": "object"}`))
	if err != nil {
		t.Fatal(err)
	}
	e := NewEngine(g, bytesOnly())
	m, err := e.Begin()
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"a":[[{"b":["c",{"d":null}]}]]}`)
	for i, c := range text {
		before := m
		if i%3 == 0 {
			e.bytes = maxKept + 1
		}
		if ok, err := m.Accept(int(c)); !ok || err != nil {
			t.Fatal(string(text[:i]), ok, err)
		}
		a, err := before.Mask()
		b, err2 := before.Mask()
		if err != nil || err2 != nil || !slices.Equal(a, b) || a[c>>6]>>(c&63)&1 == 0 {
			t.Fatal(string(text[:i]), err, err2)
		}
	}
	if _, must := m.Ends(); !must {
		t.Error("the text does not end")
	}
}

func TestCalls(t *testing.T) {
	g, err := Calls("<call>", "arguments", "</call>", []Tool{
		{Name: "time"}, {"weather", []byte(`{"type": "object", "properties": {"city": {"$ref": "#/$defs/c"}},
			"required": ["city"], "$defs": {"c": {"enum": ["Bern", "Z\u00fcrich"]}}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]bool{
		`<call>{"name": "time", "arguments": {}}</call>`:                    true,
		`<call>{"name": "weather", "arguments": {"city": "Zürich"}}</call>`: true,
		`<call>{"name": "weather", "arguments": {"city": "Paris"}}</call>`:  false,
		`<call>{"name": "time", "arguments": {"city": "Bern"}}</call>`:      false,
		`<call>{"name": "weather", "arguments": {"city": "Bern"}}</call>\n`: false,
	} {
		if ok, _ := fits(t, g, s); ok != want {
			t.Errorf("%s fits: %v", s, ok)
		}
	}
	if _, err := Calls("", "a", "", []Tool{{"x", []byte(`{"not": {}}`)}}); err == nil {
		t.Error("a schema that is not supported is taken")
	}
}
