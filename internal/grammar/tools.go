package grammar

// A Tool is what a call of it looks like in JSON.
type Tool struct {
	Name       string
	Parameters []byte // JSON schema of the arguments; nothing means an object without members
}

// Calls returns the grammar of a call of one of the tools: before, an object with the name and, under the key
// arguments, an object that fits the schema, and after.
func Calls(before, arguments, after string, tools []Tool) (*Grammar, error) {
	g := &Grammar{rules: []*expr{nil}, names: []string{"a call"}}
	var list []*expr
	for _, t := range tools {
		source := t.Parameters
		if len(source) == 0 {
			source = []byte(`{"type": "object", "properties": {}}`)
		}
		n, err := schemaRule(g, source)
		if err != nil {
			return nil, err
		}
		list = append(list, seq(literal(`{"name": `+encoded(t.Name)+`, `+encoded(arguments)+`: `), ref(n),
			literal("}")))
	}
	g.rules[0] = seq(literal(before), alt(list...), literal(after))
	return g, g.finish(func(i int) string { return "the schema at " + g.names[i] })
}
