package msl

// This file has the syntax tree. Types and names are not resolved.

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
	builtin string // of an entry point's parameter
}

// typeExpr is the name of a type and its arguments in <>: types or numbers.
type typeExpr struct {
	pos
	name string
	args []*typeExpr
	n    expr // a number, instead of a name
}

// variable is declared by var, let or const, anywhere.
type variable struct {
	pos
	keyword string
	space   string // of a global var: storage, workgroup or private
	binding int    // of a storage variable
	read    bool   // a storage variable that is only read
	name    string
	typ     *typeExpr // nil: that of init
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
		to expr // nil for _
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
		cond   expr      // nil for always
		update statement // nil for none
		body   *block
	}
	choice struct {
		pos
		of    expr
		cases []choiceCase
	}
	choiceCase struct {
		values  []expr
		isOther bool
		body    *block
	}
	// jump is break or continue.
	jump struct {
		pos
		keyword string
	}
	back struct {
		pos
		v expr // nil for none
	}
)

// Expressions.
type (
	expr interface{ at() pos }

	literal struct {
		pos
		text string // of a number, or true or false
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
