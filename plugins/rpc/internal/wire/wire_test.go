//go:build linux || darwin

package wire

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/internal/campaign"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

func TestErrorsOnTheWire(t *testing.T) {
	in := diag.New(device.ErrUnsupported, "softmax", "axis %d of rank %d", 3, 2).WithHint("use axis 1")
	st, _ := status.FromError(ToStatus(fmt.Errorf("loading: %w", in), &StepError{Step: 7, Op: "softmax"}))
	out, ok := FromStatus(st, "backend cpu")
	var step *StepError
	if !ok || !errors.Is(out, device.ErrUnsupported) || !errors.As(out, &step) || step.Step != 7 ||
		step.Op != "softmax" ||
		out.Error() != "backend cpu: softmax: axis 3 of rank 2; use axis 1" || st.Code() != codes.Unimplemented {
		t.Fatalf("%v %v %v", out, step, st.Code())
	}
	if errors.Is(out, device.ErrLost) {
		t.Error("an error of a call is not the loss of the backend")
	}
	st, _ = status.FromError(ToStatus(context.Canceled, nil))
	if out, ok := FromStatus(st, "b"); !ok || !errors.Is(out, diag.Interrupted) {
		t.Errorf("cancelled: %v", out)
	}
	// Codes that a backend may not send.
	for _, code := range []string{"RLX4007", "RLX2001", "RLX5001", "RLX5106", "RLX9999", "RLX600", "RLX6OO1", "",
		"RLX60011"} {
		st, err := status.New(codes.Internal, "x").WithDetails(&rlxv1.Error{Code: code, Message: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := FromStatus(st, "b"); ok {
			t.Errorf("code %q became %v", code, e)
		}
	}
}

// FuzzWireError checks that any detail that a backend sends with a status becomes printable text of limited length and
// an allowed code.
func FuzzWireError(t *testing.F) {
	f := campaign.New(t)
	for _, e := range []*rlxv1.Error{
		{Code: "RLX7001", Subject: "softmax", Message: "axis", Hint: "h", Step: 3, Op: "o"}, {Code: "RLX4001"},
		{Message: "\x1b[2J"}} {
		b, err := proto.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t testing.TB, b []byte) {
		w := &rlxv1.Error{}
		if proto.Unmarshal(b, w) != nil {
			return
		}
		st, err := status.New(codes.Internal, "x").WithDetails(w)
		if err != nil {
			return
		}
		e, ok := FromStatus(st, "backend b")
		if !ok {
			return
		}
		text := e.Error()
		var step *StepError
		if errors.As(e, &step) {
			text += step.Error()
		}
		if len(text) > 5*maxErrorText ||
			strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) ||
			!allowedCode(e.Code) {
			t.Fatalf("%q", text)
		}
	})
}

func FuzzInfo(t *testing.F) {
	f := campaign.New(t)
	b, _ := proto.Marshal(
		EncodeInfo(
			device.Info{Name: "cpu", Target: &target.Description{Name: "cpu", Version: "1", Types: dtype.All()},
				Precisions: []string{"f32", "bf16"}, Devices: []device.Device{{ID: "0", Memory: 1}},
				RowBounds: &device.RowBounds{Products: []int{8, 64}, Queries: []int{16}}}))
	f.Add(b)
	f.Fuzz(func(t testing.TB, b []byte) {
		r := &rlxv1.InfoReply{}
		if proto.Unmarshal(b, r) != nil {
			return
		}
		info, err := DecodeInfo(r)
		if err != nil {
			return
		}
		again, err := DecodeInfo(EncodeInfo(info))
		if err != nil || !reflect.DeepEqual(again.RowBounds, info.RowBounds) {
			t.Fatalf("%v became %v, %v", info.RowBounds, again.RowBounds, err)
		}
		again.RowBounds = info.RowBounds
		if fmt.Sprint(again) != fmt.Sprint(info) {
			t.Fatalf("%v became %v, %v", info, again, err)
		}
	})
}

func TestInRange(t *testing.T) {
	const top = 1<<63 - 1
	for _, c := range []struct {
		off, size, n int64
		want         bool
	}{{0, 0, 0, true}, {0, 1, 0, false}, {1, 0, 0, false}, {0, 8, 8, true}, {1, 8, 8, false}, {8, 0, 8, true},
		{9, 0, 8, false},
		{-1, 1, 8, false}, {1, -1, 8, false}, {top, top, top, false}, {top, 0, top, true}, {1, top, top, false},
		{0, top, top, true}} {
		if got := InRange(c.off, c.size, c.n); got != c.want {
			t.Errorf("inRange(%d, %d, %d) = %v", c.off, c.size, c.n, got)
		}
	}
}

func TestInheritedFiles(t *testing.T) {
	for _, bad := range []string{"io", "io=x", "io=2", "io=99999", "io=1000", "lifeline=3,"} {
		if c, err := InheritedFiles(bad); err == nil {
			t.Errorf("%q gave %+v", bad, c)
		}
	}
}

func TestAliased(t *testing.T) {
	at := func(pairs ...int64) (out []*rlxv1.Range) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, &rlxv1.Range{Offset: pairs[i], Size: pairs[i+1]})
		}
		return out
	}
	for _, c := range []struct {
		in, out []*rlxv1.Range
		want    []bool
	}{
		{nil, nil, []bool{}},
		{at(0, 8), at(8, 8, 16, 8), []bool{false, false}},
		{at(0, 8), at(16, 8, 16, 8), []bool{true, true}},
		{at(0, 8), at(16, 100, 20, 4, 30, 4, 116, 4), []bool{true, true, true, false}},
		{at(0, 20), at(16, 8, 24, 8), []bool{true, false}},
		{at(0, 8), at(16, 10, 20, 20, 30, 5), []bool{true, true, true}},
		{at(0, 8), at(16, 0, 16, 8), []bool{false, false}},
	} {
		if got := aliased(c.in, c.out); !slices.Equal(got, c.want) {
			t.Errorf("%v, %v: %v; want %v", c.in, c.out, got, c.want)
		}
	}
}
