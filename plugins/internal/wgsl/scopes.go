package wgsl

// Scopes maps names to their meanings, from the global scope to the innermost. V is the meaning of a name to the user
// of the tree.
type Scopes[V any] []map[string]V

// Find returns the meaning of a name. It searches the innermost scope first.
func (s Scopes[V]) Find(name string) (v V, ok bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if v, ok = s[i][name]; ok {
			return v, true
		}
	}
	return v, false
}

// Declare declares a name in the innermost scope. An *Error says that the scope has it already.
func (s Scopes[V]) Declare(p Pos, name string, v V) error {
	inner := s[len(s)-1]
	if _, ok := inner[name]; ok {
		return p.Errorf("%s is declared twice", name)
	}
	inner[name] = v
	return nil
}
