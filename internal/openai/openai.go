// Package openai serves a language model over the HTTP API of OpenAI, which many programs speak: chat completions,
// completions, embeddings and models (https://platform.openai.com/docs/api-reference). Answers may be streamed. A
// parameter that the server does not support, such as audio, is refused with status 400 and its name. Parameters that
// the API does not have are ignored, as by other servers.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/text"
)

const (
	maxBody     = 16 << 20 // bytes of a request
	bodyTimeout = time.Minute
)

// A Server answers the requests of the API for one model.
type Server struct {
	name     string
	model    *rlx.Model
	engine   *Engine
	started  time.Time
	grammars grammars
	uses     *api.Uses
}

// A record is what the log says about a request.
type record struct {
	*api.Record
	usage
	model string
}

type recordKey struct{}

// recorded returns the request with a record.
func recorded(r *http.Request) *http.Request {
	about := &record{Record: api.RecordOf(r.Context())}
	about.More = func() []slog.Attr {
		return []slog.Attr{slog.Int("prompt_tokens", about.Prompt), slog.Int("cached_tokens", about.Details.Cached),
			slog.Int("completion_tokens", about.Completion), slog.String("model", about.model)}
	}
	return r.WithContext(context.WithValue(r.Context(), recordKey{}, about))
}

// recordOf returns the record of a request.
func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{Record: &api.Record{}}
}

// A failure is an error as the API has it.
type failure struct {
	status         int
	message, param string
	code           string
	retry          int // seconds until the client may try again; 0 if that is not known
}

func (f *failure) Error() string { return f.message }

// refuse returns the failure for a parameter that is wrong or not supported.
func refuse(param, message string) *failure {
	return &failure{http.StatusBadRequest, param + ": " + message, param, "invalid_value", 0}
}

// failureOf returns the failure for an error.
func failureOf(err error) *failure {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, ErrBusy):
		return &failure{http.StatusTooManyRequests, err.Error(), "", "server_busy", 0}
	case errors.Is(err, ErrTokens):
		return tokensFailure(err)
	case errors.Is(err, ErrClient):
		return &failure{http.StatusTooManyRequests, err.Error(), "", "rate_limit_exceeded", 0}
	case errors.Is(err, errDraining):
		return &failure{http.StatusServiceUnavailable, err.Error(), "", "server_ending", 0}
	case errors.Is(err, text.ErrContext):
		return &failure{http.StatusBadRequest, err.Error(), "", "context_length_exceeded", 0}
	case errors.Is(err, text.ErrText):
		return &failure{http.StatusBadRequest, err.Error(), "", "invalid_value", 0}
	}
	status, message := api.StatusOf(err)
	if status == http.StatusInternalServerError {
		var e *diag.Error
		if errors.As(err, &e) && e.Code.Exit() == 3 { // such as a conversation that the chat template rejects
			status = http.StatusBadRequest
		}
	}
	code := "server_error"
	switch status {
	case api.StatusClientGone:
		code = "cancelled"
	case http.StatusBadRequest:
		code = "invalid_value"
	}
	return &failure{status, message, "", code, 0}
}

// failureFor returns the failure for an error of a request whose text is the parameter called input.
func failureFor(err error, input string) *failure {
	f := failureOf(err)
	for _, about := range []error{text.ErrContext, text.ErrPrompt, text.ErrText} {
		if f.param == "" && errors.Is(err, about) {
			f.param = input
		}
	}
	return f
}

type errorBody struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

func (f *failure) body() (b errorBody) {
	b.Error.Message, b.Error.Code, b.Error.Type = f.message, f.code, "invalid_request_error"
	if f.status >= http.StatusInternalServerError {
		b.Error.Type = "server_error"
	}
	if f.param != "" {
		b.Error.Param = &f.param
	}
	return b
}

// tokensFailure returns the failure for a client that has used its tokens.
func tokensFailure(err error) *failure {
	f := &failure{status: http.StatusTooManyRequests, message: err.Error(), code: "rate_limit_exceeded"}
	if e, ok := errors.AsType[*tokensError](err); ok {
		f.retry = e.seconds()
	}
	return f
}

func fail(w http.ResponseWriter, f *failure) {
	if f.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.retry))
	}
	api.Reply(w, f.status, f.body(), writeTimeout)
}

// failed answers a request with a failure, and notes it for the log.
func failed(ctx context.Context, w http.ResponseWriter, f *failure) {
	recordOf(ctx).Err = f.message
	fail(w, f)
}

func answer(w http.ResponseWriter, v any) {
	api.Reply(w, http.StatusOK, v, writeTimeout)
}

// read decodes the body of a request.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	err := d.Decode(v)
	var large *http.MaxBytesError
	var f *failure
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &kind) && kind.Field != "":
		return wrongType(kind)
	case errors.As(err, &large):
		return &failure{http.StatusRequestEntityTooLarge, "the request has more than 16 MiB", "", "request_too_large",
			0}
	case err != nil:
		return &failure{http.StatusBadRequest, "the body is not a request in JSON: " + err.Error(), "", "invalid_json",
			0}
	}
	if d.More() {
		return &failure{http.StatusBadRequest, "the body has more than one JSON value", "", "invalid_json", 0}
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

// wrongType returns the failure for a parameter of another type than it has.
func wrongType(e *json.UnmarshalTypeError) *failure {
	want := "an object"
	switch t := e.Type; t.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int64:
		want = "an integer"
	case reflect.Float64:
		want = "a number"
	case reflect.String:
		want = "a text"
	case reflect.Slice:
		want = "a list"
	}
	param := strings.TrimPrefix(e.Field, "common.") // as the package json names what is embedded
	return refuse(param, "is of the type "+e.Value+"; want "+want)
}
