package kernels

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed elementwise.wgsl
var elementwiseWGSL string

// scalars has the WGSL expressions of elementwise functions by op name and element type of the first operand: "float",
// "int" for i32 and u32, "i32" or "u32" for one of these, "i64", or "bool". In an expression $1, $2, $3 are operands,
// $NAME is an attribute, and TYPE is the WGSL type of the operands. Every function listed here can run as a kernel, in
// elementwise regions, and as the activation of a product. So can every float function that library.wgsl defines as
// op_NAME; its further parameters are attributes.
var scalars = withLibraryFunctions(map[string]map[string]string{
	"add":         {"float": "($1 + $2)", "int": "($1 + $2)"},
	"sub":         {"float": "($1 - $2)", "int": "($1 - $2)"},
	"mul":         {"float": "($1 * $2)", "int": "($1 * $2)"},
	"div":         {"float": "($1 / $2)", "int": "divide($1, $2)"},
	"max":         {"float": "op_max($1, $2)", "int": "max($1, $2)"},
	"min":         {"float": "op_min($1, $2)", "int": "min($1, $2)"},
	"pow":         {"float": "op_pow($1, $2)"},
	"mod":         {"float": "op_mod($1, $2)", "int": "modulo($1, $2)"},
	"and":         {"int": "($1 & $2)", "bool": "($1 && $2)"},
	"or":          {"int": "($1 | $2)", "bool": "($1 || $2)"},
	"xor":         {"int": "($1 ^ $2)", "bool": "($1 != $2)"},
	"not":         {"int": "~$1", "bool": "!$1"},
	"neg":         {"int": "(TYPE(0) - $1)"},
	"abs":         {"int": "abs($1)"},
	"sign":        {"i32": "clamp($1, -1, 1)", "u32": "min($1, 1u)"},
	"relu":        {"int": "max($1, TYPE(0))"},
	"square":      {"int": "($1 * $1)"},
	"isnan":       {"float": "is_nan($1)"},
	"isinf":       {"float": "is_infinite($1)"},
	"isfinite":    {"float": "is_finite($1)"},
	"remainder":   {"float": "op_remainder($1, $2)", "int": "remainder($1, $2)"},
	"shift_left":  {"int": "select($1 << (u32($2) & 31u), TYPE(0), u32($2) > 31u)"},
	"shift_right": {"i32": "($1 >> min(u32($2), 31u))", "u32": "select($1 >> ($2 & 31u), 0u, $2 > 31u)"},
	"eq": {"float": "(order($1) == order($2) && !nan_either($1, $2))", "int": "($1 == $2)",
		"bool": "($1 == $2)"},
	"ne": {"float": "(order($1) != order($2) || nan_either($1, $2))", "int": "($1 != $2)",
		"bool": "($1 != $2)"},
	"lt": {"float": "(order($1) < order($2) && !nan_either($1, $2))", "int": "($1 < $2)",
		"bool": "(!$1 && $2)"},
	"le": {"float": "(order($1) <= order($2) && !nan_either($1, $2))", "int": "($1 <= $2)",
		"bool": "(!$1 || $2)"},
	"gt": {"float": "(order($1) > order($2) && !nan_either($1, $2))", "int": "($1 > $2)",
		"bool": "($1 && !$2)"},
	"ge": {"float": "(order($1) >= order($2) && !nan_either($1, $2))", "int": "($1 >= $2)",
		"bool": "($1 || !$2)"},
})

func withLibraryFunctions(s map[string]map[string]string) map[string]map[string]string {
	for _, m := range regexp.MustCompile(`(?m)^fn op_(\w+)\(x: f32((?:, \w+: f32)*)\) -> f32 \{`).FindAllStringSubmatch(
		library, -1) {
		call := "op_" + m[1] + "($1"
		for p := range strings.SplitSeq(m[2], ", ") {
			if name, _, ok := strings.Cut(p, ":"); ok {
				call += ", $" + name
			}
		}
		if s[m[1]] == nil {
			s[m[1]] = map[string]string{}
		}
		s[m[1]]["float"] = call + ")"
	}
	for name, expr := range wide {
		s[name]["i64"] = expr
	}
	return s
}

// expression returns the expression of an op with operands of type d, with its attributes filled in, or "" if the op
// has no expression.
func expression(def *ir.OpDef, attrs any, d dtype.DType) string {
	expr := scalars[def.Name][class(d)]
	if one := scalars[def.Name][d.String()]; one != "" {
		expr = one
	}
	for _, a := range def.Attrs(attrs) {
		if v, ok := a.Value.(float64); ok {
			expr = strings.ReplaceAll(expr, "$"+a.Name, fmt.Sprintf("from_bits(%du)", math.Float32bits(float32(v))))
		}
	}
	return strings.ReplaceAll(expr, "TYPE", elementType(d))
}

// scalarOf returns the expression of an activation applied to x.
func scalarOf(act, x string) (string, error) {
	def, attrs, err := op.ParseActivation(act)
	if def == nil || err != nil || scalars[def.Name]["float"] == "" {
		return "", fmt.Errorf("BUG: no expression for %q: %v", act, err)
	}
	return apply(expression(def, attrs, dtype.F32), [3]string{x}), nil
}

func init() {
	for _, name := range slices.Sorted(maps.Keys(scalars)) {
		d, ok := ir.Find(name)
		if !ok {
			panic("BUG: wgpu: an expression for " + name + ", which is no op")
		}
		register(Kernel{Op: name, Takes: hasScalar(d), Shaders: elementwise})
	}
}

var (
	_ = register(Kernel{Op: "where", Takes: "(any, any+, any+)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		// Copies the bits of the chosen operand, whatever its type.
		condition, holds4 := "u32", "a0 != 0u"
		switch d := n.In[0].Type.DType; {
		case d == dtype.Bool:
			condition, holds4 = "bool", "a0"
		case d.IsFloat():
			holds4 = "(a0 & 0x7fffffffu) != 0u"
		}
		if s, ok := quads(
			n, "u32", "fn compute(a0: "+condition+", a1: u32, a2: u32) -> u32 {\n  return select(a2, a1, "+holds4+
				");\n}\n"); ok {
			return []Shader{s}
		}
		read := element(n.Type.DType).read()
		return []Shader{
			broadcasting(coarsened, n, "  if ("+holds(n.In[0].Type.DType, "x0", "at0(i)")+
				") {\n    return x1"+read+"(at1(i));\n  }\n  return x2"+read+"(at2(i));")}
	}})
	_ = register(
		Kernel{Op: "elementwise_region", Takes: "(f32|bool...) -> f32|bool if parts = run",
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				return []Shader{computing(n, regionCode(n))}
			}})
	_ = register(Kernel{Op: "expand", Takes: "(any+)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		if in, out := n.In[0].Type.Shape, n.Type.Shape; len(in) > 0 && in[len(in)-1] == out[len(out)-1] {
			if u := units(n.Type.DType, []int{commonDivisor(out[len(out)-1:])}, n.In[0]); u.words == 4 {
				return []Shader{strided(n, u, len(out), func(c *Call) (offset int, dims, stride []int) {
					stride = make([]int, len(out))
					for i, s := range strides(c.In[0].Shape)[maxRank-len(out):] {
						stride[i] = int(s)
					}
					stride[len(out)-1] = 1
					return 0, c.Out.Shape, stride
				})}
			}
		}
		return []Shader{broadcasting(coarsened, n, "  return x0"+element(n.Type.DType).read()+"(at0(i));")}
	}})
)

// holds returns an expression that tells whether an element of type d is not 0. NaN is not 0.
func holds(d dtype.DType, x, at string) string {
	switch {
	case d == dtype.Bool:
		return x + "(" + at + ")"
	case d.IsFloat(): // ignore the sign
		return fmt.Sprintf("((%s_bits(%s) & %du) != 0u)", x, at, uint32(1)<<(8*d.Size()-1)-1)
	}
	return x + "_bits(" + at + ") != 0u"
}

func class(d dtype.DType) string {
	switch {
	case d.IsFloat():
		return "float"
	case d == dtype.Bool:
		return "bool"
	}
	return "int"
}

// hasScalar returns the rule for the types for which an op has an expression.
func hasScalar(d *ir.OpDef) string {
	var types []string
	for _, c := range []struct{ class, types string }{{"float", floats}, {"int", "i32|u32"}, {"i32", "i32"},
		{"u32", "u32"}, {"i64", "i64"}, {"bool", "bool"}} {
		if scalars[d.Name][c.class] != "" {
			types = append(types, c.types)
		}
	}
	list := strings.Join(types, "|")
	if len(d.Operands) > 1 {
		list += "..."
	}
	return "(" + list + ")"
}

func elementwise(n *ir.Node, _ Limits) []Shader {
	d := n.In[0].Type.DType
	expr := expression(n.Op, n.Attrs, d)
	if divides := slices.Contains([]string{"div", "mod", "remainder"}, n.Op.Name); divides && d.IsInt() {
		s := broadcasting(mapped, n, "  return y_encode("+apply(expr, [3]string{"x0(at0(i))", "x1(at1(i))"})+");")
		s.Body = strings.ReplaceAll(integerDivision, "TYPE", elementType(d)) + s.Body
		return []Shader{s.withStatus()}
	}
	return []Shader{computing(n, "  return "+apply(expr, [3]string{"a0", "a1", "a2"})+";")}
}

// computing makes a shader from the body of a function of one element per operand: a0, a1, ...
func computing(n *ir.Node, body string) Shader {
	params, args := make([]string, len(n.In)), make([]string, len(n.In))
	for k, x := range n.In {
		read := ""
		if x.Type.DType == dtype.I64 {
			read = "_wide"
		}
		params[k] = fmt.Sprintf("a%d: %s", k, valueType(x.Type.DType))
		args[k] = fmt.Sprintf("x%d%s(at%d(i))", k, read, k)
	}
	function := fmt.Sprintf("fn compute(%s) -> %s {\n%s\n}\n", strings.Join(params, ", "), valueType(n.Type.DType),
		body)
	other := func(x *ir.Node) bool { return x.Type.DType != dtype.F32 && x.Type.DType != dtype.Bool }
	if n.Type.DType == dtype.F32 && !slices.ContainsFunc(n.In, other) {
		if s, ok := quads(n, "f32", function); ok {
			return s
		}
	}
	code := "  return y_encode(compute(" + strings.Join(args, ", ") + "));"
	if n.Type.DType == dtype.I64 {
		code = "  return compute(" + strings.Join(args, ", ") + ");"
	}
	s := broadcasting(coarsened, n, code)
	s.Body = function + s.Body
	return s
}

// quads makes a shader that computes four neighbouring elements of 4 bytes at once, because one access of 16 bytes is
// faster than four of 4 bytes. function defines compute, whose parameters and result are of type typ, or bool for
// operands of bools. Each operand must be read in the order of the result (as a whole, or repeatedly) or have one
// element.
func quads(n *ir.Node, typ, function string) (s Shader, ok bool) {
	var vectors, masks, mods []int
	var from []*ir.Node
	whole := []int{commonDivisor(n.Type.Shape)}
	load := ""
	for k, x := range n.In {
		mask, at, shape := x.Type.DType == dtype.Bool, "i", "bitcast<vec4<"+typ+">>(x%d4(%s))"
		if mask {
			shape = "x%d4(%s)"
		} else if x.Type.DType.Size() != 4 {
			return s, false
		}
		switch howBroadcast(x.Type.Shape, n.Type.Shape) {
		case "same":
		case "suffix":
			mods, whole, at = append(mods, k), append(whole, commonDivisor(x.Type.Shape)),
				fmt.Sprintf("i %% P.mod%d", k)
		case "one":
			one := fmt.Sprintf("vec4<%s>(bitcast<%[1]s>(x%d_bits(0u)))", typ, k)
			if mask {
				one = fmt.Sprintf("vec4<bool>(x%d(0u))", k)
			}
			load += fmt.Sprintf("  let q%d = %s;\n", k, one)
			continue
		default:
			return s, false
		}
		load += fmt.Sprintf("  let q%d = "+shape+";\n", k, k, at)
		if mask {
			masks = append(masks, k)
			if !beginsAt(x, 4) {
				return s, false
			}
		} else {
			vectors, from = append(vectors, k), append(from, x)
		}
	}
	u := units(n.Type.DType, whole, from...)
	if n.Type.DType.Size() != 4 || u.words != 4 || len(vectors) == 0 {
		return s, false
	}
	calls, fields := make([]string, 4), []string{}
	for c, component := range []string{"x", "y", "z", "w"} {
		args := make([]string, len(n.In))
		for k := range args {
			args[k] = fmt.Sprintf("q%d.%s", k, component)
		}
		calls[c] = "compute(" + strings.Join(args, ", ") + ")"
	}
	for _, k := range mods {
		fields = append(fields, fmt.Sprint("mod", k))
	}
	body := function + "fn value(i: u32) -> vec4<u32> {\n" + load + "  return bitcast<vec4<u32>>(vec4<" + typ + ">(" +
		strings.Join(calls, ", ") + "));\n}\n"
	s = moved(n, u, vectors, n.Op.Name, body, nil, fields, func(c *Call) (p []uint32) {
		for _, k := range mods {
			p = append(p, uint32(numel(c.In[k].Shape)/4))
		}
		return p
	})
	for i := range s.Bindings {
		if slices.Contains(masks, s.Bindings[i].Operand) {
			s.Bindings[i].Vec = 4
		}
	}
	return s, true
}

// integerDivision truncates toward zero, wraps on overflow, and reports a divisor of 0.
const integerDivision = `fn divide(a: TYPE, b: TYPE) -> TYPE {
  if (b == TYPE(0)) {
    status_put(0u, 1u);
    return a;
  }
  if (TYPE(0) - TYPE(1) < TYPE(0) && bitcast<u32>(b) == 0xffffffffu && bitcast<u32>(a) == 0x80000000u) {
    return a; // signed: the only quotient that overflows
  }
  return a / b;
}
fn remainder(a: TYPE, b: TYPE) -> TYPE {
  return a - divide(a, b) * b;
}
fn modulo(a: TYPE, b: TYPE) -> TYPE {
  let r = remainder(a, b);
  return select(r, r + b, r != TYPE(0) && (r < TYPE(0)) != (b < TYPE(0)));
}
`

// broadcast tells how an operand is indexed for element i of the result.
type broadcast struct {
	K    int
	How  string // "same", "one", "suffix" or "strided"
	Axes []axis // for "strided": axes of the result, innermost first
}

// axis is one or several neighbouring axes of the result. Axes are merged if every strided operand is contiguous or
// repeated over all of them.
type axis struct {
	A     int   // its number, the outermost is 0
	Last  bool  // it is the outermost
	Moves bool  // the operand has this axis; otherwise it is repeated along it
	out   []int // the merged axes of the result
}

func howBroadcast(x, out ir.Shape) string {
	for len(x) > 0 && x[0].Is(1) {
		x = x[1:]
	}
	if len(x) == 0 {
		return "one"
	}
	trimmed := out
	for len(trimmed) > len(x) && trimmed[0].Is(1) {
		trimmed = trimmed[1:]
	}
	switch {
	case x.Equal(trimmed):
		return "same"
	case len(x) <= len(out) && x.Equal(out[len(out)-len(x):]):
		return "suffix"
	}
	return "strided"
}

// repeated reports whether an operand of shape x is repeated along axis i of the result: it has size 1 there, or lacks
// the axis.
func repeated(x, out ir.Shape, i int) bool {
	k := i - (len(out) - len(x))
	return k < 0 || x[k].Is(1)
}

// broadcastAxes returns the merged axes of a result for operands that need strides, outermost first.
func broadcastAxes(n *ir.Node, operands []int) (axes []axis) {
	out, before := n.Type.Shape, -1 // before: the previous axis of the result
	for i, d := range out {
		if d.Is(1) {
			continue
		}
		differs := func(k int) bool {
			x := n.In[k].Type.Shape
			return repeated(x, out, i) != repeated(x, out, before)
		}
		if before < 0 || slices.ContainsFunc(operands, differs) {
			axes = append(axes, axis{A: len(axes), Last: len(axes) == 0})
		}
		last := &axes[len(axes)-1]
		last.out, before = append(last.out, i), i
	}
	return axes
}

// broadcasting makes a shader whose operands broadcast to the result. code may call atK(i), the index into operand K of
// element i.
func broadcasting(how mapping, n *ir.Node, code string) Shader {
	ops, strided := make([]broadcast, len(n.In)), []int{}
	for k, x := range n.In {
		ops[k] = broadcast{K: k, How: howBroadcast(x.Type.Shape, n.Type.Shape)}
		if ops[k].How == "strided" {
			strided = append(strided, k)
		}
	}
	axes, fields := broadcastAxes(n, strided), []string{}
	if len(strided) > 0 {
		fields = append(fields, fmt.Sprint("dims:", len(axes)))
	}
	for k := range ops {
		switch ops[k].How {
		case "suffix":
			fields = append(fields, fmt.Sprint("mod", k))
		case "strided":
			fields = append(fields, fmt.Sprintf("stride%d:%d", k, len(axes)))
			for _, a := range slices.Backward(axes) {
				a.Moves = !repeated(n.In[k].Type.Shape, n.Type.Shape, a.out[0])
				ops[k].Axes = append(ops[k].Axes, a)
			}
		}
	}
	consts := map[string]any{"Operands": ops, "Code": code, "T": element(n.Type.DType).typ()}
	return how(n, n.Op.Name, elementwiseWGSL, consts, fields, func(c *Call) (p []uint32) {
		if len(strided) > 0 {
			for _, a := range axes {
				p = append(p, uint32(numel(c.Out.Shape[a.out[0]:a.out[len(a.out)-1]+1])))
			}
		}
		for k, o := range ops {
			switch x := c.In[k].Shape; o.How {
			case "suffix":
				p = append(p, uint32(numel(x)))
			case "strided":
				for _, a := range slices.Backward(o.Axes) {
					stride := 0
					if a.Moves {
						stride = numel(x[a.out[len(a.out)-1]-(len(c.Out.Shape)-len(x))+1:])
					}
					p = append(p, uint32(stride))
				}
			}
		}
		return p
	})
}

// apply substitutes operands into an expression.
func apply(expr string, args [3]string) string {
	return strings.NewReplacer("$1", args[0], "$2", args[1], "$3", args[2]).Replace(expr)
}

// regionCode translates the steps of an elementwise_region to the body of the function compute.
func regionCode(n *ir.Node) (code string) {
	steps, err := op.ParseRegion(n.Attrs.(op.ElementwiseRegionAttrs).Expr)
	if err != nil {
		panic("BUG: wgpu: " + err.Error())
	}
	bools := make([]bool, len(steps))
	for i, s := range steps {
		args, types := [3]string{}, make([]ir.Type, len(s.In))
		for k, o := range s.In {
			isBool := false
			switch o.Kind {
			case op.RegionInput:
				args[k], isBool = fmt.Sprint("a", o.Index), n.In[o.Index].Type.DType == dtype.Bool
			case op.RegionResult:
				args[k], isBool = fmt.Sprint("v", o.Index), bools[o.Index]
			case op.RegionLiteral:
				args[k] = fmt.Sprintf("from_bits(%du)", math.Float32bits(o.Value))
			}
			types[k] = ir.TypeOf(dtype.F32)
			if isBool {
				types[k] = ir.TypeOf(dtype.Bool)
			}
		}
		t, err := s.Op.Infer(s.Attrs, types, ir.Type{}, nil)
		if err != nil {
			panic("BUG: wgpu: " + err.Error())
		}
		bools[i] = t.DType == dtype.Bool
		expr := expression(s.Op, s.Attrs, types[0].DType)
		switch from := types[0].DType; {
		case s.Op == op.WhereDef && from == dtype.Bool:
			expr = "select($3, $2, $1)"
		case s.Op == op.WhereDef:
			expr = "select($3, $2, not_zero($1))"
		case s.Op == op.CastDef && from == t.DType:
			expr = "$1"
		case s.Op == op.CastDef && from == dtype.Bool:
			expr = "select(0.0, 1.0, $1)"
		case s.Op == op.CastDef:
			expr = "not_zero($1)"
		}
		code += fmt.Sprintf("  let v%d = %s;\n", i, apply(expr, args))
	}
	code += fmt.Sprintf("  return v%d;", len(steps)-1)
	return code
}
