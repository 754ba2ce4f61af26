package inference

import (
	"context"
	"encoding/binary"
	"math"
	"net"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/api"
	pb "github.com/rlx-go/rlx/internal/inference/inferencepb"
)

const (
	unsupported = codes.Unimplemented
	tooLarge    = codes.ResourceExhausted
)

// maxMessage is the largest message that gRPC can carry.
const maxMessage = math.MaxInt32

// A GRPC serves the protocol over gRPC.
type GRPC struct {
	pb.UnimplementedGRPCInferenceServiceServer
	service *Service
	api     *api.Server // keys, log and numbers
	version string
	options []grpc.ServerOption
}

// NewGRPC returns a server of the service. Keys are those of the server a; calls are in its log and its numbers.
// programVersion is that of the program, for metadata.
func (s *Service) NewGRPC(a *api.Server, programVersion string, o ...grpc.ServerOption) *GRPC {
	return &GRPC{service: s, api: a, version: programVersion, options: o}
}

// intercept checks the key of a call, and turns errors into those of gRPC.
func (g *GRPC) intercept(ctx context.Context, in any, info *grpc.UnaryServerInfo, call grpc.UnaryHandler) (any, error) {
	client := ""
	if p, ok := peer.FromContext(ctx); ok {
		client, _, _ = net.SplitHostPort(p.Addr.String())
	}
	switch in.(type) {
	case *pb.ServerLiveRequest, *pb.ServerReadyRequest:
	default:
		ctx = g.api.Begin(ctx, traceHeaders(ctx), info.FullMethod)
	}
	ctx = api.WithRecord(ctx, client)
	out, err := func() (any, error) {
		switch in.(type) {
		case *pb.ServerLiveRequest, *pb.ServerReadyRequest: // need no key
		default:
			given := metadata.ValueFromIncomingContext(ctx, "authorization")
			if len(given) == 0 {
				given = []string{""}
			}
			if !g.api.Allows(ctx, given[0]) {
				return nil, &failure{http.StatusUnauthorized, codes.Unauthenticated, api.NeedsKey}
			}
		}
		return call(ctx, in)
	}()
	code := http.StatusOK
	if err != nil {
		f := failureOf(err)
		api.RecordOf(ctx).Err, code, err = f.message, f.status, status.Error(f.code, f.message)
	}
	g.api.Done(ctx, "gRPC", info.FullMethod, info.FullMethod, code)
	return out, err
}

// traceHeaders returns the headers of a call that say to which trace it belongs.
func traceHeaders(ctx context.Context) propagation.MapCarrier {
	out := propagation.MapCarrier{}
	for _, name := range (propagation.TraceContext{}).Fields() {
		if v := metadata.ValueFromIncomingContext(ctx, name); len(v) > 0 {
			out[name] = v[0]
		}
	}
	return out
}

// ServerLive tells that the process answers.
func (g *GRPC) ServerLive(context.Context, *pb.ServerLiveRequest) (*pb.ServerLiveResponse, error) {
	return &pb.ServerLiveResponse{Live: true}, nil
}

// ServerReady tells whether the service takes requests.
func (g *GRPC) ServerReady(context.Context, *pb.ServerReadyRequest) (*pb.ServerReadyResponse, error) {
	return &pb.ServerReadyResponse{Ready: g.service.Ready() == nil}, nil
}

// ServerMetadata names the server and its extensions.
func (g *GRPC) ServerMetadata(context.Context, *pb.ServerMetadataRequest) (*pb.ServerMetadataResponse, error) {
	return &pb.ServerMetadataResponse{Name: serverName, Version: g.version, Extensions: extensions}, nil
}

// ModelReady tells whether the service takes requests for a model.
func (g *GRPC) ModelReady(_ context.Context, r *pb.ModelReadyRequest) (*pb.ModelReadyResponse, error) {
	_, done, err := g.service.use(r.Name, r.Version)
	if err == nil {
		done()
	}
	return &pb.ModelReadyResponse{Ready: err == nil && g.service.Ready() == nil}, err
}

// ModelMetadata describes the inputs and outputs of a model.
func (g *GRPC) ModelMetadata(_ context.Context, r *pb.ModelMetadataRequest) (*pb.ModelMetadataResponse, error) {
	m, done, err := g.service.use(r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	defer done()
	list := func(values []rlx.Value) (out []*pb.ModelMetadataResponse_TensorMetadata) {
		for _, v := range values {
			out = append(out, &pb.ModelMetadataResponse_TensorMetadata{Name: v.Name, Datatype: datatypes[v.DType],
				Shape: shapeOf(v)})
		}
		return out
	}
	return &pb.ModelMetadataResponse{Name: m.name, Versions: []string{version}, Platform: "rlx",
		Inputs: list(m.method.Inputs), Outputs: list(m.method.Outputs)}, nil
}

// ModelInfer runs a method. Outputs are in raw_output_contents.
func (g *GRPC) ModelInfer(ctx context.Context, r *pb.ModelInferRequest) (*pb.ModelInferResponse, error) {
	m, done, err := g.service.use(r.ModelName, r.ModelVersion)
	if err != nil {
		return nil, err
	}
	defer done()
	leave, err := g.service.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	in, err := m.messages(r)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range r.Outputs {
		if err := checkParameters("output "+diag.Printable(o.Name), o.Parameters); err != nil {
			return nil, err
		}
		names = append(names, o.Name)
	}
	values, out, err := m.run(ctx, in, names)
	if err != nil {
		return nil, err
	}
	a := &pb.ModelInferResponse{ModelName: m.name, ModelVersion: version, Id: r.Id}
	for i, v := range values {
		a.Outputs = append(a.Outputs, &pb.ModelInferResponse_InferOutputTensor{Name: v.Name,
			Datatype: datatypes[v.DType], Shape: sizes(out[i].Shape)})
		a.RawOutputContents = append(a.RawOutputContents, out[i].Data)
	}
	return a, nil
}

// checkParameters refuses what the service does not do.
func checkParameters(what string, p map[string]*pb.InferParameter) error {
	return parameters{Region: p["shared_memory_region"].GetStringParam(),
		Classification: int(p["classification"].GetInt64Param())}.check(what)
}

// messages returns the inputs of a call.
func (m *model) messages(r *pb.ModelInferRequest) (map[string]rlx.Tensor, error) {
	inBytes := len(r.RawInputContents) > 0
	if inBytes && len(r.RawInputContents) != len(r.Inputs) {
		return nil, refusef("raw_input_contents has %d tensors for %d inputs", len(r.RawInputContents), len(r.Inputs))
	}
	in := map[string]rlx.Tensor{}
	for i, x := range r.Inputs {
		v, shape, err := m.input(x.Name, x.Datatype, x.Shape)
		if err == nil {
			err = checkParameters("input "+x.Name, x.Parameters)
		}
		if err != nil {
			return nil, err
		}
		if _, ok := in[x.Name]; ok {
			return nil, refusef("input %s: is given twice", x.Name)
		}
		switch {
		case inBytes && x.Contents != nil:
			return nil, refusef("input %s: has contents beside raw_input_contents", x.Name)
		case inBytes:
			in[x.Name], err = raw(v, shape, r.RawInputContents[i])
		default:
			in[x.Name], err = contents(v, shape, x.Contents)
		}
		if err != nil {
			return nil, err
		}
	}
	return in, nil
}

// contents returns a tensor of the elements in the field for its datatype. 16-bit floats have none.
func contents(v rlx.Value, shape []int, c *pb.InferTensorContents) (rlx.Tensor, error) {
	var b []byte
	var bad error
	size := v.DType.Size()
	small := func(x int64, signed bool) {
		least, most := int64(0), int64(1)<<(8*size)-1
		if signed {
			least, most = -1<<(8*size-1), 1<<(8*size-1)-1
		}
		if x < least || x > most {
			bad = refusef("input %s: %d is not in the range of %s", v.Name, x, datatypes[v.DType])
		}
		b = appendInt(b, v.DType, x)
	}
	switch v.DType {
	case rlx.Bool:
		for _, x := range c.GetBoolContents() {
			b = append(b, map[bool]byte{true: 1}[x])
		}
	case rlx.I8, rlx.I16, rlx.I32:
		for _, x := range c.GetIntContents() {
			small(int64(x), true)
		}
	case rlx.U8, rlx.U32:
		for _, x := range c.GetUintContents() {
			small(int64(x), false)
		}
	case rlx.I64:
		for _, x := range c.GetInt64Contents() {
			b = binary.LittleEndian.AppendUint64(b, uint64(x))
		}
	case rlx.F32:
		for _, x := range c.GetFp32Contents() {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	case rlx.F64:
		for _, x := range c.GetFp64Contents() {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	default:
		return rlx.Tensor{}, refusef("input %s: %s has no field in contents: use raw_input_contents", v.Name,
			datatypes[v.DType])
	}
	if bad != nil {
		return rlx.Tensor{}, bad
	}
	return raw(v, shape, b)
}
