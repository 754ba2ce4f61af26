// Package ply reads and writes PLY files of points: binary, little-endian, with the one element vertex, whose
// properties are all float. Greg Turk's "The PLY Polygon File Format" (1994) defines the format. It also reads the
// compressed files of SuperSplat and PlayCanvas, as if they were such files.
package ply

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of a header.
const (
	MaxHeader     = 1 << 16 // bytes
	MaxProperties = 256
	MaxVertices   = 1 << 27
)

// Header describes the contents of a file. Vertex i is Stride bytes of Values at Offset + i*Stride, a float32 for each
// property.
type Header struct {
	Vertices   int64
	Properties []string
	Values     io.ReaderAt // the file, or what becomes of a compressed one
	Offset     int64
}

// Stride returns the size of a vertex in bytes.
func (h *Header) Stride() int64 { return 4 * int64(len(h.Properties)) }

// element is a declaration in a header: a number of rows with properties of one type.
type element struct {
	name       string
	rows       int64
	kind       string // the type of the properties: float, uint or uchar
	properties []string
}

// size returns the size of a row in bytes.
func (e *element) size() int64 {
	if e.kind == "uchar" {
		return int64(len(e.properties))
	}
	return 4 * int64(len(e.properties))
}

// Parse reads the header of a file of the given size, which must end with the last row.
func Parse(r io.ReaderAt, size int64) (*Header, error) {
	head := make([]byte, min(size, MaxHeader))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var p parser
	at := int64(0)
	for n := 1; ; n++ {
		end := bytes.IndexByte(head[at:], '\n')
		if end < 0 {
			return nil, fmt.Errorf("the header does not end within the first %d bytes", len(head))
		}
		line := string(head[at:][:end])
		at += int64(end) + 1
		if n > 1 && line == "end_header" {
			break
		}
		if err := p.line(n, line); err != nil {
			return nil, err
		}
	}
	if !p.format {
		return nil, errors.New("the header has no line format")
	}
	if len(p.elements) > 0 && p.elements[0].name == "chunk" {
		return p.compressed(r, size, at)
	}
	if len(p.elements) != 1 || len(p.elements[0].properties) == 0 {
		return nil, errors.New("the header has no element vertex with properties")
	}
	e := p.elements[0]
	if e.kind != "float" {
		return nil, fmt.Errorf("the properties of element vertex are of type %s; want float", e.kind)
	}
	if size-at != e.rows*e.size() {
		return nil, fmt.Errorf("has %d bytes after the header; %d vertices of %d bytes are %d", size-at, e.rows,
			e.size(), e.rows*e.size())
	}
	return &Header{Vertices: e.rows, Properties: e.properties, Values: r, Offset: at}, nil
}

// parser is the state of reading a header.
type parser struct {
	elements []element
	format   bool // the format was declared
}

// line reads line n of the header, from 1.
func (p *parser) line(n int, line string) error {
	words := strings.Fields(line)
	switch {
	case n == 1 && line != "ply":
		return errors.New("does not begin with the line ply")
	case n == 1:
		return nil
	case len(words) == 0:
		return fmt.Errorf("line %d of the header is empty", n)
	}
	switch words[0] {
	case "comment", "obj_info":
		return nil
	case "format":
		if p.format || line != "format binary_little_endian 1.0" {
			return fmt.Errorf("line %d of the header is %.80q; want format binary_little_endian 1.0, once", n, line)
		}
		p.format = true
		return nil
	case "element":
		return p.declare(n, line, words)
	case "property":
		return p.property(n, line, words)
	}
	return fmt.Errorf("line %d of the header is %.80q, which is unknown", n, line)
}

// orders are the elements that a file may have.
var orders = []string{"vertex", "chunk vertex", "chunk vertex sh"}

// declare reads the line of an element.
func (p *parser) declare(n int, line string, words []string) error {
	var names []string
	for _, e := range p.elements {
		names = append(names, e.name)
	}
	if len(words) == 3 {
		names = append(names, words[1])
	}
	known := false
	for _, o := range orders {
		known = known || len(words) == 3 && strings.HasPrefix(o+" ", strings.Join(names, " ")+" ")
	}
	if !known {
		return fmt.Errorf("line %d of the header is %.80q; want the element vertex alone, or chunk, vertex and sh", n,
			line)
	}
	v, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || v < 1 || v > MaxVertices {
		return fmt.Errorf("has %.80s %s; want 1 to %d", words[2], plural[words[1]], MaxVertices)
	}
	p.elements = append(p.elements, element{name: words[1], rows: v})
	return nil
}

var plural = map[string]string{"vertex": "vertices", "chunk": "chunks", "sh": "rows of harmonics"}

// kinds are the types of properties.
var kinds = map[string]string{"float": "float", "float32": "float", "uint": "uint", "uint32": "uint", "uchar": "uchar",
	"uint8": "uchar"}

// property reads the line of a property. All properties of an element have one type.
func (p *parser) property(n int, line string, words []string) error {
	if len(words) != 3 || kinds[words[1]] == "" {
		return fmt.Errorf("line %d of the header is %.80q; want properties of type float", n, line)
	}
	name := words[2]
	if len(p.elements) == 0 {
		return fmt.Errorf("property %.80q belongs to no element", name)
	}
	e := &p.elements[len(p.elements)-1]
	for _, have := range e.properties {
		if have == name {
			return fmt.Errorf("property %.80q appears twice", name)
		}
	}
	kind := kinds[words[1]]
	switch {
	case e.kind != "" && e.kind != kind, len(p.elements) == 1 && kind != "float":
		return fmt.Errorf("line %d of the header is %.80q; want properties of type float", n, line)
	case len(name) > 64 || len(e.properties) == MaxProperties:
		return fmt.Errorf("property %.80q: want at most %d, with names of at most 64 bytes", name, MaxProperties)
	}
	e.kind = kind
	e.properties = append(e.properties, name)
	return nil
}
