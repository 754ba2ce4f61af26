package compile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// writeTensor writes a safetensors file with one tensor, called x.
func writeTensor(t *testing.T, stored string, shape []int, data []byte) string {
	t.Helper()
	about := map[string]any{"dtype": stored, "shape": shape, "data_offsets": []int{0, len(data)}}
	header, err := json.Marshal(map[string]any{"x": about})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	if err := os.WriteFile(path, append(file, data...), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func readX(t *testing.T, path string, typ ir.Type) ([]byte, error) {
	t.Helper()
	graphs, err := ir.ParseAll("graph g\nx = param : "+typ.String()+"\nreturn x=x\n", textLimits)
	if err != nil {
		t.Fatal(err)
	}
	params, err := readParams(path, graphs, newMemory(0))
	if err == nil && (params["x"].DType != typ.DType || len(params["x"].Data) != int(typ.Bytes(nil))) {
		t.Errorf("%v became %v of %d bytes", typ, params["x"].DType, len(params["x"].Data))
	}
	return params["x"].Data, err
}

// TestReadParams checks that --weights takes params of every element type, byte for byte.
func TestReadParams(t *testing.T) {
	for _, d := range dtype.Known() {
		for _, shape := range [][]int64{{3, 2}, {2}, {}, {0, 4}} {
			typ := ir.TypeOf(d, shape...)
			data := make([]byte, typ.Bytes(nil))
			for i := range data {
				data[i] = byte(7 * i)
				if d == dtype.Bool {
					data[i] = byte(i & 1)
				}
			}
			name, dims := strings.ToUpper(d.String()), typ.Shape.Eval(nil)
			if d.IsPacked() {
				name = "U8"
				if len(dims) == 0 {
					dims = []int{1}
				}
				dims[len(dims)-1] *= d.Size()
			}
			if got, err := readX(t, writeTensor(t, name, dims, data), typ); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%v: %v, %v", typ, got, err)
			}
		}
	}
	for _, c := range []struct {
		stored string
		shape  []int
		size   int
		typ    ir.Type
		want   string
	}{
		{"I32", []int{2}, 8, ir.TypeOf(dtype.I64, 2), "x is I32 of shape [2]; the graph wants i64[2]"},
		{"U8", []int{2}, 2, ir.TypeOf(dtype.Q4_0, 2), "x is U8 of shape [2]; the graph wants u8[36]"},
		{"F8_E4M3", []int{2}, 2, ir.TypeOf(dtype.U8, 2), "x is F8_E4M3 of shape [2]; the graph wants u8[2]"},
		{"BOOL", []int{2}, 2, ir.TypeOf(dtype.Bool, 2), `tensor "x": element 1 is the byte 9; a BOOL is 0 or 1`},
	} {
		data := make([]byte, c.size)
		data[1] = 9
		_, err := readX(t, writeTensor(t, c.stored, c.shape, data), c.typ)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%v for %v: %v; want %s", c.stored, c.shape, c.typ, err, c.want)
		}
	}
}
