//go:build unix

package bridge

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pair returns both ends of a socket pair.
func pair(t testing.TB) (*net.UnixConn, *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

// served returns the program's end of a socket whose other end is served, and a function that closes it and returns
// the error of Serve.
func served(t testing.TB) (*net.UnixConn, func() error) {
	ours, theirs := pair(t)
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), theirs, Options{}) }()
	end := func() error {
		ours.Close()
		return <-done
	}
	t.Cleanup(func() { ours.Close() })
	return ours, end
}

func frame(call, args, payload string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(args)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint64(b, 5)
	name := make([]byte, 16)
	copy(name, call)
	return slices.Concat(b, name, []byte(args), []byte(payload))
}

// ask sends a request, with a descriptor if file is not negative, and returns the answer.
func ask(t *testing.T, c *net.UnixConn, call, args string, file int) response {
	t.Helper()
	var rights []byte
	if file >= 0 {
		rights = unix.UnixRights(file)
	}
	if _, _, err := c.WriteMsgUnix(frame(call, args, ""), rights, nil); err != nil {
		t.Fatal(err)
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.LittleEndian.Uint32(head[:])+binary.LittleEndian.Uint32(head[4:]))
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	var r response
	if err := json.Unmarshal(body[:binary.LittleEndian.Uint32(head[:])], &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBadRequests checks that a request that cannot be answered gets an error with a code, and the next one is served.
func TestBadRequests(t *testing.T) {
	c, end := served(t)
	for _, x := range []struct{ call, args, want string }{
		{"", `{}`, "call: \"\" is unknown"},
		{"fly", `{}`, "is unknown"},
		{"run", `[]`, "does not take"},
		{"run", `{`, "does not take"},
		{"run", `{"session":"a"}`, "does not take"},
		{"run", `{"session":9}`, "object 9 is closed, or is not of the kind model"},
		{"region", `{"size":64}`, "without a descriptor"},
		{"masks", `{"image":1}`, "is not of the kind image"},
		{"open", `{"threads":-1}`, "negative"},
		{"open", `{"path":"/dev/null","backend":"cpu"}`, "RLX4"},
	} {
		r := ask(t, c, x.call, x.args, -1)
		if r.Error == nil || !strings.Contains(r.Error.Code+r.Error.Message, x.want) || r.Error.Code == "" {
			t.Errorf("%s %s: %+v; want %q", x.call, x.args, r.Error, x.want)
		}
	}
	if r := ask(t, c, "close", `{"object":77}`, -1); r.Error != nil || r.ID != 5 {
		t.Errorf("close of what is not open: %+v", r)
	}
	if err := end(); err != nil {
		t.Errorf("the end of the program: %v", err)
	}
}

// TestBadFrames checks that a frame that cannot be read ends the connection.
func TestBadFrames(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"object":  append([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, make([]byte, 24)...),
		"payload": append([]byte{2, 0, 0, 0, 1, 0, 2, 0}, make([]byte, 26)...),
		"head":    frame("run", `{}`, "")[:12],
		"cut":     frame("run", `{}`, "payload")[:36],
	} {
		c, end := served(t)
		if _, err := c.Write(bytes); err != nil {
			t.Fatal(err)
		}
		c.CloseWrite()
		if err := end(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestRegions checks that regions must fit their files, and closing one twice does nothing.
func TestRegions(t *testing.T) {
	c, end := served(t)
	f, err := os.Create(filepath.Join(t.TempDir(), "region"))
	if err == nil {
		err = f.Truncate(8192)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	for _, size := range []string{"0", "-1", "8193", "9223372036854775807"} {
		if r := ask(t, c, "region", `{"size":`+size+`}`, fd); r.Error == nil {
			t.Errorf("size %s: no error", size)
		}
	}
	r := ask(t, c, "region", `{"size":8192}`, fd)
	if r.Error != nil {
		t.Fatal(r.Error)
	}
	for range 2 {
		if r := ask(t, c, "close", `{"object":1}`, -1); r.Error != nil {
			t.Error(r.Error)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestTensors checks that descriptions of tensors must fit the memory that has their bytes.
func TestTensors(t *testing.T) {
	memory := make([]byte, 100)
	for _, bad := range []tensor{{DType: "f33", Shape: []int{1}}, {DType: "f32", Shape: []int{26}},
		{DType: "f32", Shape: []int{-1}}, {DType: "f32", Shape: []int{1}, Offset: 97},
		{DType: "f32", Shape: []int{1}, Offset: -1}, {DType: "u8", Shape: []int{1 << 40, 1 << 40}},
		{DType: "f64", Shape: []int{1 << 61}}, {DType: "u8", Shape: []int{0}, Offset: 101}} {
		if _, err := bad.in(memory, "x"); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	for _, good := range []tensor{{DType: "f32", Shape: []int{25}}, {DType: "u8", Offset: 99},
		{DType: "u8", Shape: []int{0}, Offset: 100}, {DType: "f32", Shape: []int{5, 5}}} {
		if x, err := good.in(memory, "x"); err != nil || len(x.Data) != x.Len()*x.DType.Size() {
			t.Errorf("%+v: %v, %v", good, x, err)
		}
	}
}

// TestObjects checks that the objects that belong to an object are closed before it, the youngest first.
func TestObjects(t *testing.T) {
	var o objects
	var order []string
	add := func(name string, owner int64) int64 {
		return o.add(name, owner, func() error { order = append(order, name); return errors.New(name) })
	}
	a := add("a", 0)
	b := add("b", a)
	add("c", a)
	add("d", b)
	add("e", 0)
	if err := o.close(a); err == nil || !slices.Equal(order, []string{"c", "d", "b", "a"}) {
		t.Errorf("closed %v: %v", order, err)
	}
	o.closeAll()
	if o.close(a) != nil || o.get(b) != nil || order[4] != "e" {
		t.Errorf("closed %v", order)
	}
}

// FuzzReceive checks that no bytes make receive panic or reserve more than a frame may have.
func FuzzReceive(f *testing.F) {
	f.Add(frame("run", `{}`, "abc"))
	f.Add(append(frame("", `{}`, ""), frame("fly", `{}`, "")...))
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := pair(t)
		defer theirs.Close()
		if len(data) > 1<<16 {
			t.Skip()
		}
		if _, err := ours.Write(data); err != nil {
			t.Fatal(err)
		}
		ours.Close()
		s := newStream(theirs)
		for {
			if _, err := s.receive(); err != nil {
				return
			}
		}
	})
}
