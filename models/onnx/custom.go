package onnx

import (
	"strings"

	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// customName returns the name that a definition (package custom) must have to stand for an op of ONNX: the domain and
// the op in lower case, such as com.acme.gatedunit for GatedUnit of com.acme. It is empty for the default domain.
func customName(domain, name string) string {
	if domain = canonical(domain); domain == "" {
		return ""
	}
	words := strings.Split(domain+"."+name, ".")
	for i, w := range words {
		words[i] = strings.ToLower(Name(w))
	}
	if s := strings.Join(words, "."); op.IsCustomName(s) {
		return s
	}
	return ""
}

// custom converts a node of an op that Options.Custom defines. It returns nil if none does.
func (n *node) custom() []*value {
	name := customName(n.p.GetDomain(), n.p.GetOpType())
	d, ok := n.b.custom.Find(name)
	if !ok {
		return nil
	}
	var in []*ir.Node
	var types []ir.Type
	for i := range n.in {
		in = append(in, n.x(i))
		types = append(types, in[i].Type)
	}
	attrs, err := d.Attrs(n.customAttrs(d), types)
	if err != nil {
		n.fail("%w", err)
	}
	return many(n.b.g.AddResults(len(attrs.Expansion.Outputs), op.CustomDef, attrs, in...)...)
}

// customAttrs returns the attributes of the node. ONNX has no bools and no element types; it has numbers in their
// place.
func (n *node) customAttrs(d *custom.Definition) (out []ir.Attr) {
	for _, a := range n.p.GetAttribute() {
		v := ir.Attr{Name: strings.ToLower(a.GetName())}
		switch a.GetType() {
		case onnxpb.AttributeProto_INT:
			v.Value = n.customInt(d, v.Name, a.GetI())
		case onnxpb.AttributeProto_FLOAT:
			v.Value = float64(a.GetF())
		case onnxpb.AttributeProto_STRING:
			v.Value = string(a.GetS())
		case onnxpb.AttributeProto_INTS:
			v.Value = append([]int64{}, a.GetInts()...)
		default:
			n.fail("attribute %s is of type %v; allowed for an op with --op are INT, FLOAT, STRING and INTS", a.GetName(),
				a.GetType())
		}
		out = append(out, v)
	}
	return out
}

// customInt returns an integer, or what it stands for in an attribute with a default of another type.
func (n *node) customInt(d *custom.Definition, name string, i int64) any {
	for _, a := range d.Defaults {
		if a.Name != name {
			continue
		}
		switch a.Value.(type) {
		case bool:
			if i == 0 || i == 1 {
				return i == 1
			}
		case dtype.DType:
			return n.dtype(int(i))
		}
	}
	return i
}
