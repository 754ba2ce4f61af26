package wgsl

// This file defines the syntax tree. Types and names in it are as written: Resolve says which type a TypeExpr names,
// and the scopes of names are for the user of the tree.

// A Module is a complete WGSL text: its declarations, each kind in the order of the text.
type Module struct {
	Structs   []*Struct
	Globals   []*Variable
	Functions []*Function
}

// A Struct is the declaration of a struct.
type Struct struct {
	Pos
	Name   string
	Fields []Field
}

// A Field is a member of a struct or a parameter of a function.
type Field struct {
	Pos
	Name    string
	Type    *TypeExpr
	Builtin string // built-in value of a parameter of the entry point, such as workgroup_id; otherwise empty
}

// A TypeExpr is a type as written: a name with arguments in <>. As an argument of another type it may also be a number.
type TypeExpr struct {
	Pos
	Name   string
	Args   []*TypeExpr
	Number *Literal // in place of Name and Args; otherwise nil
}

// A Variable is a declaration by var, let or const, in a function, where it is a Statement, or outside.
type Variable struct {
	Pos
	Keyword  string
	Space    string // address space: storage, workgroup or private of a global var; usually empty in a function
	Binding  int    // of a storage variable in group 0, or -1
	ReadOnly bool   // the variable is a storage variable with access mode read
	Name     string
	Type     *TypeExpr // nil for the type of Init
	Init     Expr      // may be nil for a var
}

// A Function is the declaration of a function.
type Function struct {
	Pos
	Name    string
	Params  []Field
	Result  *TypeExpr // nil if it has no result
	Entry   bool      // the function is a compute shader
	Threads int       // invocations in a workgroup of a compute shader, all along x
	Body    *Block
}

// A Statement is a *Variable or one of the following types.
type Statement interface {
	At() Pos
	statement()
}

type (
	// A Block is a list of statements with a scope of its own.
	Block struct {
		Pos
		List []Statement
	}
	// An Assign is TO = VALUE.
	Assign struct {
		Pos
		To    Expr // nil for _, which discards the value
		Value Expr
	}
	// A CallStatement is a call whose result, if any, is dropped.
	CallStatement struct {
		Pos
		Call *Call
	}
	// An If is if, with else or without.
	If struct {
		Pos
		Cond Expr
		Then *Block
		Else Statement // nil, a *Block or an *If
	}
	// A Loop is a for, a while or a loop.
	Loop struct {
		Pos
		Init   Statement // or nil
		Cond   Expr      // nil for true
		Update Statement // or nil
		Body   *Block
	}
	// A Switch is a switch.
	Switch struct {
		Pos
		Of    Expr
		Cases []Case
	}
	// A Jump is break or continue.
	Jump struct {
		Pos
		Keyword string
	}
	// A Return is a return.
	Return struct {
		Pos
		Value Expr // or nil
	}
)

// A Case is a clause of a Switch.
type Case struct {
	Values  []Expr
	Default bool // default is among the values or in their place
	Body    *Block
}

// An Expr is an expression: one of the following types. Parentheses leave no node.
type Expr interface {
	At() Pos
	expr()
}

type (
	// A Literal is a number, true or false. Its method Constant gives its value.
	Literal struct {
		Pos
		Text string
	}
	// An Ident is a name.
	Ident struct {
		Pos
		Name string
	}
	// A Unary is an expression after one of the operators - ! ~ and &.
	Unary struct {
		Pos // of the operator
		Op  string
		X   Expr
	}
	// A Binary is two expressions with an operator between them.
	Binary struct {
		Pos  // of the operator
		Op   string
		X, Y Expr
	}
	// An Index is X[I].
	Index struct {
		Pos  // of the bracket
		X, I Expr
	}
	// A Member is X.NAME: a member of a struct or elements of a vector.
	Member struct {
		Pos  // of the point
		X    Expr
		Name string
	}
	// A Call is a call of a function or a constructor.
	Call struct {
		Pos
		Of   *TypeExpr
		Args []Expr
	}
)

func (*Variable) statement()      {}
func (*Block) statement()         {}
func (*Assign) statement()        {}
func (*CallStatement) statement() {}
func (*If) statement()            {}
func (*Loop) statement()          {}
func (*Switch) statement()        {}
func (*Jump) statement()          {}
func (*Return) statement()        {}

func (*Literal) expr() {}
func (*Ident) expr()   {}
func (*Unary) expr()   {}
func (*Binary) expr()  {}
func (*Index) expr()   {}
func (*Member) expr()  {}
func (*Call) expr()    {}
