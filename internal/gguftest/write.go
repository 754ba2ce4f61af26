// Package gguftest writes GGUF files. Only tests import it.
package gguftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Meta is metadata as alternating keys and values. Values are uint8, uint16, uint32, int32, float32, uint64, bool,
// string, []string, []int32 or []float32.
type Meta []any

// Tensor has row-major dims and the number of its element type.
type Tensor struct {
	Name string
	Type uint32
	Dims []int64
	Data []byte
}

// T returns a Tensor.
func T(name string, kind uint32, data []byte, dims ...int64) Tensor {
	return Tensor{Name: name, Type: kind, Dims: dims, Data: data}
}

// File returns the bytes of a file.
func File(version uint32, meta Meta, tensors ...Tensor) []byte {
	var b bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(fmt.Sprintf("BUG: gguftest: %T: %v", v, err))
		}
	}
	text := func(s string) { put(uint64(len(s))); b.WriteString(s) }
	array := func(kind uint32, n int) { put(uint32(9)); put(kind); put(uint64(n)) }
	b.WriteString("GGUF")
	put(version)
	put(uint64(len(tensors)))
	put(uint64(len(meta) / 2))
	for i := 0; i < len(meta); i += 2 {
		text(meta[i].(string))
		switch v := meta[i+1].(type) {
		case string:
			put(uint32(8))
			text(v)
		case []string:
			array(8, len(v))
			for _, s := range v {
				text(s)
			}
		case []int32:
			array(5, len(v))
			put(v)
		case []float32:
			array(6, len(v))
			put(v)
		default:
			put(
				map[string]uint32{"uint8": 0, "uint16": 2, "uint32": 4, "int32": 5, "float32": 6, "bool": 7,
					"uint64": 10}[fmt.Sprintf("%T", v)])
			put(v)
		}
	}
	at := 0
	for _, t := range tensors {
		text(t.Name)
		put(uint32(len(t.Dims)))
		for i := range t.Dims {
			put(uint64(t.Dims[len(t.Dims)-1-i]))
		}
		put(t.Type)
		put(uint64(at))
		at = (at + len(t.Data) + 31) &^ 31
	}
	for _, t := range tensors {
		b.Write(make([]byte, -b.Len()&31))
		b.Write(t.Data)
	}
	b.Write(make([]byte, -b.Len()&31))
	return b.Bytes()
}
