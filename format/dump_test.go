package format

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// annotate prints an artifact without weights in the form that spec/format.md uses: offset, bytes, and their meaning.
func annotate(b []byte) string {
	d := dumper{b: b}
	d.title("header")
	d.take(8, "magic")
	for _, f := range []struct {
		size int
		name string
	}{{2, "format_major"}, {2, "format_minor"}, {4, "header_size"}, {8, "file_size"}, {8, "table_offset"},
		{4, "section_count"}, {4, "entry_size"}} {
		d.number(f.size, f.name)
	}
	d.take(8, "feature_required")
	d.take(8, "feature_optional")
	d.take(8, "reserved")
	count := int(binary.LittleEndian.Uint32(b[offSections:]))
	d.take(32, fmt.Sprintf("root: SHA-256 of bytes 0000-003f and 0080-%04x", HeaderSize+count*EntrySize-1))
	d.take(28, "reserved")
	d.take(4, "CRC-32C of bytes 0000-007b")
	type section struct {
		kind   string
		offset int
	}
	var sections []section
	for i := range count {
		d.title(fmt.Sprintf("\nsection table, entry %d", i))
		kind := string(b[d.at : d.at+4])
		d.take(4, fmt.Sprintf("kind %q", kind))
		d.take(4, "flags: critical")
		sections = append(sections, section{kind, int(binary.LittleEndian.Uint64(b[d.at:]))})
		for _, f := range []struct {
			size int
			name string
		}{{8, "offset"}, {8, "size"}, {4, "align"}, {4, "schema_version"}, {8, "item_count"}} {
			d.number(f.size, f.name)
		}
		d.take(8, "reserved")
		d.take(32, "sha256 of the section")
	}
	for _, s := range sections {
		d.at = s.offset
		d.title("\n" + s.kind)
		d.value(0, "")
	}
	return d.out.String()
}

type dumper struct {
	b   []byte
	at  int
	out strings.Builder
}

func (d *dumper) title(s string) { fmt.Fprintln(&d.out, s) }

// take prints the next n bytes, 16 to a line.
func (d *dumper) take(n int, what string) {
	for n > 0 {
		k := min(n, 16)
		line := fmt.Sprintf("%04x  %-47s  %s", d.at, fmt.Sprintf("% x", d.b[d.at:d.at+k]), what)
		fmt.Fprintln(&d.out, strings.TrimRight(line, " "))
		d.at, n, what = d.at+k, n-k, ""
	}
}

func (d *dumper) number(n int, what string) {
	v := uint64(0)
	for i := range n {
		v |= uint64(d.b[d.at+i]) << (8 * i)
	}
	d.take(n, fmt.Sprintf("%s %d", what, v))
}

// value prints a msgpack value on one line, unless it contains a map. key is printed before it.
func (d *dumper) value(indent int, key string) {
	r := &counter{b: d.b[d.at:]}
	dec := msgpack.NewDecoder(r)
	label := strings.Repeat(" ", indent)
	start := 0
	if key != "" {
		dec.DecodeString()
		label += key + ": "
		start = r.n
	}
	text, flat := flatText(dec)
	if flat {
		d.take(r.n, label+text)
		return
	}
	r = &counter{b: d.b[d.at+start:]}
	dec = msgpack.NewDecoder(r)
	if code, _ := dec.PeekCode(); msgpcode.IsFixedMap(code) {
		n, _ := dec.DecodeMapLen()
		d.take(start+r.n, label+fmt.Sprintf("map of %d", n))
		for range n {
			name, _ := msgpack.NewDecoder(&counter{b: d.b[d.at:]}).DecodeString()
			d.value(indent+2, name)
		}
		return
	}
	n, _ := dec.DecodeArrayLen()
	d.take(start+r.n, label+fmt.Sprintf("list of %d", n))
	for range n {
		d.value(indent+2, "")
	}
}

// flatText reads a value and prints it like JSON; flat is false if it contains a map.
func flatText(dec *msgpack.Decoder) (text string, flat bool) {
	switch code, _ := dec.PeekCode(); {
	case msgpcode.IsFixedMap(code):
		return "", false
	case msgpcode.IsFixedArray(code):
		n, _ := dec.DecodeArrayLen()
		parts := make([]string, n)
		for i := range parts {
			if parts[i], flat = flatText(dec); !flat {
				return "", false
			}
		}
		return "[" + strings.Join(parts, ", ") + "]", true
	case msgpcode.IsString(code):
		s, _ := dec.DecodeString()
		return fmt.Sprintf("%q", s), true
	default:
		v, _ := dec.DecodeInterface()
		return fmt.Sprint(v), true
	}
}

// counter counts the bytes read through it. It implements UnreadByte so that the decoder does not add a buffer.
type counter struct {
	b []byte
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	k := copy(p, c.b[c.n:])
	c.n += k
	return k, nil
}

func (c *counter) ReadByte() (byte, error) { c.n++; return c.b[c.n-1], nil }
func (c *counter) UnreadByte() error       { c.n--; return nil }
