package ply

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Write writes a file of n vertices. fill sets the values of a vertex, in the order of the properties.
func Write(w io.Writer, properties []string, n int, fill func(i int, row []float32)) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "ply\nformat binary_little_endian 1.0\nelement vertex %d\n", n)
	for _, p := range properties {
		fmt.Fprintf(b, "property float %s\n", p)
	}
	b.WriteString("end_header\n")
	row, bytes := make([]float32, len(properties)), make([]byte, 4*len(properties))
	for i := range n {
		fill(i, row)
		for k, x := range row {
			binary.LittleEndian.PutUint32(bytes[4*k:], math.Float32bits(x))
		}
		if _, err := b.Write(bytes); err != nil {
			return err
		}
	}
	return b.Flush()
}
