// Package ply reads the headers of PLY files of points: binary, little-endian, with the one element vertex, whose
// properties are all float. Greg Turk's "The PLY Polygon File Format" (1994) defines the format.
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

// Header says what a file has. Vertex i is Stride bytes at Offset + i*Stride, a float32 for each property.
type Header struct {
	Vertices   int64
	Properties []string
	Offset     int64
}

// Stride returns the size of a vertex in bytes.
func (h *Header) Stride() int64 { return 4 * int64(len(h.Properties)) }

// Parse reads the header of a file of the given size, which must end with the last vertex.
func Parse(r io.ReaderAt, size int64) (*Header, error) {
	head := make([]byte, min(size, MaxHeader))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	p := parser{Header: Header{Vertices: -1}}
	h := &p.Header
	for n := 1; ; n++ {
		end := bytes.IndexByte(head[h.Offset:], '\n')
		if end < 0 {
			return nil, fmt.Errorf("the header does not end within the first %d bytes", len(head))
		}
		line := string(head[h.Offset:][:end])
		h.Offset += int64(end) + 1
		if n > 1 && line == "end_header" {
			break
		}
		if err := p.line(n, line); err != nil {
			return nil, err
		}
	}
	switch {
	case !p.format:
		return nil, errors.New("the header has no line format")
	case h.Vertices < 0 || len(h.Properties) == 0:
		return nil, errors.New("the header has no element vertex with properties")
	case size-h.Offset != h.Vertices*h.Stride():
		return nil, fmt.Errorf("has %d bytes after the header; %d vertices of %d bytes are %d", size-h.Offset,
			h.Vertices, h.Stride(), h.Vertices*h.Stride())
	}
	return h, nil
}

// parser is the state of reading a header.
type parser struct {
	Header
	element string // the element that was declared, "vertex", or empty
	format  bool   // the format was declared
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
		if len(words) != 3 || words[1] != "float" && words[1] != "float32" {
			return fmt.Errorf("line %d of the header is %.80q; want properties of type float", n, line)
		}
		return p.add(words[2], p.element)
	}
	return fmt.Errorf("line %d of the header is %.80q, which is unknown", n, line)
}

// declare reads the line of an element.
func (p *parser) declare(n int, line string, words []string) error {
	switch {
	case len(words) == 3 && words[1] == "vertex" && p.element == "":
		v, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil || v < 1 || v > MaxVertices {
			return fmt.Errorf("has %.80s vertices; want 1 to %d", words[2], MaxVertices)
		}
		p.Vertices, p.element = v, "vertex"
		return nil
	case len(words) == 3 && words[1] == "chunk":
		return errors.New("has the element chunk: it is compressed; convert it to the plain form")
	}
	return fmt.Errorf("line %d of the header is %.80q; want the element vertex alone", n, line)
}

func (h *Header) add(name, element string) error {
	for _, have := range h.Properties {
		if have == name {
			return fmt.Errorf("property %.80q appears twice", name)
		}
	}
	switch {
	case element == "":
		return fmt.Errorf("property %.80q belongs to no element", name)
	case len(name) > 64 || len(h.Properties) == MaxProperties:
		return fmt.Errorf("property %.80q: want at most %d, with names of at most 64 bytes", name, MaxProperties)
	}
	h.Properties = append(h.Properties, name)
	return nil
}
