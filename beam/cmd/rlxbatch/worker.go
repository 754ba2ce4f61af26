package main

import (
	"context"
	"flag"
	"os"
	"strings"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// asWorker runs the program as a worker if a runner has started it as one, with --environment_type PROCESS. Such a
// runner names an endpoint that has the others, as it does for the program of Beam's containers.
func asWorker(args []string) bool {
	values := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		values[name] = strings.Trim(value, "'") // Prism quotes --id
	}
	provision := values["provision_endpoint"]
	if provision == "" {
		return false
	}
	info, err := tools.ProvisionInfo(context.Background(), provision)
	if err != nil {
		fail(1, err)
	}
	options, err := tools.ProtoToJSON(info.GetPipelineOptions())
	if err != nil {
		fail(1, err)
	}
	os.Setenv("RUNNER_CAPABILITIES", strings.Join(info.GetRunnerCapabilities(), " "))
	os.Setenv("STATUS_ENDPOINT", info.GetStatusEndpoint().GetUrl())
	control, logging := info.GetControlEndpoint().GetUrl(), info.GetLoggingEndpoint().GetUrl()
	if given := values["control_endpoint"]; given != "" {
		control = given
	}
	if given := values["logging_endpoint"]; given != "" {
		logging = given
	}
	for name, value := range map[string]string{"worker": "true", "id": values["id"], "control_endpoint": control,
		"logging_endpoint": logging, "options": options} {
		if err := flag.Set(name, value); err != nil {
			fail(1, err)
		}
	}
	beam.Init() // serves the runner, and ends the process
	return true
}
