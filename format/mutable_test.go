package format

import "testing"

// TestBadMutable checks wrong lists of weights that may be replaced. Weight 0 is b, weight 1 is w.
func TestBadMutable(t *testing.T) {
	mutable := func(list ...int64) func(*forgery) { return func(f *forgery) { f.c.mutable = list } }
	testBadFiles(t, []badFile{
		{15, "weights out of order", mutable(1, 0)},
		{15, "a weight twice", mutable(1, 1)},
		{15, "a negative number", mutable(-1)},
		{23, "a weight that is not there", mutable(2)},
		{15, "a list without weights", func(f *forgery) {
			f.body = func(k Kind, b []byte) []byte {
				if k == KindChange {
					return []byte{mpFixArray}
				}
				return b
			}
		}},
		{11, "another schema", func(f *forgery) {
			f.table = entry(KindChange, func(s *Section) { s.Version++ })
		}},
	})
}

// TestMutable checks that the directory says which weights may be replaced, and that a file without the list is read.
func TestMutable(t *testing.T) {
	v, err := verifyBytes(artifactBytes(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range v.Weights().Tensors() {
		if w.Mutable != (w.Name == "w") {
			t.Errorf("%s: %v", w.Name, w.Mutable)
		}
	}
	f := forge(t)
	f.c.mutable = nil
	if v, err = verifyBytes(f.file()); err != nil {
		t.Fatal(err)
	}
	for _, w := range v.Weights().Tensors() {
		if w.Mutable {
			t.Errorf("%s may be replaced, and no section says so", w.Name)
		}
	}
}
