package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// tensorsFile is `tensors FILE NAME=1,2,3...`: it writes a safetensors file with vectors of f32.
func tensorsFile(ts *testscript.TestScript, _ bool, args []string) {
	header, data := map[string]any{}, []byte(nil)
	for _, arg := range args[1:] {
		name, list, _ := strings.Cut(arg, "=")
		first, n := len(data), 0
		for text := range strings.SplitSeq(list, ",") {
			v, err := strconv.ParseFloat(text, 32)
			ts.Check(err)
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
			n++
		}
		header[name] = map[string]any{"dtype": "F32", "shape": []int{n}, "data_offsets": []int{first, len(data)}}
	}
	text, err := json.Marshal(header)
	ts.Check(err)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), append(append(file, text...), data...), 0o666))
}
