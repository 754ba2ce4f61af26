package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
)

// matrices writes a checkpoint of f32 matrices with three rows and the given widths, and returns it with the values.
func matrices(t *testing.T, widths map[string]int) (*Checkpoint, map[string][]float32) {
	t.Helper()
	var header []string
	var data []byte
	values, rng := map[string][]float32{}, rand.New(rand.NewPCG(1, 2))
	for name, k := range widths {
		from := len(data)
		for range 3 * k {
			v := float32(rng.NormFloat64())
			values[name] = append(values[name], v)
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		header = append(
			header, fmt.Sprintf(`%q:{"dtype":"F32","shape":[3,%d],"data_offsets":[%d,%d]}`, name, k, from, len(data)))
	}
	c, err := Open(write(t, t.TempDir(), "m.safetensors", append(file("{"+strings.Join(header, ",")+"}", 0), data...)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, values
}

func TestQuantize(t *testing.T) {
	widths := map[string]int{"model.embed_tokens.weight": 256, "model.layers.0.mlp.gate.weight": 256,
		"model.layers.0.mlp.gate_proj.weight": 256, "table": 256, "odd.weight": 48, "narrow.weight": 96}
	for i := range 8 {
		widths[fmt.Sprintf("model.layers.%d.mlp.down_proj.weight", i)] = 512
	}
	for i := range 4 { // stacked as one tensor [4,3,256]
		widths[fmt.Sprintf("model.layers.0.mlp.experts.%d.up_proj.weight", i)] = 256
	}
	c, values := matrices(t, widths)
	down := func(d dtype.DType, layers ...int) map[string]dtype.DType {
		m := map[string]dtype.DType{}
		for _, i := range layers {
			m[fmt.Sprintf("model.layers.%d.mlp.down_proj.weight", i)] = d
		}
		return m
	}
	want := map[string]dtype.DType{"model.embed_tokens.weight": dtype.Q6_K,
		"model.layers.0.mlp.gate_proj.weight": dtype.Q4_K, "narrow.weight": dtype.Q8_0,
		"model.layers.0.mlp.experts.up_proj.weight": dtype.Q4_K}
	maps.Copy(want, down(dtype.Q6_K, 0, 3, 6, 7)) // llama.cpp: the first and the last eighth, and every third between
	maps.Copy(want, down(dtype.Q4_K, 1, 2, 4, 5))
	if got := Quantize(c, Mixed); !maps.Equal(got, want) {
		t.Errorf("%s chooses %v; want %v", Mixed, got, want)
	}
	var made []Packing
	s := Stored{Checkpoint: c, Packed: Quantize(c, "q5_1"), Packings: func(p Packing) { made = append(made, p) }}
	if typ, _ := s.Type("narrow.weight"); typ.String() != "q5_1[3,3]" {
		t.Errorf("a matrix of q5_1 is %v", typ)
	}
	var b bytes.Buffer
	if _, err := s.WriteTo(&b, "narrow.weight"); err != nil {
		t.Fatal(err)
	}
	if typ, _ := s.Type("model.layers.0.mlp.experts.up_proj.weight"); typ.String() != "q5_1[4,3,8]" {
		t.Errorf("matrices of experts are %v", typ)
	}
	blocks := make([]byte, 9*24)
	quant.Encode(blocks, dtype.Q5_1, values["narrow.weight"])
	if !bytes.Equal(b.Bytes(), blocks) {
		t.Error("the tensor is not stored as package quant encodes it")
	}
	if p := made[0]; p.Before != 3*96*4 || p.After != 9*24 || !(p.Error > 0.02 && p.Error < 0.05) {
		t.Errorf("reported as %+v", p)
	}
}

func TestQuantizeRefuses(t *testing.T) {
	nan := file(`{"a.weight":{"dtype":"BF16","shape":[2,32],"data_offsets":[0,128]}}`, 128)
	binary.LittleEndian.PutUint16(nan[len(nan)-2:], 0x7fc0)
	c, err := Open(write(t, t.TempDir(), "m.safetensors", nan))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = Stored{Checkpoint: c, Packed: Quantize(c, "q8_0")}.WriteTo(&bytes.Buffer{}, "a.weight")
	if code, _ := diag.CodeOf(err); !errors.Is(err, CodeDType) || !strings.Contains(err.Error(), "values 32 to 63") {
		t.Errorf("a NaN gives %v (%v)", err, code)
	}
}
