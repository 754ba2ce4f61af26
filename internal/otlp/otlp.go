// Package otlp sends traces of a server to a collector of OpenTelemetry, as the standard variables OTEL_* say
// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables). It is apart from the servers so
// that only programs that serve have the exporters.
package otlp

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/rlx-go/rlx/core/diag"
)

// endTime is how long the last spans may take to be sent.
const endTime = 5 * time.Second

// wanted reports whether the variables ask for traces. Without any of them there are none: then no span is made, and
// nothing connects to a collector.
func wanted() (bool, error) {
	exporter := strings.TrimSpace(os.Getenv("OTEL_TRACES_EXPORTER"))
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false, nil
	case exporter == "otlp":
		return true, nil
	case exporter != "":
		return false, diag.New(diag.Usage, "OTEL_TRACES_EXPORTER", "is %q; allowed are otlp and none", exporter)
	}
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != "", nil
}

// Start returns what takes spans, or nil if the environment asks for no traces. end sends the last ones. Spans that
// cannot be sent are lost, which is told in the log. version is that of the program.
func Start(ctx context.Context, program, version string, log *slog.Logger) (_ trace.TracerProvider, end func(),
	err error) {
	if on, err := wanted(); err != nil || !on {
		return nil, func() {}, err
	}
	const general, own = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	var client otlptrace.Client
	switch p := cmp.Or(os.Getenv(own), os.Getenv(general), "http/protobuf"); p {
	case "http/protobuf":
		client = otlptracehttp.NewClient()
	case "grpc":
		client = otlptracegrpc.NewClient()
	default:
		return nil, nil, diag.New(diag.Usage, general, "is %q; allowed are http/protobuf and grpc", p)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", program),
		attribute.String("service.version", version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, nil, diag.New(diag.Usage, "OTEL_RESOURCE_ATTRIBUTES", "cannot be used: %w", err)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, nil, diag.New(diag.Usage, "OTEL_EXPORTER_OTLP_ENDPOINT", "cannot be used: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces", slog.Any("error", err)) }))
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return p, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			log.Warn("traces", slog.Any("error", err))
		}
	}, nil
}
