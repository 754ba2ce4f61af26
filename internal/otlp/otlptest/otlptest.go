// Package otlptest is a collector of traces for tests. It speaks both protocols of OTLP.
package otlptest

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// A Receiver keeps the spans that it gets.
type Receiver struct {
	collector.UnimplementedTraceServiceServer
	URL string // for OTEL_EXPORTER_OTLP_ENDPOINT

	mu       sync.Mutex
	spans    []*pb.Span
	resource []*common.KeyValue
}

// New starts a receiver of a protocol, http/protobuf or grpc. It ends with the test.
func New(t *testing.T, protocol string) *Receiver {
	t.Helper()
	r := &Receiver{}
	if protocol == "grpc" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		collector.RegisterTraceServiceServer(s, r)
		go s.Serve(l)
		t.Cleanup(s.Stop)
		r.URL = "http://" + l.Addr().String()
		return r
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var in collector.ExportTraceServiceRequest
		b, err := io.ReadAll(q.Body)
		if err == nil {
			err = proto.Unmarshal(b, &in)
		}
		if err != nil || q.URL.Path != "/v1/traces" {
			http.Error(w, q.URL.Path, http.StatusBadRequest)
			return
		}
		r.Export(q.Context(), &in)
	}))
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

// Export takes spans.
func (r *Receiver) Export(_ context.Context, in *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range in.ResourceSpans {
		r.resource = a.Resource.Attributes
		for _, b := range a.ScopeSpans {
			r.spans = append(r.spans, b.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// Named returns the spans of a name.
func (r *Receiver) Named(name string) []*pb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.spans), func(s *pb.Span) bool { return s.Name != name })
}

// Resource returns an attribute of what sent the spans.
func (r *Receiver) Resource(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return value(r.resource, key).GetStringValue()
}

// Number returns an attribute of a span that is a number, or -1.
func Number(s *pb.Span, key string) int64 {
	if v := value(s.Attributes, key); v != nil {
		return v.GetIntValue()
	}
	return -1
}

// ID returns the id of the trace of a span in hexadecimal form.
func ID(s *pb.Span) string { return hex.EncodeToString(s.TraceId) }

func value(all []*common.KeyValue, key string) *common.AnyValue {
	for _, a := range all {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}
