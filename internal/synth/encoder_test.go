package synth

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
)

// TestManifestOfItself checks that Manifest with the manifest's own encoder returns the same manifest.
func TestManifestOfItself(t *testing.T) {
	base, err := ReadManifest("../../testdata/goldens/sam_vit_b/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	e, err := FindEncoder("sam_vit_b")
	if err != nil {
		t.Fatal(err)
	}
	sorted := func(es []Entry) []Entry {
		return slices.SortedFunc(slices.Values(es), func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	}
	if got, want := sorted(e.Manifest(base)), sorted(base); !reflect.DeepEqual(got, want) {
		t.Errorf("%d entries, want %d, or another shape", len(got), len(want))
	}
	if _, err := FindEncoder("sam_vit_x"); err == nil {
		t.Error("found an encoder that is not there")
	}
}
