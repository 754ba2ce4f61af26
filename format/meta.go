package format

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/task"
)

// Meta describes an artifact. It contains no times, hosts or paths, so the same model gives the same bytes.
type Meta struct {
	Producer     Producer
	Opset        int    // version of the op set, at most format.Opset
	Model        string // for display, such as "sam-vit-b"
	Architecture string // such as "sam"
	Sources      []Source
	Methods      []Method
	Precisions   []string  // precisions of arithmetic that a run may choose, such as "f32"
	Task         task.Task // nil for a model that is used only through tensors
	Pairs        []Pair    // free text, by ascending key
}

// Producer identifies the compiler.
type Producer struct{ Name, Version string }

// Source is a file that the artifact was made from.
type Source struct {
	Name   string // without its folder
	Size   int64  // bytes
	SHA256 [32]byte
}

// Method is the signature that all programs of a method share.
type Method struct {
	Name            string
	Syms            ir.Syms
	Inputs, Outputs []Value
}

// Value is an input or output.
type Value = task.Value

// Pair is a text with a key.
type Pair struct{ Key, Value string }

// Method returns the method of that name.
func (m *Meta) Method(name string) (*Method, bool) {
	for i := range m.Methods {
		if m.Methods[i].Name == name {
			return &m.Methods[i], true
		}
	}
	return nil, false
}

func (m *Meta) encode(e *encoder) {
	e.object(9)
	e.keyStr("architecture", m.Architecture)
	e.key("methods")
	e.list(len(m.Methods))
	for i := range m.Methods {
		m.Methods[i].encode(e)
	}
	e.keyStr("model", m.Model)
	e.keyInt("opset", int64(m.Opset))
	e.key("pairs")
	e.list(len(m.Pairs))
	for _, p := range m.Pairs {
		e.list(2)
		e.str(p.Key)
		e.str(p.Value)
	}
	e.key("precisions")
	e.list(len(m.Precisions))
	for _, p := range m.Precisions {
		e.str(p)
	}
	e.key("producer")
	e.object(2)
	e.keyStr("name", m.Producer.Name)
	e.keyStr("version", m.Producer.Version)
	e.key("sources")
	e.list(len(m.Sources))
	for _, s := range m.Sources {
		e.object(3)
		e.keyStr("name", s.Name)
		e.key("sha256")
		e.bytes(s.SHA256[:])
		e.keyInt("size", s.Size)
	}
	e.key("tasks")
	encodeTasks(e, m.Task)
}

func decodeMeta(d *decoder) *Meta {
	m := &Meta{}
	d.object(9, "META")
	m.Architecture = d.keyStr("architecture", MaxName)
	d.key("methods")
	m.Methods = decodeList(d, MaxMethods, leastMethod, "methods",
		func() Method { return decodeMethod(d) })
	m.Model = d.keyStr("model", MaxName)
	m.Opset = int(d.keyInt("opset", 0, math.MaxInt32))
	d.key("pairs")
	m.Pairs = decodeList(d, MaxPairs, 3, "pairs", func() Pair {
		d.tuple(2, "pair")
		return Pair{d.str(MaxName, "key"), d.str(MaxString, "value")}
	})
	d.key("precisions")
	m.Precisions = decodeList(d, MaxAttrs, 1, "precisions", func() string { return d.str(MaxName, "precision") })
	d.key("producer")
	d.object(2, "producer")
	m.Producer = Producer{d.keyStr("name", MaxName), d.keyStr("version", MaxName)}
	d.key("sources")
	m.Sources = decodeList(d, MaxSources, 50, "sources", func() Source {
		d.object(3, "source")
		s := Source{Name: d.keyStr("name", MaxName)}
		d.key("sha256")
		digest := d.bytes(digestSize, "sha256")
		if d.err == nil && len(digest) != digestSize {
			d.fail("sha256 has %d bytes; want %d", len(digest), digestSize)
		}
		copy(s.SHA256[:], digest)
		s.Size = d.keyInt("size", 0, math.MaxInt64)
		return s
	})
	d.key("tasks")
	m.Task = decodeTasks(d)
	return m
}

func (m *Method) encode(e *encoder) {
	values := func(key string, list []Value) {
		e.key(key)
		e.list(len(list))
		for _, v := range list {
			e.object(2)
			e.keyStr("name", v.Name)
			e.keyStr("type", v.Type.String())
		}
	}
	e.object(4)
	values("inputs", m.Inputs)
	e.keyStr("name", m.Name)
	values("outputs", m.Outputs)
	e.key("syms")
	encodeSyms(e, m.Syms)
}

func decodeMethod(d *decoder) (m Method) {
	value := func() Value {
		d.object(2, "value")
		v := Value{Name: d.keyStr("name", MaxName)}
		v.Type = decodeType(d)
		return v
	}
	d.object(4, "method")
	d.key("inputs")
	m.Inputs = decodeList(d, MaxSignature, 17, "inputs", value)
	m.Name = d.keyStr("name", MaxName)
	d.key("outputs")
	m.Outputs = decodeList(d, MaxSignature, 17, "outputs", value)
	d.key("syms")
	m.Syms = decodeSyms(d)
	return m
}

// encodeSyms writes symbols as [name, min, max].
func encodeSyms(e *encoder, syms ir.Syms) {
	e.list(len(syms))
	for _, s := range syms {
		e.list(3)
		e.str(s.Name)
		e.integer(s.Min)
		e.integer(s.Max)
	}
}

func decodeSyms(d *decoder) ir.Syms {
	return decodeList(d, ir.MaxSyms, 4, "syms", func() ir.Sym {
		d.tuple(3, "symbol")
		return ir.Sym{Name: d.str(MaxName, "symbol"), Min: d.integer(math.MinInt64, math.MaxInt64, "min"),
			Max: d.integer(math.MinInt64, math.MaxInt64, "max")}
	})
}
