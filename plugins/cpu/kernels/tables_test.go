package kernels

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// TestTables: no native set lacks a routine. Left out of a table by mistake, one would be replaced by plain Go without a word, as
// slow as that is.
func TestTables(t *testing.T) {
	optional := []string{ // bfloat16 and tiles, which some processors lack, and what has no routine
		"panel.pairs", "narrow.pairs", "pair", "halfLoop", "tiles", "tileRow", "squareRowsOut", "tilePanel", "storeFence", "attend",
		"tileRows", "tileRowsSplit", "tilePairs", "tileTerms", "tileOut", "tileLoop", fmt.Sprintf("binary[%d]", Pow),
	}
	for _, op := range []UnaryOp{Gelu, GeluTanh, Silu, Relu, Sigmoid, Tanh, Exp, Erf} { // which have fields of their own
		optional = append(optional, fmt.Sprintf("unary[%d]", op))
	}
	var lacks func(name string, v reflect.Value) []string
	lacks = func(name string, v reflect.Value) (names []string) {
		switch v.Kind() {
		case reflect.Func:
			if v.IsNil() && !slices.Contains(optional, name) {
				names = append(names, name)
			}
		case reflect.Array:
			for i := range v.Len() {
				names = append(names, lacks(fmt.Sprintf("%s[%d]", name, i), v.Index(i))...)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				field := v.Type().Field(i).Name
				if name != "" {
					field = name + "." + field
				}
				names = append(names, lacks(field, v.Field(i))...)
			}
		}
		return names
	}
	for _, s := range available()[1:] {
		if names := lacks("", reflect.ValueOf(s).Elem()); len(names) > 0 {
			t.Errorf("%s lacks %v", s.name, names)
		}
	}
}
