package ply

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// The compressed files of SuperSplat and PlayCanvas ("compressed.ply") have Gaussian splats in chunks of 256. The
// element chunk has the ranges of positions, logarithms of scales and, in newer files, colours. A vertex has four
// words:
//
//	packed_position  x 11 bits, y 10, z 11, from the most significant bit, as shares of the chunk's ranges
//	packed_rotation  2 bits, the place of the largest part of the quaternion w, x, y, z; 10 bits for each other
//	packed_scale     as packed_position
//	packed_color     red, green, blue and opacity, 8 bits each
//
// The element sh, which may be absent, has the other harmonics as bytes.
const chunkSplats = 256

var (
	chunkRanges = strings.Fields("min_x min_y min_z max_x max_y max_z min_scale_x min_scale_y min_scale_z " +
		"max_scale_x max_scale_y max_scale_z min_r min_g min_b max_r max_g max_b")
	packedWords = strings.Fields("packed_position packed_rotation packed_scale packed_color")
)

// compressed is such a file. It reads as the rows of a plain one.
type compressed struct {
	file               io.ReaderAt
	n                  int64
	chunks, words, sh  int64 // where the elements begin
	ranges, harmonics  int   // properties of a chunk, and of sh
	rowBytes, allBytes int64
}

// compressed checks the elements of a compressed file whose header ends at a place, and returns the header of the
// expanded file.
func (p *parser) compressed(r io.ReaderAt, size, at int64) (*Header, error) {
	if len(p.elements) < 2 {
		return nil, errors.New("has chunks, but no vertices")
	}
	chunk, vertex := &p.elements[0], &p.elements[1]
	n := vertex.rows
	c := &compressed{file: r, n: n, chunks: at, ranges: len(chunk.properties)}
	if (c.ranges != 12 && c.ranges != 18) || !slices.Equal(chunk.properties, chunkRanges[:c.ranges]) {
		return nil, fmt.Errorf("element chunk has the properties %.200v; want %v", chunk.properties, chunkRanges)
	}
	if vertex.kind != "uint" || !slices.Equal(vertex.properties, packedWords) {
		return nil, fmt.Errorf("element vertex has the properties %.200v of type %s; want %v of type uint",
			vertex.properties, vertex.kind, packedWords)
	}
	if want := (n + chunkSplats - 1) / chunkSplats; chunk.rows != want {
		return nil, fmt.Errorf("has %d chunks; %d vertices have %d", chunk.rows, n, want)
	}
	h := &Header{Vertices: n, Values: c, Properties: strings.Fields("x y z f_dc_0 f_dc_1 f_dc_2")}
	if len(p.elements) == 3 {
		sh := &p.elements[2]
		c.harmonics = len(sh.properties)
		for k, name := range sh.properties {
			if name != fmt.Sprint("f_rest_", k) {
				return nil, fmt.Errorf("element sh has the property %.80q; want f_rest_%d", name, k)
			}
		}
		if sh.rows != n || sh.kind != "uchar" || !slices.Contains([]int{9, 24, 45}, c.harmonics) {
			return nil, fmt.Errorf("element sh has %d rows of %d properties of type %s; want %d rows of 9, 24 or 45 of type uchar",
				sh.rows, c.harmonics, sh.kind, n)
		}
		h.Properties = append(h.Properties, sh.properties...)
	}
	h.Properties = append(h.Properties, strings.Fields("opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3")...)
	c.words = at + chunk.rows*chunk.size()
	c.sh = c.words + n*vertex.size()
	if end := c.sh + n*int64(c.harmonics); size != end {
		return nil, fmt.Errorf("has %d bytes after the header; its elements have %d", size-at, end-at)
	}
	c.rowBytes = h.Stride()
	c.allBytes = n * c.rowBytes
	return h, nil
}

// ReadAt reads the rows of the plain file.
func (c *compressed) ReadAt(b []byte, at int64) (done int, err error) {
	if at < 0 {
		return 0, errors.New("negative offset")
	}
	block := chunkSplats * c.rowBytes
	for len(b) > 0 && at < c.allBytes {
		rows, err := c.chunk(at / block)
		if err != nil {
			return done, err
		}
		n := copy(b, rows[at%block:])
		b, at, done = b[n:], at+int64(n), done+n
	}
	if len(b) > 0 {
		return done, io.EOF
	}
	return done, nil
}

// chunk returns the rows of a chunk.
func (c *compressed) chunk(i int64) ([]byte, error) {
	n := int(min(chunkSplats, c.n-i*chunkSplats))
	limits, words, sh := make([]byte, 4*c.ranges), make([]byte, 16*n), make([]byte, n*c.harmonics)
	for _, part := range []struct {
		b  []byte
		at int64
	}{{limits, c.chunks + i*int64(len(limits))}, {words, c.words + i*16*chunkSplats},
		{sh, c.sh + i*chunkSplats*int64(c.harmonics)}} {
		if k, err := c.file.ReadAt(part.b, part.at); k < len(part.b) {
			return nil, err
		}
	}
	ranges := make([]float64, 18)
	copy(ranges[15:], []float64{1, 1, 1})
	for k := range c.ranges {
		ranges[k] = float64(math.Float32frombits(binary.LittleEndian.Uint32(limits[4*k:])))
	}
	out := make([]byte, 0, int64(n)*c.rowBytes)
	for k := range n {
		out = unpack(out, words[16*k:], sh[k*c.harmonics:][:c.harmonics], ranges)
	}
	return out, nil
}

// constant is the first of the spherical harmonics.
const constant = 0.28209479177387814

// certain is the logit for an opacity of 1; its negative is the logit for 0.
const certain = 40

// unpack appends the row of one splat.
func unpack(out, words, sh []byte, ranges []float64) []byte {
	put := func(x float64) { out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x))) }
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(words[4*i:]) }
	between := func(i int, share float64) float64 { return ranges[i]*(1-share) + ranges[i+3]*share }
	position, color, scale := thirds(word(0)), word(3), thirds(word(2))
	for k, x := range position {
		put(between(k, x))
	}
	for k := range 3 {
		put((between(12+k, share(color>>(24-8*k), 8)) - 0.5) / constant)
	}
	for _, b := range sh {
		put(harmonic(b))
	}
	opacity := share(color, 8)
	put(min(max(-math.Log(1/opacity-1), -certain), certain))
	for k, x := range scale {
		put(between(6+k, x))
	}
	for _, x := range quaternion(word(1)) {
		put(x)
	}
	return out
}

// harmonic returns the value of a byte: the middle of one of 256 parts of -4 to 4, or an end, as the writer of the
// files has it. (Viewers take 8/255*b - 4, which differs by at most 1/64.)
func harmonic(b byte) float64 {
	switch b {
	case 0:
		return -4
	case 255:
		return 4
	}
	return (float64(b)+0.5)/32 - 4
}

// share returns the low bits of a word as a number of 0 to 1.
func share(word uint32, bits int) float64 {
	most := uint32(1)<<bits - 1
	return float64(word&most) / float64(most)
}

// thirds divides a word into shares of 11, 10 and 11 bits.
func thirds(word uint32) [3]float64 {
	return [3]float64{share(word>>21, 11), share(word>>11, 10), share(word, 11)}
}

// quaternion returns w, x, y and z. The largest part is positive and follows from the length of 1.
func quaternion(word uint32) (q [4]float64) {
	largest, rest, k := int(word>>30), 1.0, 0
	for i := range q {
		if i == largest {
			continue
		}
		q[i] = (share(word>>(20-10*k), 10) - 0.5) * math.Sqrt2
		rest -= q[i] * q[i]
		k++
	}
	q[largest] = math.Sqrt(max(rest, 0))
	return q
}
