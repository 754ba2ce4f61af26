package inference

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
)

// datatypes are the protocol's names of element types.
var datatypes = map[rlx.DType]string{
	rlx.Bool: "BOOL", rlx.U8: "UINT8", rlx.U32: "UINT32", rlx.I8: "INT8", rlx.I16: "INT16", rlx.I32: "INT32",
	rlx.I64: "INT64", rlx.F16: "FP16", rlx.BF16: "BF16", rlx.F32: "FP32", rlx.F64: "FP64",
}

// raw returns a tensor of little-endian bytes. The bytes must fill the shape.
func raw(v rlx.Value, shape []int, b []byte) (rlx.Tensor, error) {
	t := rlx.Tensor{DType: v.DType, Shape: shape, Data: b}
	if want := t.Len() * v.DType.Size(); len(b) != want {
		return t, refusef("input %s: has %d bytes; %v takes %d", v.Name, len(b), t, want)
	}
	if v.DType == rlx.Bool {
		for i, x := range b {
			if x > 1 {
				return t, refusef("input %s: byte %d of a BOOL is %d; allowed are 0 and 1", v.Name, i, x)
			}
		}
	}
	return t, nil
}

// parsed returns a tensor of the numbers in data, a JSON array that may be nested. They must fill the shape. data must
// be valid JSON.
func parsed(v rlx.Value, shape []int, data []byte) (rlx.Tensor, error) {
	t := rlx.Tensor{DType: v.DType, Shape: shape}
	n := t.Len()
	t.Data = make([]byte, 0, n*v.DType.Size())
	count := 0
	for i := 0; i < len(data); {
		switch c := data[i]; {
		case c == '[' || c == ']' || c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r':
			i++
			continue
		case c == '"' || c == '{':
			return t, refusef("input %s: data holds a string or an object; want numbers of %s", v.Name,
				datatypes[v.DType])
		}
		end := i
		for end < len(data) && !isEnd(data[end]) {
			end++
		}
		if count++; count > n {
			break
		}
		var err error
		if t.Data, err = appendNumber(t.Data, v.DType, string(data[i:end])); err != nil {
			return t, refusef("input %s: element %d: %v", v.Name, count-1, err)
		}
		i = end
	}
	if count != n {
		return t, refusef("input %s: data has %s elements than shape %v, which takes %d", v.Name,
			map[bool]string{false: "fewer", true: "more"}[count > n], shape, n)
	}
	return t, nil
}

// isEnd reports whether a byte of JSON ends a number.
func isEnd(c byte) bool {
	return c == ',' || c == ']' || c == '[' || c == ' ' || c == '\n' || c == '\t' || c == '\r'
}

// appendNumber appends the bytes of a number or bool that JSON has as text.
func appendNumber(b []byte, d rlx.DType, text string) ([]byte, error) {
	switch d {
	case rlx.Bool:
		if text != "true" && text != "false" {
			return b, fmt.Errorf("%s is not a BOOL: want true or false", text)
		}
		return append(b, map[string]byte{"true": 1}[text]), nil
	case rlx.F16, rlx.BF16, rlx.F32, rlx.F64:
		bits := 64
		if d == rlx.F32 {
			bits = 32 // rounded once
		}
		x, err := strconv.ParseFloat(text, bits)
		if err != nil {
			return b, fmt.Errorf("%s is not in the range of %s", text, datatypes[d])
		}
		return appendFloat(b, d, x), nil
	}
	var x int64
	var err error
	if d == rlx.U8 || d == rlx.U32 {
		var u uint64
		u, err = strconv.ParseUint(text, 10, 8*d.Size())
		x = int64(u)
	} else {
		x, err = strconv.ParseInt(text, 10, 8*d.Size())
	}
	if err != nil {
		return b, fmt.Errorf("%s is not an integer in the range of %s", text, datatypes[d])
	}
	return appendInt(b, d, x), nil
}

func appendFloat(b []byte, d rlx.DType, x float64) []byte {
	switch d {
	case rlx.F16:
		return binary.LittleEndian.AppendUint16(b, dtype.F64ToF16(x))
	case rlx.BF16:
		return binary.LittleEndian.AppendUint16(b, dtype.F64ToBF16(x))
	case rlx.F32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
}

func appendInt(b []byte, d rlx.DType, x int64) []byte {
	var all [8]byte
	binary.LittleEndian.PutUint64(all[:], uint64(x))
	return append(b, all[:d.Size()]...)
}

// numbers returns the elements of a tensor as a flat JSON array. JSON has neither NaN nor infinities.
func numbers(name string, t rlx.Tensor) (json.RawMessage, error) {
	size := t.DType.Size()
	b := append(make([]byte, 0, 8*t.Len()+2), '[')
	for i := range t.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		x := t.Data[i*size : (i+1)*size]
		switch t.DType {
		case rlx.Bool:
			b = strconv.AppendBool(b, x[0] != 0)
		case rlx.F16, rlx.BF16, rlx.F32, rlx.F64:
			f, bits := floatAt(t.DType, x)
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, &failure{http.StatusUnprocessableEntity, codes.FailedPrecondition, fmt.Sprintf(
					"output %s: element %d is %v, which JSON does not have: ask for binary_data", name, i, f)}
			}
			b = strconv.AppendFloat(b, f, 'g', -1, bits)
		default:
			b = strconv.AppendInt(b, intAt(t.DType, x), 10)
		}
	}
	return append(b, ']'), nil
}

// floatAt returns a float, and the bits that its shortest text needs.
func floatAt(d rlx.DType, x []byte) (f float64, bits int) {
	switch d {
	case rlx.F16:
		return float64(dtype.F16ToF32(binary.LittleEndian.Uint16(x))), 32
	case rlx.BF16:
		return float64(dtype.BF16ToF32(binary.LittleEndian.Uint16(x))), 32
	case rlx.F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(x))), 32
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(x)), 64
}

func intAt(d rlx.DType, x []byte) int64 {
	var all [8]byte
	copy(all[:], x)
	u := binary.LittleEndian.Uint64(all[:])
	if d == rlx.U8 || d == rlx.U32 {
		return int64(u)
	}
	shift := 64 - 8*d.Size()
	return int64(u<<shift) >> shift
}
