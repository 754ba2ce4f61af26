//go:build linux || darwin || windows

package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// Package proto takes a microsecond for a message of a run, in each process, and allocates every part of it. A small
// model runs for ten. So the two messages of a run have an encoder and a decoder of their own for the fields that
// ordinary runs use. They leave messages with other fields, and those that are not valid, to package proto.

// marshal appends the encoding of m to b.
func marshal(b []byte, m proto.Message) ([]byte, error) {
	switch m := m.(type) {
	case *rlxv1.RunHeader:
		if plain(m) {
			return appendHeader(b, m), nil
		}
	case *rlxv1.RunResult:
		if len(m.Status) == 0 && m.Done != nil && len(m.ProtoReflect().GetUnknown()) == 0 &&
			len(m.Done.ProtoReflect().GetUnknown()) == 0 {
			return appendResult(b, m.Done), nil
		}
	}
	return proto.MarshalOptions{}.MarshalAppend(b, m)
}

// unmarshal decodes b into m. It may keep parts of m that are the same in b.
func unmarshal(b []byte, m proto.Message) error {
	switch m := m.(type) {
	case *rlxv1.RunHeader:
		if len(m.ProtoReflect().GetUnknown()) == 0 && parseHeader(b, m) {
			return nil
		}
	case *rlxv1.RunResult:
		if len(m.ProtoReflect().GetUnknown()) == 0 && parseResult(b, m) {
			return nil
		}
	}
	return proto.Unmarshal(b, m)
}

// plain reports whether appendHeader can encode h.
func plain(h *rlxv1.RunHeader) bool {
	if len(h.Dump) > 0 || len(h.Feeds) > 0 || len(h.Keeps) > 0 || len(h.Unwanted) > 0 ||
		len(h.ProtoReflect().GetUnknown()) > 0 {
		return false
	}
	for name := range h.Syms {
		if !utf8.ValidString(name) {
			return false
		}
	}
	return true
}

func appendHeader(b []byte, h *rlxv1.RunHeader) []byte {
	b = appendNumber(b, 1, h.Executable)
	b = appendNumber(b, 3, uint64(h.Generation))
	b = appendRanges(b, 4, h.Inputs)
	b = appendRanges(b, 5, h.Outputs)
	b = appendNumber(b, 6, protowire.EncodeBool(h.Profile))
	b = appendNumber(b, 7, protowire.EncodeBool(h.CheckNan))
	for name, v := range h.Syms { // entries have both fields, even if they are 0
		b = protowire.AppendTag(b, 9, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(2+protowire.SizeBytes(len(name))+protowire.SizeVarint(uint64(v))))
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), name)
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(v))
	}
	return appendNumber(b, 10, h.State)
}

// appendNumber appends a field, unless it is 0.
func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendRanges(b []byte, field protowire.Number, list []*rlxv1.Range) []byte {
	for _, r := range list {
		offset, size := uint64(r.GetOffset()), uint64(r.GetSize())
		n := 0
		for _, v := range [...]uint64{offset, size} {
			if v != 0 {
				n += 1 + protowire.SizeVarint(v)
			}
		}
		b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(n))
		b = appendNumber(appendNumber(b, 1, offset), 2, size)
	}
	return b
}

func appendResult(b []byte, d *rlxv1.Done) []byte {
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	at := len(b)
	b = append(b, 0) // the length, which is less than 128: seven fields of at most 11 bytes
	b = appendNumber(b, 1, uint64(d.Generation))
	b = appendNumber(b, 2, uint64(d.TotalNs))
	b = appendNumber(b, 3, uint64(d.PeakRss))
	b = appendNumber(b, 4, uint64(d.FirstNan))
	b = appendNumber(b, 5, uint64(int64(d.Steps)))
	b = appendNumber(b, 6, protowire.EncodeBool(d.DeviceClock))
	b = appendNumber(b, 7, uint64(d.DeviceMemory))
	b[at] = byte(len(b) - at - 1)
	return b
}

// fields calls number or bytes for each field of a message, and reports whether all were taken.
func fields(b []byte, number func(protowire.Number, uint64) bool, bytes func(protowire.Number, []byte) bool) bool {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 || !number(field, v) {
				return false
			}
			b = b[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 || !bytes(field, v) {
				return false
			}
			b = b[n:]
		default:
			return false
		}
	}
	return true
}

func noNumber(protowire.Number, uint64) bool { return false }
func noBytes(protowire.Number, []byte) bool  { return false }

// keptSyms is how many symbols a header may have for parseHeader to keep them.
const keptSyms = 8

// parseHeader decodes a header. It reuses the ranges of h, and its symbols if they have the same values; a map with
// other values is a new one.
func parseHeader(b []byte, h *rlxv1.RunHeader) bool {
	inputs, outputs, was := h.Inputs[:0], h.Outputs[:0], h.Syms
	h.Executable, h.Generation, h.Profile, h.CheckNan, h.State = 0, 0, false, false, 0
	h.Dump, h.Feeds, h.Keeps, h.Unwanted, h.Syms = nil, nil, nil, nil, nil
	var names [keptSyms][]byte
	syms, same := 0, true // entries so far, and whether each is another one of was
	ok := fields(b, func(field protowire.Number, v uint64) bool {
		switch field {
		case 1:
			h.Executable = v
		case 3:
			h.Generation = int64(v)
		case 6:
			h.Profile = protowire.DecodeBool(v)
		case 7:
			h.CheckNan = protowire.DecodeBool(v)
		case 10:
			h.State = v
		default:
			return false
		}
		return true
	}, func(field protowire.Number, v []byte) (ok bool) {
		switch field {
		case 4:
			inputs, ok = parseRange(inputs, v)
		case 5:
			outputs, ok = parseRange(outputs, v)
		case 9:
			var name []byte
			var value int64
			name, value, ok = parseSym(v)
			if old, known := was[string(name)]; !known || old != value || syms >= keptSyms {
				same = false
			}
			for k := 0; same && k < syms; k++ {
				same = string(names[k]) != string(name)
			}
			if same {
				names[syms] = name
			}
			syms++
		}
		return ok
	})
	h.Inputs, h.Outputs = inputs, outputs
	if !ok {
		return false
	}
	if same && syms == len(was) {
		h.Syms = was
		return true
	}
	h.Syms = make(map[string]int64, syms)
	return fields(b, func(protowire.Number, uint64) bool { return true }, func(field protowire.Number, v []byte) bool {
		if field == 9 {
			name, value, _ := parseSym(v)
			h.Syms[string(name)] = value
		}
		return true
	})
}

// parseRange appends a range to list, in the memory of an earlier one if there is one.
func parseRange(list []*rlxv1.Range, b []byte) ([]*rlxv1.Range, bool) {
	n := len(list)
	if n < cap(list) && list[:n+1][n] != nil && len(list[:n+1][n].ProtoReflect().GetUnknown()) == 0 {
		list = list[:n+1]
	} else {
		list = append(list, &rlxv1.Range{})
	}
	r := list[n]
	r.Offset, r.Size = 0, 0
	return list, fields(b, func(field protowire.Number, v uint64) bool {
		switch field {
		case 1:
			r.Offset = int64(v)
		case 2:
			r.Size = int64(v)
		default:
			return false
		}
		return true
	}, noBytes)
}

// parseSym decodes an entry of RunHeader.syms.
func parseSym(b []byte) (name []byte, value int64, ok bool) {
	ok = fields(b, func(field protowire.Number, v uint64) bool {
		value = int64(v)
		return field == 2
	}, func(field protowire.Number, v []byte) bool {
		name = v
		return field == 1
	})
	return name, value, ok && utf8.Valid(name)
}

func parseResult(b []byte, m *rlxv1.RunResult) bool {
	m.Done, m.Status = nil, nil
	return fields(b, noNumber, func(field protowire.Number, v []byte) bool {
		if field != 1 || m.Done != nil { // package proto merges two
			return false
		}
		d := &rlxv1.Done{}
		m.Done = d
		return fields(v, func(field protowire.Number, v uint64) bool {
			switch field {
			case 1:
				d.Generation = int64(v)
			case 2:
				d.TotalNs = int64(v)
			case 3:
				d.PeakRss = int64(v)
			case 4:
				d.FirstNan = int64(v)
			case 5:
				d.Steps = int32(v)
			case 6:
				d.DeviceClock = protowire.DecodeBool(v)
			case 7:
				d.DeviceMemory = int64(v)
			default:
				return false
			}
			return true
		}, noBytes)
	})
}
