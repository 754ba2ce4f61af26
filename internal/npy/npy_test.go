package npy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	other "github.com/sbinet/npyio/npy"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestAgainstNpyio checks that another implementation reads what we write, and vice versa.
func TestAgainstNpyio(t *testing.T) {
	for _, tc := range []struct {
		d      dtype.DType
		values any
	}{
		{dtype.F32, []float32{1, -2.5, 3e-40, 4}}, {dtype.F64, []float64{1, -2.5, 1e300, 4}},
		{dtype.I8, []int8{1, -2, 127, -128}}, {dtype.I16, []int16{1, -2, 3, 4}},
		{dtype.I32, []int32{1, -2, 1 << 30, 4}},
		{dtype.I64, []int64{1, -2, 1 << 62, 4}}, {dtype.U8, []uint8{1, 2, 255, 0}},
		{dtype.U32, []uint32{1, 2, 1 << 31, 0}},
		{dtype.Bool, []bool{true, false, true, true}},
	} {
		var theirs bytes.Buffer
		if err := other.Write(&theirs, tc.values); err != nil {
			t.Fatal(err)
		}
		got, err := Read("x", bytes.NewReader(theirs.Bytes()), nil)
		if err != nil || got.DType != tc.d || !slices.Equal(got.Shape, []int{4}) {
			t.Fatalf("%s: %v %v, %v", tc.d, got.DType, got.Shape, err)
		}
		want := reflect.ValueOf(tc.values)
		for i := range 4 {
			v := want.Index(i)
			var w float64
			switch {
			case v.CanFloat():
				w = v.Float()
			case v.CanInt():
				w = float64(v.Int())
			case v.CanUint():
				w = float64(v.Uint())
			case v.Bool():
				w = 1
			}
			if a := got.Array().At(i); a != w {
				t.Errorf("%s: element %d is %v, want %v", tc.d, i, a, w)
			}
		}
		got.Shape = []int{1, 4}
		var ours bytes.Buffer
		if err := Write(&ours, got); err != nil {
			t.Fatal(err)
		}
		r, err := other.NewReader(bytes.NewReader(ours.Bytes()))
		if err != nil || !slices.Equal(r.Header.Descr.Shape, []int{1, 4}) || r.Header.Descr.Fortran {
			t.Fatalf("%s: %+v, %v", tc.d, r, err)
		}
		back := reflect.New(want.Type())
		if err := r.Read(back.Interface()); err != nil || !reflect.DeepEqual(back.Elem().Interface(), tc.values) {
			t.Errorf("%s: read back as %v, want %v (%v)", tc.d, back.Elem(), tc.values, err)
		}
	}
}

// The bytes that numpy.save(f, numpy.arange(3, dtype="<f2")) writes, according to the published description of the
// format.
const halves = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }" +
	"                                                            \n" + "\x00\x00\x00\x3c\x00\x40"

func TestBytes(t *testing.T) {
	got, err := Read("x", strings.NewReader(halves), nil)
	if err != nil || !slices.Equal(got.Array().Floats, []float64{0, 1, 2}) {
		t.Fatalf("%v, %v", got, err)
	}
	var b bytes.Buffer
	if err := Write(&b, got); err != nil || b.String() != halves {
		t.Errorf("written as\n%q, want\n%q (%v)", b.String(), halves, err)
	}
}

// npyFile assembles a version 1 file.
func npyFile(header string, data int) []byte {
	h := "\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), byte(len(header) >> 8)}) + header
	return append([]byte(h), make([]byte, data)...)
}

func TestShapes(t *testing.T) {
	for header, shape := range map[string][]int{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (), }":             {},
		"{'shape':(2,0),'fortran_order':False,\"descr\":\"<f4\"}\n":           {2, 0},
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3,), }":        {1, 3},
		"{ 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 , 2 ) }": {2, 2},
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,2), }     ": {1, 1, 1, 2},
	} {
		n := tensor.Numel(shape)
		got, err := Read("x", bytes.NewReader(npyFile(header, 4*n)), nil)
		if err != nil || !slices.Equal(got.Shape, shape) || len(got.Data) != 4*n {
			t.Errorf("%s: %v, %v", header, got, err)
			continue
		}
		var b bytes.Buffer
		if err := Write(&b, got); err != nil || b.Len() != 128+4*n && b.Len() != 64+4*n {
			t.Errorf("%s: %d bytes written, %v", header, b.Len(), err)
		}
		if again, err := Read("x", &b, nil); err != nil || !slices.Equal(again.Shape, shape) {
			t.Errorf("%s: read again as %v, %v", header, again.Shape, err)
		}
	}
}

func TestRefused(t *testing.T) {
	dict := func(descr, order, shape string) []byte {
		return npyFile("{'descr': "+descr+", 'fortran_order': "+order+", 'shape': "+shape+", }\n", 16)
	}
	v2 := append([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), make([]byte, 100)...)
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"empty":             {nil, "is not a .npy file"},
		"text":              {[]byte("hello, world, hello"), "is not a .npy file"},
		"version 3":         {[]byte("\x93NUMPY\x03\x00\x00\x00\x00\x00"), "version 3.0"},
		"header bomb":       {v2, "header of 4294967295 bytes"},
		"cut in the header": {npyFile("{'descr'", 0)[:14], "inside its header"},
		"cut in the data": {dict("'<f4'", "False", "(5,)"),
			"ends after 16 bytes of data; shape [5] of f32 takes 20"},
		"shape bomb":          {dict("'<f4'", "False", "(1000000000,)"), "ends after 16 bytes"},
		"trailing bytes":      {dict("'<f4'", "False", "(3,)"), "more bytes"},
		"fortran":             {dict("'<f4'", "True", "(4,)"), "Fortran order"},
		"order is a number":   {dict("'<f4'", "0", "(4,)"), "neither True nor False"},
		"big-endian":          {dict("'>f4'", "False", "(4,)"), "big-endian"},
		"complex":             {dict("'<c8'", "False", "(2,)"), `"<c8" cannot be read; allowed are <f4`},
		"object":              {dict("'|O'", "False", "(2,)"), "cannot be read"},
		"structured":          {dict("[('a', '<f4')]", "False", "(4,)"), "structured"},
		"overflow":            {dict("'<f4'", "False", "(4294967296, 4294967296)"), "more than"},
		"overflow and a zero": {dict("'<f4'", "False", "(4294967296, 0, 4294967296)"), "more than"},
		"negative":            {dict("'<f4'", "False", "(-4,)"), "shape holds"},
		"huge":                {dict("'<f4'", "False", "(99999999999999999999,)"), "shape holds"},
		"float":               {dict("'<f4'", "False", "(4.0,)"), "shape holds"},
		"not a tuple":         {dict("'<f4'", "False", "(4)"), "not a tuple"},
		"list":                {dict("'<f4'", "False", "[4]"), "not a tuple"},
		"open tuple":          {dict("'<f4'", "False", "(4,"), "shape"},
		"rank":                {dict("'<f4'", "False", "("+strings.Repeat("1,", 33)+")"), "more than 32"},
		"missing key":         {npyFile("{'descr': '<f4', 'shape': (4,)}", 16), "must have"},
		"key twice": {npyFile("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", 16),
			"each once"},
		"unknown key": {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}", 16),
			"unknown key"},
		"after the dict": {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} x", 16),
			"after the dict"},
		"no dict":   {npyFile("['<f4', False, (4,)]", 16), "not a dict"},
		"open dict": {npyFile("{'descr': '<f4', ", 16), "not a dict"},
		"no commas": {npyFile("{'descr': '<f4' 'fortran_order': False 'shape': (4,)}", 16), "not a dict"},
	} {
		_, err := Read("x.npy", bytes.NewReader(tc.file), nil)
		if !errors.Is(err, CodeFormat) || !strings.Contains(err.Error(), tc.want) ||
			!strings.HasPrefix(err.Error(), "x.npy: ") {
			t.Errorf("%s: error %v, want one saying %q", name, err, tc.want)
		}
	}
	if _, err := ReadFile(t.Context(), filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, CodeRead) ||
		diag.ExitCode(err) != 3 {
		t.Errorf("missing file: %v", err)
	}
	if err := Write(io.Discard, tensor.New(dtype.BF16, 2)); !errors.Is(err, CodeDType) {
		t.Errorf("bf16: %v", err)
	}
}

// TestLarge checks that a tensor larger than the first allocation is complete and aligned after it was written to a
// file and read back.
func TestLarge(t *testing.T) {
	in := tensor.New(dtype.F32, 3, 500000)
	for i := range in.Data {
		in.Data[i] = byte(i * 7)
	}
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := WriteFile(t.Context(), path, in); err != nil {
		t.Fatal(err)
	}
	out, err := ReadFile(t.Context(), path, nil)
	if err != nil || !bytes.Equal(in.Data, out.Data) || !slices.Equal(in.Shape, out.Shape) {
		t.Fatalf("shape %v, %d bytes, %v", out.Shape, len(out.Data), err)
	}
	if len(tensor.View[float32](out.Data)) != 1500000 {
		t.Error("cannot be viewed")
	}
	if err := os.Truncate(path, 5_000_000); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(t.Context(), path, nil); !errors.Is(err, CodeFormat) {
		t.Errorf("truncated: %v", err)
	}
}

// FuzzRead checks that every tensor that is read can be written and read again unchanged.
func FuzzRead(f *testing.F) {
	f.Add([]byte(halves))
	f.Add(npyFile("{'descr': '|b1', 'fortran_order': False, 'shape': (2, 0), }", 0))
	f.Add(npyFile("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 8))
	f.Add(npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 0, 4294967296), }", 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := Read("x", bytes.NewReader(b), nil)
		if err != nil {
			return
		}
		var w bytes.Buffer
		if err := Write(&w, in); err != nil {
			t.Fatal(err)
		}
		out, err := Read("x", &w, nil)
		if err != nil || out.DType != in.DType || !slices.Equal(out.Shape, in.Shape) ||
			!bytes.Equal(out.Data, in.Data) {
			t.Fatalf("%v became %v, %v", in, out, err)
		}
	})
}

// TestAccept checks that accept is called before any data is read, and that its error is returned unchanged.
func TestAccept(t *testing.T) {
	no := errors.New("too large")
	r := bytes.NewReader(npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1000000), }", 0))
	_, err := Read("x", r, func(d dtype.DType, shape []int) error {
		if d != dtype.F32 || !slices.Equal(shape, []int{3, 1000000}) {
			t.Errorf("%v%v", d, shape)
		}
		return no
	})
	if err != no {
		t.Errorf("error %v", err)
	}
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := WriteFile(t.Context(), path, tensor.New(dtype.I8, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(t.Context(), path, func(dtype.DType, []int) error { return no }); err != no {
		t.Errorf("error %v", err)
	}
}
