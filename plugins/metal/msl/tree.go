package msl

// This file defines the syntax tree. The parser does not resolve types and names.

type module struct {
	structs   []*structDecl
	globals   []*variable
	functions []*function
}

type structDecl struct {
	pos
	name   string
	fields []field
}

// field is a member of a struct or a parameter of a function.
type field struct {
	pos
	name    string
	typ     *typeExpr
	builtin string // built-in value of a parameter of the entry point, such as workgroup_id; otherwise empty
}

// typeExpr is a type: a name with arguments in <>. It may also be a number, as an argument of another type.
type typeExpr struct {
	pos
	name string
	args []*typeExpr
	n    expr // the number, in place of name and args
}

// variable is a declaration by var, let or const, in a function or outside.
type variable struct {
	pos
	keyword string
	space   string // address space of a global var: storage, workgroup or private
	binding int    // of a storage variable
	read    bool   // the variable is a storage variable with access mode read
	name    string
	typ     *typeExpr // nil for the type of init
	init    expr      // nil for none
}

type function struct {
	pos
	name    string
	params  []field
	result  *typeExpr // nil for none
	entry   bool
	threads int
	body    *block
}

// Statements.
type (
	statement interface{ at() pos }

	block struct {
		pos
		list []statement
	}
	assign struct {
		pos
		to expr // nil for _, which discards v
		v  expr
	}
	callStatement struct {
		pos
		call *call
	}
	conditional struct {
		pos
		cond      expr
		then      *block
		otherwise statement // nil, *block or *conditional
	}
	// loop is a for, a while or a loop.
	loop struct {
		pos
		init   statement // nil for none
		cond   expr      // nil for true
		update statement // nil for none
		body   *block
	}
	switchStatement struct {
		pos
		of    expr
		cases []switchCase
	}
	switchCase struct {
		values    []expr
		isDefault bool
		body      *block
	}
	// jump is break or continue.
	jump struct {
		pos
		keyword string
	}
	returnStatement struct {
		pos
		v expr // nil for none
	}
)

// Expressions.
type (
	expr interface{ at() pos }

	literal struct {
		pos
		text string // a number, true or false
	}
	name struct {
		pos
		name string
	}
	unary struct {
		pos
		op string
		x  expr
	}
	binary struct {
		pos
		op   string
		x, y expr
	}
	index struct {
		pos
		x, i expr
	}
	member struct {
		pos
		x    expr
		name string
	}
	// call is a call of a function or a constructor.
	call struct {
		pos
		of   *typeExpr
		args []expr
	}
)

func (p pos) at() pos { return p }
