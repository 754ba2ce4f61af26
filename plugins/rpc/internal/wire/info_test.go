package wire

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// TestRowBounds: a host distinguishes bounds that a backend does not say from none, and refuses some.
func TestRowBounds(t *testing.T) {
	for _, c := range []struct {
		bounds *device.RowBounds
		want   string // part of the error
	}{
		{nil, ""},
		{&device.RowBounds{}, ""},
		{&device.RowBounds{Products: []int{1, 8, 96}, Queries: []int{16}}, ""},
		{&device.RowBounds{Products: []int{8, 8}}, "ascending"},
		{&device.RowBounds{Queries: []int{0}}, "positive"},
		{&device.RowBounds{Queries: make([]int, MaxListed+1)}, "entries"},
	} {
		b, err := proto.Marshal(EncodeInfo(device.Info{Name: "x", Version: "1", RowBounds: c.bounds,
			Target: &target.Description{Name: "x", Version: "1", Types: dtype.All()}}))
		if err != nil {
			t.Fatal(err)
		}
		r := &rlxv1.InfoReply{}
		if err := proto.Unmarshal(b, r); err != nil {
			t.Fatal(err)
		}
		info, err := DecodeInfo(r)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: error %v; want %q", c.bounds, err, c.want)
			}
		} else if err != nil || !reflect.DeepEqual(info.RowBounds, c.bounds) {
			t.Errorf("%v became %v, error %v", c.bounds, info.RowBounds, err)
		}
	}
}
