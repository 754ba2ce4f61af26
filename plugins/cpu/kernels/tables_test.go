package kernels

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestTables checks that no set in assembly lacks a routine. If one were missing from a table by mistake, slow loops in
// Go would silently replace it. If one such set has a routine for a function, all must have it.
func TestTables(t *testing.T) {
	optional := []string{ // bfloat16 and tiles, which some processors lack
		"panel.pairs", "narrow.pairs", "pair", "halfLoop", "tiles", "tileRow", "blockRowsOut", "tilePanel",
		"storeFence", "attend",
		"tileRows", "tileRowsSplit", "tilePairs", "tileTerms", "tileOut", "tileLoop", "unary[0]",
		"panel.rowsProduct", "narrow.rowsProduct", // AVX2 alone; others pack the rows
		"quads[0].pairBytes", "quads[1].pairBytes", // those with a unit of 2 alone
		"dotF16", "dotBF16", // NEON widens a row at a time
		"binary[9]", "binary[10]", "binary[11]", "binary[12]", "binary[13]", // not functions of floats
	}
	// scans, random numbers, prefetches and stores past the caches have no NEON routines yet
	if runtime.GOARCH == "arm64" {
		optional = append(optional, "stream", "prefetchRows", "threefry", "[0]", "[1]", "[2]")
	}
	var lacks func(name string, v reflect.Value) []string
	lacks = func(name string, v reflect.Value) (names []string) {
		switch v.Kind() {
		case reflect.Func:
			if v.IsNil() && !slices.Contains(optional, name) {
				names = append(names, name)
			}
		case reflect.Array, reflect.Slice:
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
	first := isa.Available()[min(1, len(isa.Available())-1)]
	for _, s := range isa.Available()[1:] {
		for _, on := range []func(*isa.Set) any{
			func(s *isa.Set) any { return *vecOn(s) }, func(s *isa.Set) any { return *elemOn(s) },
			func(s *isa.Set) any { return *storedOn(s) }, func(s *isa.Set) any { return *reduceOn(s) },
			func(s *isa.Set) any { return *normOn(s) }, func(s *isa.Set) any { return *productOn(s) },
			func(s *isa.Set) any { return *quadOn(s) }, func(s *isa.Set) any { return *attnOn(s) },
			func(s *isa.Set) any { return *recOn(s) }, func(s *isa.Set) any { return *scanOn(s) },
			func(s *isa.Set) any { return *randomOn(s) },
		} {
			if names := lacks("", reflect.ValueOf(on(s))); len(names) > 0 {
				t.Errorf("%s lacks %v", s.Name, names)
			}
		}
		if !maps.Equal(elemOn(s).slow, elemOn(first).slow) {
			t.Errorf("%s computes %v in Go, %s %v", s.Name, elemOn(s).slow, first.Name, elemOn(first).slow)
		}
		if elemOn(s).slow[Exp] || elemOn(s).slow[Add] || elemOn(s).slow[Lt] {
			t.Errorf("%s: computed in Go are %v", s.Name, elemOn(s).slow)
		}
	}
}
