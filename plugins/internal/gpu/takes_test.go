package gpu

import (
	"errors"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// blank is an API with one device, which takes all shaders and runs none.
type blank struct{ bindings int }

func (blank) Name() string                             { return "blank" }
func (blank) Aborted() (<-chan struct{}, func() error) { return nil, nil }
func (b blank) Adapters() ([]Adapter, error)           { return []Adapter{b}, nil }
func (blank) Info() device.Device                      { return device.Device{Name: "Blank", Type: "gpu"} }
func (blank) Free() int64                              { return 0 }
func (blank) Open() (Device, error)                    { return blankDevice{}, nil }

func (b blank) Limits() Limits {
	return Limits{Binding: 2 << 30, Buffer: 2 << 30, Bindings: b.bindings, Groups: 1<<16 - 1, Keeps: true,
		Kernels: kernels.Limits{WorkgroupStorage: 48 << 10}}
}

// blankDevice has methods of Device that loads call; others panic.
type blankDevice struct{ Device }

type (
	blankBuffer   []byte
	blankCommands struct{}
)

func (blankBuffer) Release()               {}
func (blankBuffer) Map(int64) error        { return nil }
func (blankBuffer) Mapped() (bool, error)  { return true, nil }
func (b blankBuffer) Bytes(n int64) []byte { return b[:n] }
func (blankBuffer) Unmap() error           { return nil }
func (blankCommands) Release()             {}

func (blankDevice) Use() (end func())  { return func() {} }
func (blankDevice) Exclusive(f func()) { f() }
func (blankDevice) NewBuffer(_ string, bytes int64, _ Usage) (Buffer, error) {
	return make(blankBuffer, bytes), nil
}
func (blankDevice) Upload(Buffer, int64, []byte) error               { return nil }
func (blankDevice) Uploaded() error                                  { return nil }
func (blankDevice) Write(Buffer, []byte) error                       { return nil }
func (blankDevice) Bind(string, Pipeline, []Piece) (Bindings, error) { return blankCommands{}, nil }
func (blankDevice) Submit(Commands) error                            { return nil }
func (blankDevice) Poll() (idle bool, err error)                     { return true, nil }
func (blankDevice) NewEncoder(string) (Encoder, error)               { return blankEncoder{}, nil }
func (blankDevice) Compile(list []Source) (made []Pipeline, failed int, err error) {
	for range list {
		made = append(made, blankCommands{})
	}
	return made, 0, nil
}

type blankEncoder struct{ Encoder }

func (blankEncoder) Clear(Piece) error                           { return nil }
func (blankEncoder) Copy(Buffer, int64, Piece) error             { return nil }
func (blankEncoder) Dispatch(Pipeline, Bindings, uint32, uint32) {}
func (blankEncoder) Finish() (Commands, error)                   { return blankCommands{}, nil }
func (blankEncoder) Release()                                    {}

// TestLoadsWhatItDescribes: of each op with operands of each element type, the backend loads a program exactly if its
// description takes it. A device with few bindings limits the number of operands.
func TestLoadsWhatItDescribes(t *testing.T) {
	types, loaded, refused := map[dtype.DType]bool{}, 0, 0
	for _, bindings := range []int{64, 14} {
		on := New(blank{bindings})
		info, err := on.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ir.Defs() {
			if d.Block || d.Eval == nil || d.Updates || d.Effects {
				continue
			}
			for i, c := range devicetest.TypedCases(d) {
				p := alone(d, c)
				if p == nil || bindings < 20 && len(c.In) < 8 {
					continue
				}
				x, err := on.Load(t.Context(), device.Load{Program: p})
				switch lacks := info.Lacks(p); {
				case err == nil:
					x.Close()
					if loaded++; lacks != "" {
						t.Errorf("%d bindings: %s, case %d, loads; but the description lacks it: %s", bindings, d.Name, i,
							lacks)
					}
				case lacks == "":
					t.Errorf("%d bindings: %s, case %d, of %v: %v", bindings, d.Name, i, c.In, err)
				case !errors.Is(err, device.ErrUnsupported):
					t.Errorf("%d bindings: %s, case %d: %v; want device.ErrUnsupported", bindings, d.Name, i, err)
				default:
					refused++
				}
				for _, in := range c.In {
					types[in.DType] = true
				}
			}
		}
	}
	for _, d := range dtype.All() {
		if !types[d] {
			t.Errorf("no op has an operand of %v", d)
		}
	}
	if loaded < 1000 || refused < 1000 {
		t.Errorf("%d programs load and %d are refused; want more", loaded, refused)
	}
	t.Logf("%d programs load, %d are refused", loaded, refused)
}

// alone returns a program of one op, or nil if no program can be made of it.
func alone(d *ir.OpDef, c ir.Case[any]) *program.Program {
	g := ir.NewGraph(d.Name)
	in := make([]*ir.Node, len(c.In))
	for k, typ := range c.In {
		if typ.Present() {
			in[k] = op.Input(g, d.OperandName(k), typ)
		}
	}
	if d.Tuple {
		outs, err := d.InferResults(c.Attrs, c.In, c.Out, nil)
		if err != nil {
			return nil
		}
		for k, r := range g.AddResults(len(outs), d, c.Attrs, in...) {
			g.Return(string(rune('a'+k)), r)
		}
	} else {
		g.Return("y", g.AddDeclared(d, c.Attrs, c.Out, in...))
	}
	if g.Err() != nil {
		return nil
	}
	p, _, err := sched.Build(g, sched.Options{Target: "blank"})
	if err != nil {
		return nil
	}
	return p
}
