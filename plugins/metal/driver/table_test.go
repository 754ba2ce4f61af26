package driver

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// spelled lists the C types that a Go type stands for if their names differ in more than case. NSUInteger, for
// instance, needs no entry.
var spelled = map[string][]string{
	"void":    {"void", "oneway void"},
	"boolean": {"BOOL"},
	"uint8T":  {"uint8_t"},
	// NSInteger and enums of this type
	"nsInteger": {"NSInteger", "MTLGPUFamily", "MTLMathMode", "MTLCommandEncoderErrorState",
		"MTLMathFloatingPointFunctions"},
	"nsUInteger": {"NSUInteger", "uint64_t", "MTLResourceOptions", "MTLPipelineOption",
		"MTLCommandBufferErrorOption", "MTLCommandBufferStatus"},
	"nsObject":          {"ObjectType", "KeyType"},
	"nsString":          {"NSErrorUserInfoKey const"},
	"cString":           {"const char *"},
	"bytesAddress":      {"const void *", "void *"},
	"autoreleasePool":   {"void *"},
	"deallocatorBlock":  {"void (^)(void *pointer, NSUInteger length)"},
	"nsErrorAddress":    {"NSError **"},
	"nsUIntegerAddress": {"const NSUInteger[]"},
	"mtlBufferAddress":  {"const id<MTLBuffer>[]"},
	"reflectionAddress": {"MTLAutoreleasedComputePipelineReflection *"},
	"mtlSizeAddress":    {"MTLSize"},
	"float64":           {"CFTimeInterval"},
}

var generic = regexp.MustCompile(`^(\w+)<.*>( \*)$`)

// isType reports whether a Go type stands for a C type.
func isType(goType reflect.Type, c string) bool {
	if m := generic.FindStringSubmatch(c); m != nil && m[1] != "id" {
		c = m[1] + m[2] // NSArray<id<MTLDevice>> *
	}
	if names, ok := spelled[goType.Name()]; ok && slices.Contains(names, c) {
		return true
	}
	for _, before := range []string{"id<", ""} {
		for _, after := range []string{">", " *", ""} {
			if (before == "id<") == (after == ">") && strings.EqualFold(c, before+goType.Name()+after) {
				return true
			}
		}
	}
	return false
}

// typedPart matches a type in parentheses in the declaration of a method, with the words around it: "(R)a", ":(A)x" and
// "b:(B)y" in "- (R)a:(A)x b:(B)y;".
var typedPart = regexp.MustCompile(`(\w*)(:?)\(((?:[^()]|\([^()]*\))*)\)(\w+)?`)

// TestTable checks that the Go types of each entry of the table agree with the entry's declaration in C.
func TestTable(t *testing.T) {
	if len(messages) < 50 || len(functions) != 3 || len(variables) != 1 {
		t.Fatalf("the table has %d messages and %d functions", len(messages), len(functions))
	}
	seen := map[string]bool{}
	for _, m := range messages {
		d := m.declaration
		if !strings.HasPrefix(d, "- (") && !strings.HasPrefix(d, "+ (") || !strings.HasSuffix(d, ";") {
			t.Errorf("%s is not the declaration of a method", d)
			continue
		}
		found := typedPart.FindAllStringSubmatch(d[2:], -1)
		c, selector := []string{found[0][3]}, found[0][4]
		for i, f := range found[1:] {
			c = append(c, f[3])
			if i > 0 {
				selector += f[1]
			}
			selector += ":"
		}
		if m.selector != selector {
			t.Errorf("%s has the selector %s; want %s", d, m.selector, selector)
		}
		if key := m.types[0].Name() + " " + selector; seen[key] {
			t.Errorf("%s is in the table twice", key)
		} else {
			seen[key] = true
		}
		var args []reflect.Type // an NSRange is two arguments in Go, and one in C
		for i := 1; i < len(m.types)-1; i++ {
			args = append(args, m.types[i])
			if m.types[i] == of[nsRangeLocation]() {
				if i++; m.types[i] != of[nsRangeLength]() {
					t.Errorf("%s has half of an NSRange", d)
				}
			}
		}
		if words := len(m.types); words > 8 {
			t.Errorf("%s takes %d registers; want at most 8", d, words)
		}
		if len(args) != len(c)-1 {
			t.Errorf("%s has %d arguments; the entry has %d", d, len(c)-1, len(args))
			continue
		}
		for i, a := range args {
			if !isType(a, c[i+1]) && !(a == of[nsRangeLocation]() && c[i+1] == "NSRange") {
				t.Errorf("%s: argument %d is %s; the entry says %s", d, i+1, c[i+1], a.Name())
			}
		}
		if r := m.types[len(m.types)-1]; !isType(r, c[0]) && !(c[0] == "instancetype" && r == m.types[0]) {
			t.Errorf("%s returns %s; the entry says %s", d, c[0], r.Name())
		}
	}
	for _, v := range variables {
		if c, ok := strings.CutSuffix(v.declaration, " "+v.name+";"); !ok || !isType(v.typ, c) {
			t.Errorf("%s is %s; the entry says %s", v.declaration, c, v.typ.Name())
		}
	}
	for _, f := range functions {
		if f.name != regexp.MustCompile(`\w+\(`).FindString(f.declaration)[:len(f.name)] {
			t.Errorf("%s has the name %s", f.declaration, f.name)
		}
		c := regexp.MustCompile(`^(.*[ *])\w+\((.*)\);$`).FindStringSubmatch(f.declaration)
		result, arg := strings.TrimSpace(c[1]), strings.TrimSpace(strings.TrimSuffix(c[2], "pool"))
		if r := f.types[len(f.types)-1]; !isType(r, result) {
			t.Errorf("%s returns %s; the entry says %s", f.declaration, result, r.Name())
		}
		if len(f.types) == 1 != (arg == "void") || len(f.types) == 2 && !isType(f.types[0], arg) {
			t.Errorf("%s takes %s; the entry says %v", f.declaration, arg, f.types)
		}
	}
}

// TestTableMistakes checks that the comparison in TestTable can fail.
func TestTableMistakes(t *testing.T) {
	for _, c := range []struct {
		of   reflect.Type
		c    string
		want bool
	}{
		{of[mtlBuffer](), "id<MTLBuffer>", true}, {of[mtlBuffer](), "id<MTLLibrary>", false},
		{of[nsUInteger](), "NSInteger", false},
		{of[nsArray](), "NSArray<id<MTLDevice>> *", true}, {of[nsString](), "NSURL *", false},
		{of[uint8T](), "BOOL", false},
		{of[mtlSizeAddress](), "MTLSize", true}, {of[mtlSizeAddress](), "NSRange", false},
		{of[float64](), "NSUInteger", false},
	} {
		if got := isType(c.of, c.c); got != c.want {
			t.Errorf("%s for %s: %t", c.of.Name(), c.c, got)
		}
	}
	for declaration, want := range map[string]string{
		"- (void)stop;": "stop", "- (void)add:(id)x;": "add:",
		"- (void)add:(id<A>)x to:(const id<B>[])y at:(NSUInteger)z;": "add:to:at:",
	} {
		if got := selectorOf(declaration); got != want {
			t.Errorf("the selector of %s is %s; want %s", declaration, got, want)
		}
	}
}

// TestStructs checks the layout of mtlSize. MTLSize has three words (MTLTypes.h), so it is passed by address.
func TestStructs(t *testing.T) {
	var s mtlSize
	if got := []uintptr{unsafe.Sizeof(s), unsafe.Offsetof(s.width), unsafe.Offsetof(s.height),
		unsafe.Offsetof(s.depth)}; !slices.Equal(got, []uintptr{24, 0, 8, 16}) {
		t.Errorf("the size and the offsets of MTLSize are %v", got)
	}
}

// TestUses checks that the driver calls Objective-C only through the table, and uses all entries. The compiler checks
// the types of arguments.
func TestUses(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared, used := map[string]bool{}, map[string]int{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if name != "table.go" || !ok {
				continue
			}
			for _, s := range g.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						declared[n.Name] = true
						used[n.Name]--
					}
				case *ast.TypeSpec:
					declared[s.Name.Name] = true
					used[s.Name.Name]--
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				used[n.Name]++
			case *ast.CallExpr:
				called := ""
				switch f := n.Fun.(type) {
				case *ast.SelectorExpr:
					called = f.Sel.Name
				case *ast.Ident:
					called = f.Name
				case *ast.IndexListExpr:
					called = f.X.(*ast.Ident).Name
				}
				for _, c := range []struct{ prefix, only string }{
					{"declare", "table.go objc.go"}, {"function0Of", "table.go"}, {"function1Of", "table.go"},
					{"variableOf", "table.go"},
					{"RegisterName", "bridge_darwin_arm64.go"}, {"GetClass", "bridge_darwin_arm64.go"},
					{"SyscallN", "bridge_darwin_arm64.go"},
				} {
					if strings.HasPrefix(called, c.prefix) && !strings.Contains(c.only, name) {
						t.Errorf("%s calls %s; only %s may", name, called, c.only)
					}
				}
			}
			return true
		})
	}
	if len(declared) < 100 {
		t.Errorf("%d names are declared", len(declared))
	}
	for name := range declared {
		if used[name] < 1 {
			t.Errorf("%s is in the table but not used", name)
		}
	}
}
