package inference

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/api"
	pb "github.com/rlx-go/rlx/internal/inference/inferencepb"
	"github.com/rlx-go/rlx/internal/rlxtest"
)

// TestMain also acts as the backend.
func TestMain(m *testing.M) { rlxtest.Main(m, nil) }

// kinds are element types with two values in JSON, which also are their exact values.
var kinds = map[string][2]string{"f32": {"1.5", "-2"}, "f64": {"0.1", "1e-300"}, "f16": {"0.5", "-65504"},
	"bf16": {"1", "-3"}, "i8": {"-128", "127"}, "i16": {"-32768", "5"}, "i32": {"-2147483648", "7"},
	"i64": {"-9223372036854775808", "9223372036854775807"}, "u8": {"255", "0"}, "u32": {"4294967295", "1"},
	"bool": {"true", "false"}}

// artifact has the method main, which returns an input of each element type, and their number is N.
var artifact = sync.OnceValue(func() string {
	var b, r strings.Builder
	b.WriteString("graph main\nsym N = 1..64\n")
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "%[1]s = input : %[1]s[N]\n%[1]sy = copy %[1]s : %[1]s[N]\n", k)
		fmt.Fprintf(&r, " %[1]s_out=%[1]sy", k)
	}
	fmt.Fprintf(&b, "return%s\n", strings.ReplaceAll(r.String(), " ", ", ")[1:])
	path := rlxtest.Scratch("kinds.txt")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		panic(err)
	}
	rlxtest.Compile(rlxtest.Scratch("kinds.rlx"), path, "--target", "cpu")
	return rlxtest.Scratch("kinds.rlx")
})

// fixture serves the artifact under the name kinds.
func fixture(t *testing.T, do func(context.Context, rlx.Request) (*rlx.Result, error), l Limits, o api.Options) (
	*Service, *api.Server, string) {
	t.Helper()
	m := rlxtest.Open(t, artifact())
	session := rlxtest.Session(t, m, rlx.Options{})
	var runner rlx.Runner = session
	if do != nil {
		runner = rlxtest.Runner{Session: session, Do: do}
	}
	s, err := New([]Artifact{{Name: "kinds", Runner: runner}}, l)
	if err != nil {
		t.Fatal(err)
	}
	server := api.New(o)
	s.Add(server, "1.2.3")
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	return s, server, h.URL
}

// post sends a body and returns status, header and answer.
func post(t *testing.T, url string, body []byte, header ...string) (int, http.Header, []byte) {
	t.Helper()
	r, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, b
}

// bytesOf returns the values of a kind as the protocol has them in binary.
func bytesOf(t *testing.T, kind string) []byte {
	t.Helper()
	var b []byte
	for _, text := range kinds[kind] {
		var err error
		for d, name := range datatypes {
			if d.String() == kind && name != "" {
				if b, err = appendNumber(b, d, text); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return b
}

func datatypeOf(kind string) string {
	for d, name := range datatypes {
		if d.String() == kind {
			return name
		}
	}
	return ""
}

// TestREST checks that all element types go through a method and come back, in JSON, nested and flat, and in binary.
func TestREST(t *testing.T) {
	_, _, url := fixture(t, nil, Limits{}, api.Options{})
	names := slices.Sorted(maps.Keys(kinds))
	for _, inBytes := range []bool{false, true} {
		var inputs []string
		var rest []byte
		for i, k := range names {
			b := bytesOf(t, k)
			head := fmt.Sprintf(`{"name":%q,"shape":[2],"datatype":%q`, k, datatypeOf(k))
			switch {
			case inBytes:
				inputs = append(inputs, fmt.Sprintf(`%s,"parameters":{"binary_data_size":%d}}`, head, len(b)))
				rest = append(rest, b...)
			case i%2 == 0:
				inputs = append(inputs, fmt.Sprintf(`%s,"data":[%s,%s]}`, head, kinds[k][0], kinds[k][1]))
			default:
				inputs = append(inputs, fmt.Sprintf(`%s,"data":[ [%s] , [%s] ]}`, head, kinds[k][0], kinds[k][1]))
			}
		}
		body := fmt.Sprintf(`{"id":"x","parameters":{"binary_data_output":%v},"inputs":[%s]}`, inBytes,
			strings.Join(inputs, ","))
		header := []string{}
		if inBytes {
			header = []string{headerLength, strconv.Itoa(len(body))}
		}
		status, h, b := post(t, url+"/v2/models/kinds/infer", append([]byte(body), rest...), header...)
		if status != 200 {
			t.Fatalf("status %d: %s", status, b)
		}
		var after []byte
		if inBytes {
			n, err := strconv.Atoi(h.Get(headerLength))
			if err != nil {
				t.Fatal(err)
			}
			b, after = b[:n], b[n:]
		}
		var a inferResponse
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		if a.ID != "x" || a.Model != "kinds" || a.Version != "1" || len(a.Outputs) != len(names) {
			t.Fatalf("answer %s", b)
		}
		for _, o := range a.Outputs {
			k := strings.TrimSuffix(o.Name, "_out")
			if o.Datatype != datatypeOf(k) || !slices.Equal(o.Shape, []int64{2}) {
				t.Errorf("%s: %s %v", o.Name, o.Datatype, o.Shape)
			}
			if inBytes {
				want := bytesOf(t, k)
				if !bytes.Equal(after[:len(want)], want) || o.Data != nil {
					t.Errorf("%s: % x; want % x", o.Name, after[:len(want)], want)
				}
				after = after[len(want):]
			} else if want := "[" + kinds[k][0] + "," + kinds[k][1] + "]"; string(o.Data) != want {
				t.Errorf("%s: %s; want %s", o.Name, o.Data, want)
			}
		}
	}
}

// echo returns the inputs as outputs, as the method does.
func echo(_ context.Context, r rlx.Request) (*rlx.Result, error) {
	out := &rlx.Result{Outputs: map[string]rlx.Tensor{}}
	for name, x := range r.Inputs {
		out.Outputs[name+"_out"] = x
	}
	return out, nil
}

// TestRefused checks that each wrong request has a status and an error that says what is wrong.
func TestRefused(t *testing.T) {
	_, _, url := fixture(t, echo, Limits{}, api.Options{})
	one := func(x string) string { return `{"inputs":[` + x + `],"outputs":[{"name":"f32_out"}]}` }
	for _, c := range []struct {
		path, body, length string
		status             int
		text               string
	}{
		{"kinds", "{", "", 400, "not a request in JSON"},
		{"kinds", "{}", "9", 400, "the body has 2 bytes"},
		{"kinds", "{}", "-1", 400, "Inference-Header-Content-Length is -1"},
		{"kinds", "{}xy", "2", 400, "2 bytes after the last binary input"},
		{"other", "{}", "", 404, "there is no model other; this server has kinds, kinds.main"},
		{"kinds/versions/2", "{}", "", 404, "version 1 only"},
		{"kinds", one(`{"name":"x"}`), "", 400, "input x: kinds has none of that name; its inputs are bf16"},
		{"kinds", one(`{"name":"f32","datatype":"FP64"}`), "", 400, "its datatype is FP32; found FP64"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[2]}`), "", 400, "neither data nor"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[2],"data":[1]}`), "", 400, "fewer elements"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[2],"data":[1,2,3]}`), "", 400, "more elements"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[2],"data":["1",2]}`), "", 400, "a string or an object"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[2],"data":[1e99,2]}`), "", 400, "not in the range of FP32"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[2],"data":[null,2]}`), "", 400, "element 0: null"},
		{"kinds", one(`{"name":"u8","datatype":"UINT8","shape":[1],"data":[256]}`), "", 400, "256 is not an integer in"},
		{"kinds", one(`{"name":"i8","datatype":"INT8","shape":[1],"data":[1.5]}`), "", 400, "1.5 is not an integer"},
		{"kinds", one(`{"name":"bool","datatype":"BOOL","shape":[1],"data":[1]}`), "", 400, "want true or false"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[-1],"data":[]}`), "", 400, "shape [-1]"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[9223372036854775807,2],"data":[]}`), "", 400, "shape ["},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[65],"data":[]}`), "", 400, "shape [65]"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[1],"data":[1],"parameters":{"binary_data_size":4}}`), "",
			400, "both data and"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}`), "", 400,
			"0 bytes are left"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":-4}}`), "", 400,
			"binary_data_size is -4"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[1],"parameters":{"shared_memory_region":"a"}}`), "", 400,
			"shared memory is not supported"},
		{"kinds", one(`{"name":"f32","datatype":"FP32","shape":[1],"data":[1]},{"name":"f32","datatype":"FP32","shape":[1],"data":[1]}`),
			"", 400, "given twice"},
		{"kinds", `{"inputs":[],"outputs":[{"name":"q"}]}`, "", 400, "output q: kinds has none of that name"},
		{"kinds", `{"inputs":[],"outputs":[{"name":"f32_out"},{"name":"f32_out"}]}`, "", 400, "named twice"},
		{"kinds", `{"outputs":[{"name":"f32_out","parameters":{"classification":3}}]}`, "", 400, "classification"},
	} {
		var header []string
		if c.length != "" {
			header = []string{headerLength, c.length}
		}
		status, _, b := post(t, url+"/v2/models/"+c.path+"/infer", []byte(c.body), header...)
		var a map[string]string
		if err := json.Unmarshal(b, &a); err != nil || status != c.status || !strings.Contains(a["error"], c.text) {
			t.Errorf("%s: status %d, %s; want %d and %q", c.body, status, b, c.status, c.text)
		}
	}
	if status, _, b := post(t, url+"/v2/models/kinds/infer", []byte("{}"), "Content-Encoding", "gzip"); status != 415 {
		t.Errorf("gzip: %d %s", status, b)
	}
	large := bytes.Repeat([]byte(" "), 1<<20+11*64*numberBytes+1)
	if status, _, b := post(t, url+"/v2/models/kinds/infer", large); status != 413 {
		t.Errorf("large: %d %s", status, b)
	}
}

// TestNotInJSON checks that NaN and infinities need binary outputs.
func TestNotInJSON(t *testing.T) {
	_, _, url := fixture(t, func(context.Context, rlx.Request) (*rlx.Result, error) {
		x, err := rlx.NewTensor([]float32{1, float32(math.NaN())}, 2)
		return &rlx.Result{Outputs: map[string]rlx.Tensor{"f32_out": x}}, err
	}, Limits{}, api.Options{})
	for _, c := range []struct {
		inBytes bool
		status  int
	}{{false, 422}, {true, 200}} {
		body := fmt.Sprintf(`{"outputs":[{"name":"f32_out","parameters":{"binary_data":%v}}]}`, c.inBytes)
		if status, _, b := post(t, url+"/v2/models/kinds/infer", []byte(body)); status != c.status {
			t.Errorf("%s: status %d, %s", body, status, b)
		}
	}
}

// TestQueue checks that a request over the limit is refused at once, one within it waits, and after Drain all are
// refused.
func TestQueue(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	s, _, url := fixture(t, func(ctx context.Context, r rlx.Request) (*rlx.Result, error) {
		entered <- true
		<-leave
		return echo(ctx, r)
	}, Limits{Parallel: 1, Waiting: 1}, api.Options{})
	body := []byte(`{"inputs":[{"name":"f32","datatype":"FP32","shape":[1],"data":[1]}],"outputs":[{"name":"f32_out"}]}`)
	results := make(chan int, 2)
	ask := func() {
		status, _, _ := post(t, url+"/v2/models/kinds.main/infer", body)
		results <- status
	}
	go ask()
	<-entered
	go ask()
	for waiting := 0; waiting == 0; { // the second one has to come before the third
		s.mu.Lock()
		waiting = s.waiting
		s.mu.Unlock()
	}
	status, h, b := post(t, url+"/v2/models/kinds/infer", body)
	if status != 429 || h.Get("Retry-After") == "" {
		t.Errorf("third: %d %v %s", status, h, b)
	}
	leave <- true
	<-entered
	leave <- true
	for range 2 {
		if got := <-results; got != 200 {
			t.Errorf("status %d", got)
		}
	}
	s.Drain()
	if status, _, b := post(t, url+"/v2/models/kinds/infer", body); status != 503 {
		t.Errorf("after Drain: %d %s", status, b)
	}
}

// TestErrors checks that errors of runs have the status of their kind.
func TestErrors(t *testing.T) {
	var err error
	_, _, url := fixture(t, func(context.Context, rlx.Request) (*rlx.Result, error) { return nil, err }, Limits{},
		api.Options{})
	for _, c := range []struct {
		err    error
		status int
	}{{rlx.ErrInput, 400}, {rlx.ErrUsage, 400}, {rlx.ErrMemory, 503}, {rlx.ErrLost, 503}, {errors.New("x"), 500},
		{context.DeadlineExceeded, 504}} {
		err = fmt.Errorf("run: %w", c.err)
		if status, _, b := post(t, url+"/v2/models/kinds/infer", []byte("{}")); status != c.status {
			t.Errorf("%v: status %d, %s", c.err, status, b)
		}
	}
}

// TestMetadata checks the metadata of the server, its models and their health. Keys are needed for all but the health.
func TestMetadata(t *testing.T) {
	_, _, url := fixture(t, echo, Limits{}, api.Options{Keys: map[string]string{"secret": "me"}})
	for _, c := range []struct {
		method, path string
		key          bool
		status       int
		text         string
	}{
		{"GET", "/v2", true, 200, `"name":"rlxrun","version":"1.2.3"`},
		{"GET", "/v2", false, 401, `{"error":"the request needs a key`},
		{"GET", "/v2/health/live", false, 200, `{"live":true}`},
		{"GET", "/v2/health/ready", false, 200, `{"ready":true}`},
		{"GET", "/v2/models/kinds/ready", true, 200, `"ready":true`},
		{"GET", "/v2/models/kinds.main/versions/1", true, 200, `{"name":"f32","datatype":"FP32","shape":[-1]}`},
		{"GET", "/v2/models/kinds", false, 401, "error"},
		{"POST", "/v2/repository/index", true, 200, `[{"name":"kinds","state":"READY","version":"1"},{"name":"kinds.main"`},
		{"GET", "/v2/nothing", true, 404, `{"error":"GET /v2/nothing is not part of the API`},
		{"GET", "/metrics", true, 200, `rlx_http_requests_total{path="GET /v2",status="200"} 1`},
	} {
		r, err := http.NewRequest(c.method, url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.key {
			r.Header.Set("Authorization", "Bearer secret")
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != c.status || !strings.Contains(string(b), c.text) {
			t.Errorf("%s %s: status %d, %s; want %d and %s", c.method, c.path, a.StatusCode, b, c.status, c.text)
		}
	}
}

// TestGRPC checks all element types by gRPC, as bytes and, where they have a field, as contents; and errors.
func TestGRPC(t *testing.T) {
	s, server, _ := fixture(t, nil, Limits{}, api.Options{Keys: map[string]string{"secret": "me"}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.NewGRPC(server, "1.2.3").Serve(ctx, l) }()
	defer func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := pb.NewGRPCInferenceServiceClient(conn)
	with := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret")
	if r, err := c.ServerReady(t.Context(), &pb.ServerReadyRequest{}); err != nil || !r.Ready {
		t.Errorf("ready: %v %v", r, err)
	}
	if _, err := c.ServerMetadata(t.Context(), &pb.ServerMetadataRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a key: %v", err)
	}
	if r, err := c.ServerMetadata(with, &pb.ServerMetadataRequest{}); err != nil || r.Version != "1.2.3" {
		t.Errorf("metadata: %v %v", r, err)
	}
	if _, err := c.ModelReady(with, &pb.ModelReadyRequest{Name: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown: %v", err)
	}
	about, err := c.ModelMetadata(with, &pb.ModelMetadataRequest{Name: "kinds"})
	if err != nil || len(about.Inputs) != len(kinds) || about.Inputs[0].Shape[0] != -1 {
		t.Fatalf("metadata: %v %v", about, err)
	}
	for _, inBytes := range []bool{true, false} {
		q := &pb.ModelInferRequest{ModelName: "kinds", Id: "7"}
		for _, x := range about.Inputs {
			in := &pb.ModelInferRequest_InferInputTensor{Name: x.Name, Datatype: x.Datatype, Shape: []int64{2}}
			if b := bytesOf(t, x.Name); inBytes {
				q.RawInputContents = append(q.RawInputContents, b)
			} else {
				in.Contents = contentsOf(b, x.Name)
			}
			q.Inputs = append(q.Inputs, in)
		}
		a, err := c.ModelInfer(with, q)
		if !inBytes {
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "use raw_input_contents") {
				t.Errorf("16-bit floats as contents: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range a.Outputs {
			if want := bytesOf(t, strings.TrimSuffix(o.Name, "_out")); !bytes.Equal(a.RawOutputContents[i], want) {
				t.Errorf("%s: % x; want % x", o.Name, a.RawOutputContents[i], want)
			}
		}
	}
}

// TestGRPCLarger checks that messages may be larger after a model with larger inputs has replaced another, without a
// new listener and while calls go on, and that those that no model takes are refused before and after.
func TestGRPCLarger(t *testing.T) {
	dir := t.TempDir()
	of := func(name string, n int) rlx.Runner {
		path := filepath.Join(dir, name)
		text := fmt.Sprintf("graph main\nsym N = 1..%d\nx = input : f32[N]\ny = neg x : f32[N]\nreturn y=y\n", n)
		if err := os.WriteFile(path+".txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		rlxtest.Compile(path+".rlx", path+".txt", "--target", "cpu")
		return rlxtest.Session(t, rlxtest.Open(t, path+".rlx"), rlx.Options{Threads: 1})
	}
	s, err := New([]Artifact{{Name: "neg", Runner: of("small", 16)}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.NewGRPC(api.New(api.Options{}), "1.2.3").Serve(ctx, l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := pb.NewGRPCInferenceServiceClient(conn)
	infer := func(n int) error {
		x := &pb.ModelInferRequest_InferInputTensor{Name: "x", Datatype: "FP32", Shape: []int64{int64(n)}}
		a, err := c.ModelInfer(t.Context(), &pb.ModelInferRequest{ModelName: "neg",
			RawInputContents: [][]byte{make([]byte, 4*n)}, Inputs: []*pb.ModelInferRequest_InferInputTensor{x}})
		if err == nil && len(a.RawOutputContents[0]) != 4*n {
			t.Errorf("%d bytes for %d numbers", len(a.RawOutputContents[0]), n)
		}
		return err
	}
	const large = 1 << 20
	refused := func(when string, n int) {
		t.Helper()
		if err := infer(n); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s, %d numbers: %v; want RESOURCE_EXHAUSTED", when, n, err)
		}
	}
	if err := infer(16); err != nil {
		t.Fatal(err)
	}
	refused("before", large)
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := infer(3); err != nil {
					t.Errorf("while the model is replaced: %v", err)
					return
				}
			}
		})
	}
	if err := s.Put(Artifact{Name: "neg", Runner: of("large", large)}); err != nil {
		t.Fatal(err)
	}
	for { // until the client has learned that it must connect again
		err := infer(large)
		if err == nil {
			break
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	close(stop)
	all.Wait()
	refused("after", 20*large)
	if err := s.Put(Artifact{Name: "neg", Runner: of("small again", 16)}); err != nil {
		t.Fatal(err)
	}
	if err := infer(16); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// contentsOf returns the values of a kind in their field.
func contentsOf(b []byte, kind string) *pb.InferTensorContents {
	c := &pb.InferTensorContents{}
	for d := range datatypes {
		if d.String() != kind {
			continue
		}
		for i := 0; i < len(b); i += d.Size() {
			x := b[i : i+d.Size()]
			switch kind {
			case "bool":
				c.BoolContents = append(c.BoolContents, x[0] == 1)
			case "i8", "i16", "i32":
				c.IntContents = append(c.IntContents, int32(intAt(d, x)))
			case "u8", "u32":
				c.UintContents = append(c.UintContents, uint32(intAt(d, x)))
			case "i64":
				c.Int64Contents = append(c.Int64Contents, intAt(d, x))
			case "f32":
				c.Fp32Contents = append(c.Fp32Contents, math.Float32frombits(binary.LittleEndian.Uint32(x)))
			case "f64":
				c.Fp64Contents = append(c.Fp64Contents, math.Float64frombits(binary.LittleEndian.Uint64(x)))
			}
		}
	}
	return c
}

// TestContents checks that contents become the same tensors as bytes.
func TestContents(t *testing.T) {
	m := rlxtest.Open(t, artifact())
	method, err := m.Method("main")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range method.Inputs {
		want := bytesOf(t, v.Name)
		got, err := contents(v, []int{2}, contentsOf(want, v.Name))
		if v.Name == "f16" || v.Name == "bf16" {
			if err == nil {
				t.Errorf("%s: accepted", v.Name)
			}
		} else if err != nil || !bytes.Equal(got.Data, want) {
			t.Errorf("%s: % x, %v; want % x", v.Name, got.Data, err, want)
		}
	}
	v, _ := method.Input("i8")
	if _, err := contents(v, []int{1}, &pb.InferTensorContents{IntContents: []int32{128}}); err == nil {
		t.Error("128 is accepted as INT8")
	}
	b, _ := method.Input("bool")
	if _, err := raw(b, []int{1}, []byte{2}); err == nil {
		t.Error("2 is accepted as BOOL")
	}
}

// FuzzRead checks that whatever the body is, reading it ends without a panic, and what is accepted fits the method's
// inputs.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"inputs":[{"name":"f32","datatype":"FP32","shape":[2],"data":[1,[2]]}]}`), 0)
	f.Add([]byte(`{"inputs":[{"name":"f16","datatype":"FP16","shape":[1],"parameters":{"binary_data_size":2}}]}ab`), 81)
	f.Add([]byte(`{"inputs":[{"name":"i64","datatype":"INT64","shape":[0],"data":[]}],"outputs":[{"name":"x"}]}`), 0)
	loaded, err := rlx.Open(f.Context(), artifact(), rlx.OpenOptions{})
	if err != nil {
		f.Fatal(err)
	}
	defer loaded.Close()
	method, err := loaded.Method("main")
	if err != nil {
		f.Fatal(err)
	}
	m := &model{name: "kinds", method: method}
	f.Fuzz(func(t *testing.T, body []byte, length int) {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		if length != 0 {
			r.Header.Set(headerLength, strconv.Itoa(length))
		}
		_, in, err := m.read(httptest.NewRecorder(), r)
		if err != nil {
			return
		}
		for name, x := range in {
			v, ok := method.Input(name)
			if !ok || v.DType != x.DType || len(x.Data) != x.Len()*x.DType.Size() || int64(len(x.Data)) > v.MaxBytes() {
				t.Fatalf("input %s: %v of %d bytes", name, x, len(x.Data))
			}
		}
	})
}
