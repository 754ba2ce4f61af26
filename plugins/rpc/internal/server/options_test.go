//go:build linux || darwin

package server

import (
	"context"
	"testing"
	"time"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// TestCheckCall checks that both sides reject calls that are not in the protocol and calls without a deadline.
func TestCheckCall(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := wire.CheckCall(ctx, wire.ServiceMethods+"Info"); err != nil {
		t.Error(err)
	}
	for _, m := range []string{wire.ServiceMethods + "Info", wire.StdioMethod} {
		if wire.CheckCall(t.Context(), m) == nil {
			t.Errorf("%s passed without a deadline", m)
		}
	}
	for _, m := range []string{"/plugin.GRPCBroker/StartStream",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
		if checkServed(ctx, m) == nil {
			t.Errorf("%s is served", m)
		}
	}
}
