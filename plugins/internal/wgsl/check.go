package wgsl

import "slices"

// Check checks what does not depend on types, and returns the entry point. An error is an *Error. The rules are:
//
//   - No two declarations have the same name.
//   - There is one entry point, with 1 to 1024 invocations in a workgroup and without a result.
//   - No function calls the entry point, or itself, directly or through others.
//   - break is in a loop or a switch, and continue in a loop.
//   - Each global var has a type and a supported address space. Only private ones have an initial value.
//   - Bindings count from 0, in the order of the text.
func (m *Module) Check() (entry *Function, err error) {
	defer Catch(&err)
	declared := map[string]bool{}
	once := func(p Pos, name string) {
		if declared[name] {
			Fail(p, "%s is declared twice", name)
		}
		declared[name] = true
	}
	bindings := 0
	for _, v := range m.Globals {
		once(v.Pos, v.Name)
		if v.Keyword == "var" {
			bindings = v.checkGlobal(bindings)
		}
	}
	for _, s := range m.Structs {
		once(s.Pos, s.Name)
	}
	for _, f := range m.Functions {
		once(f.Pos, f.Name)
		checkJumps(f.Body, "", "")
		if !f.Entry {
			continue
		}
		if entry != nil {
			Fail(f.Pos, "a second entry point; the first is %s", entry.Name)
		}
		entry = f
	}
	switch {
	case entry == nil:
		Fail(Pos{Line: 1, Col: 1}, "there is no entry point")
	case entry.Threads < 1 || entry.Threads > 1024:
		Fail(entry.Pos, "%d invocations of a workgroup; want 1 to 1024", entry.Threads)
	case entry.Result != nil:
		Fail(entry.Pos, "the entry point has a result")
	}
	done := map[string]bool{}
	m.reach(entry.Name, done, map[string]bool{})
	for _, f := range m.Functions {
		m.reach(f.Name, done, map[string]bool{})
	}
	return entry, nil
}

// checkGlobal checks a global var. bindings is the number of bindings before it, and of those up to it in the result.
func (v *Variable) checkGlobal(bindings int) int {
	switch {
	case v.Type == nil:
		Fail(v.Pos, "%s has no type", v.Name)
	case v.Init != nil && v.Space != "private":
		Fail(v.Pos, "an initial value of a variable in address space %s", v.Space)
	}
	switch v.Space {
	case "storage":
		if v.Binding != bindings {
			Fail(v.Pos, "%s has binding %d; want %d, the next one", v.Name, v.Binding, bindings)
		}
		return bindings + 1
	case "workgroup", "private":
	default:
		Fail(v.Pos, "address space %q is not supported", v.Space)
	}
	return bindings
}

// checkJumps checks that each jump in a statement has a loop or a switch around it. around and loop are the keywords of
// jumps that are allowed: both are empty outside, and loop is empty in a switch that is in no loop.
func checkJumps(s Statement, around, loop string) {
	switch s := s.(type) {
	case *Block:
		for _, s := range s.List {
			checkJumps(s, around, loop)
		}
	case *If:
		checkJumps(s.Then, around, loop)
		if s.Else != nil {
			checkJumps(s.Else, around, loop)
		}
	case *Loop:
		checkJumps(s.Body, "break", "continue")
	case *Switch:
		for _, c := range s.Cases {
			checkJumps(c.Body, "break", loop)
		}
	case *Jump:
		if s.Keyword != around && s.Keyword != loop {
			Fail(s.Pos, "%s outside of a loop", s.Keyword)
		}
	}
}

// Reached returns the names of a function of a module that Check accepts and of all functions that it calls, directly
// or through others.
func (m *Module) Reached(f *Function) map[string]bool {
	done := map[string]bool{}
	m.reach(f.Name, done, map[string]bool{})
	return done
}

// reach adds a function and those that it calls to done. It fails for a function that calls itself; open has those
// whose calls are being looked at.
func (m *Module) reach(name string, done, open map[string]bool) {
	for _, f := range m.Functions {
		if f.Name != name {
			continue
		}
		if open[name] {
			Fail(f.Pos, "%s calls itself", name)
		}
		if done[name] {
			return
		}
		open[name] = true
		Walk(f.Body, func(n any) bool {
			if c, ok := n.(*Call); ok {
				if slices.ContainsFunc(m.Functions, func(f *Function) bool { return f.Entry && f.Name == c.Of.Name }) {
					Fail(c.Pos, "a call of the entry point")
				}
				m.reach(c.Of.Name, done, open)
			}
			return true
		})
		open[name], done[name] = false, true
	}
}

// CheckLocal checks the declaration of a variable of a type in a function. An error is an *Error.
func (v *Variable) CheckLocal(t *Type) error {
	switch {
	case v.Space != "" && v.Space != "function":
		return v.Errorf("a variable of address space %s in a function", v.Space)
	case !t.Constructible():
		return v.Errorf("%s of %s; want a type whose values can be copied", v.Keyword, t)
	}
	return nil
}

// Check checks a return of a function with a result of a type, or without a result if t is nil. An error is an *Error.
func (s *Return) Check(t *Type) error {
	if (s.Value == nil) != (t == nil) {
		return s.Errorf("the return does not match the result type of the function")
	}
	return nil
}

// Check checks the type of the value that a switch looks at. An error is an *Error.
func (s *Switch) Check(of *Type) error {
	if of != I32 && of != U32 {
		return s.Errorf("a switch over %s; want i32 or u32", of)
	}
	return nil
}
