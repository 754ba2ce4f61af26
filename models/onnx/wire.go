package onnx

import (
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// The bytes of large tensors stay in the file: this reads a model without them, and notes where they are.

const (
	graphField   = 7 // of ModelProto
	tensorField  = 5 // initializer of GraphProto
	rawField     = 9 // raw_data of TensorProto
	maxRawInline = 1 << 12
)

// span is a range of bytes of the file.
type span struct{ offset, length int64 }

// wire reads a message of a file.
type wire struct {
	r        io.ReaderAt
	at, end  int64
	buf      []byte // of the file, from bufStart on
	bufStart int64
}

var errWire = errors.New("is cut off or no message")

// read returns n bytes at the position, and goes on after them.
func (w *wire) read(n int64) ([]byte, error) {
	if n > w.end-w.at {
		return nil, errWire
	}
	out := make([]byte, n)
	if _, err := w.r.ReadAt(out, w.at); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	w.at += n
	return out, nil
}

// varint reads a number.
func (w *wire) varint() (uint64, error) {
	if w.at < w.bufStart || w.at+binary.MaxVarintLen64 > w.bufStart+int64(len(w.buf)) {
		b := make([]byte, min(1<<12, w.end-w.at))
		if _, err := w.r.ReadAt(b, w.at); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		w.buf, w.bufStart = b, w.at
	}
	v, n := protowire.ConsumeVarint(w.buf[w.at-w.bufStart:])
	if n < 0 || w.at+int64(n) > w.end {
		return 0, errWire
	}
	w.at += int64(n)
	return v, nil
}

// fields calls f with each field. For a field of bytes, at and length are those of its content; f returns false to have
// the field appended to what fields returns.
func (w *wire) fields(f func(num protowire.Number, at, length int64) (taken bool, err error)) (rest []byte, err error) {
	for w.at < w.end {
		start := w.at
		tag, err := w.varint()
		if err != nil {
			return nil, err
		}
		num, typ := protowire.DecodeTag(tag)
		var length int64
		switch typ {
		case protowire.VarintType:
			_, err = w.varint()
		case protowire.Fixed32Type:
			length = 4
		case protowire.Fixed64Type:
			length = 8
		case protowire.BytesType:
			var n uint64
			if n, err = w.varint(); err == nil && n > uint64(w.end-w.at) {
				err = errWire
			}
			length = int64(n)
		default:
			err = errWire // groups, which ONNX does not have
		}
		if err != nil || length > w.end-w.at {
			return nil, errors.Join(errWire, err)
		}
		if typ == protowire.BytesType {
			at := w.at
			taken, err := f(num, at, length)
			if err != nil {
				return nil, err
			}
			if taken {
				w.at = at + length
				continue
			}
			w.at = at
		}
		end := w.at + length
		w.at = start
		b, err := w.read(end - start)
		if err != nil {
			return nil, err
		}
		rest = append(rest, b...)
	}
	return rest, nil
}

// part returns a reader of a field of bytes.
func (w *wire) part(at, length int64) *wire { return &wire{r: w.r, at: at, end: at + length} }

// readModel reads a model of that many bytes. The bytes of large tensors are left out, and inline says where they are.
func readModel(r io.ReaderAt, size int64) (m *onnxpb.ModelProto, inline map[*onnxpb.TensorProto]span, err error) {
	inline = map[*onnxpb.TensorProto]span{}
	options := proto.UnmarshalOptions{RecursionLimit: 4 * maxNesting}
	graph := &onnxpb.GraphProto{}
	has := false
	top := &wire{r: r, end: size}
	rest, err := top.fields(func(num protowire.Number, at, length int64) (bool, error) {
		if num != graphField {
			return false, nil
		}
		has = true
		return true, readGraph(top.part(at, length), graph, options, inline)
	})
	if err != nil {
		return nil, nil, err
	}
	m = &onnxpb.ModelProto{}
	if err := options.Unmarshal(rest, m); err != nil {
		return nil, nil, err
	}
	if has {
		m.Graph = graph
	}
	return m, inline, nil
}

// readGraph adds the fields of a graph.
func readGraph(w *wire, g *onnxpb.GraphProto, o proto.UnmarshalOptions, inline map[*onnxpb.TensorProto]span) error {
	var tensors []*onnxpb.TensorProto
	rest, err := w.fields(func(num protowire.Number, at, length int64) (bool, error) {
		if num != tensorField {
			return false, nil
		}
		t := &onnxpb.TensorProto{}
		var raw *span
		part := w.part(at, length)
		fields, err := part.fields(func(num protowire.Number, at, length int64) (bool, error) {
			if num == rawField {
				raw = &span{at, length} // the last one counts, as in protobuf
			}
			return num == rawField, nil
		})
		if err != nil {
			return false, err
		}
		if err := o.Unmarshal(fields, t); err != nil {
			return false, err
		}
		switch {
		case raw == nil:
		case raw.length > maxRawInline:
			inline[t] = *raw
			t.RawData = []byte{}
		default:
			if t.RawData, err = part.part(raw.offset, raw.length).read(raw.length); err != nil {
				return false, err
			}
		}
		tensors = append(tensors, t)
		return true, nil
	})
	if err != nil {
		return err
	}
	o.Merge = true
	if err := o.Unmarshal(rest, g); err != nil {
		return err
	}
	g.Initializer = append(g.Initializer, tensors...)
	return nil
}
