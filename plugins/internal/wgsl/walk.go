package wgsl

// Walk calls f for a statement or an expression and all statements and expressions in it. f returns false to skip the
// parts of its argument.
func Walk(n any, f func(n any) bool) {
	if !f(n) {
		return
	}
	block := func(b *Block) {
		for _, s := range b.List {
			Walk(s, f)
		}
	}
	part := func(n any, present bool) {
		if present {
			Walk(n, f)
		}
	}
	switch n := n.(type) {
	case *Block:
		block(n)
	case *Variable:
		part(n.Init, n.Init != nil)
	case *Assign:
		part(n.To, n.To != nil)
		Walk(n.Value, f)
	case *CallStatement:
		Walk(n.Call, f)
	case *If:
		Walk(n.Cond, f)
		block(n.Then)
		part(n.Else, n.Else != nil)
	case *Loop:
		part(n.Init, n.Init != nil)
		part(n.Cond, n.Cond != nil)
		part(n.Update, n.Update != nil)
		block(n.Body)
	case *Switch:
		Walk(n.Of, f)
		for _, c := range n.Cases {
			for _, v := range c.Values {
				Walk(v, f)
			}
			block(c.Body)
		}
	case *Return:
		part(n.Value, n.Value != nil)
	case *Unary:
		Walk(n.X, f)
	case *Binary:
		Walk(n.X, f)
		Walk(n.Y, f)
	case *Index:
		Walk(n.X, f)
		Walk(n.I, f)
	case *Member:
		Walk(n.X, f)
	case *Call:
		for _, a := range n.Args {
			Walk(a, f)
		}
	}
}
