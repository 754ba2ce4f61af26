package inference

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/api"
)

// headerLength is the header with the length of the JSON in a body, after which binary tensors follow.
const headerLength = "Inference-Header-Content-Length"

const (
	bodyTimeout  = 5 * time.Minute
	writeTimeout = 5 * time.Minute
)

// extensions are those of the protocol that the service has.
var extensions = []string{"binary_tensor_data"}

// Add adds the REST API of the service to a server. programVersion is that of the program, for metadata.
func (s *Service) Add(to *api.Server, programVersion string) {
	to.Add(api.Part{Prefix: "/v2", Ready: s.Ready, Drain: s.Drain, Gather: s.metrics(),
		Refuse: func(w http.ResponseWriter, status int, _, message string) { fail(w, status, message) }})
	to.HandleFunc("GET /v2", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"name": serverName, "version": programVersion, "extensions": extensions})
	})
	to.HandleFunc("GET /v2/health/live", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]bool{"live": true})
	})
	to.HandleFunc("GET /v2/health/ready", s.health)
	to.HandleFunc("POST /v2/repository/index", s.index)
	for path, f := range map[string]func(http.ResponseWriter, *http.Request, *model) error{
		"GET /v2/models/{model}%s": s.metadata, "GET /v2/models/{model}%s/ready": s.modelReady,
		"POST /v2/models/{model}%s/infer": s.infer,
	} {
		for _, v := range []string{"", "/versions/{version}"} {
			to.HandleFunc(fmt.Sprintf(path, v), func(w http.ResponseWriter, r *http.Request) {
				m, done, err := s.use(r.PathValue("model"), r.PathValue("version"))
				if err == nil {
					defer done()
					err = f(w, r, m)
				}
				if err != nil {
					failed(w, r, failureOf(err))
				}
			})
		}
	}
}

// AddLoad adds to a server the request to load the file of an artifact again. load returns ErrArtifact if there is
// none of a name.
func AddLoad(to *api.Server, load func(name string) error) {
	to.HandleFunc("POST /v2/repository/models/{artifact}/load", func(w http.ResponseWriter, r *http.Request) {
		err := load(r.PathValue("artifact"))
		f := &failure{status: http.StatusBadRequest}
		switch {
		case err == nil:
			answer(w, map[string]any{})
			return
		case errors.Is(err, ErrArtifact):
			f.status = http.StatusNotFound
		case errors.Is(err, rlx.ErrMemory):
			f.status = http.StatusServiceUnavailable
		}
		f.message = err.Error()
		failed(w, r, f)
	})
}

// ErrArtifact reports that there is no artifact of a name.
var ErrArtifact = errors.New("the server has no artifact of that name")

// failed answers a request with an error, and notes it for the log.
func failed(w http.ResponseWriter, r *http.Request, f *failure) {
	api.RecordOf(r.Context()).Err = f.message
	fail(w, f.status, f.message)
}

// serverName is the name of the server in metadata.
const serverName = "rlxrun"

func fail(w http.ResponseWriter, status int, message string) {
	api.Reply(w, status, map[string]string{"error": message}, writeTimeout)
}

func answer(w http.ResponseWriter, v any) { api.Reply(w, http.StatusOK, v, writeTimeout) }

func (s *Service) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.Ready(); err != nil {
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, map[string]bool{"ready": true})
}

func (s *Service) modelReady(w http.ResponseWriter, _ *http.Request, m *model) error {
	if err := s.Ready(); err != nil {
		return err
	}
	answer(w, map[string]any{"name": m.name, "ready": true})
	return nil
}

// index lists the models, as Triton does.
func (s *Service) index(w http.ResponseWriter, _ *http.Request) {
	out := []map[string]string{}
	for _, name := range s.Names() {
		out = append(out, map[string]string{"name": name, "version": version, "state": "READY"})
	}
	answer(w, out)
}

type tensorMetadata struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

func (s *Service) metadata(w http.ResponseWriter, _ *http.Request, m *model) error {
	list := func(values []rlx.Value) (out []tensorMetadata) {
		for _, v := range values {
			out = append(out, tensorMetadata{v.Name, datatypes[v.DType], shapeOf(v)})
		}
		return out
	}
	answer(w, map[string]any{"name": m.name, "versions": []string{version}, "platform": "rlx",
		"inputs": list(m.method.Inputs), "outputs": list(m.method.Outputs)})
	return nil
}

// parameters are those of a request, an input or an output.
type parameters struct {
	BinaryData       *bool  `json:"binary_data"`
	BinaryDataOutput *bool  `json:"binary_data_output"`
	BinaryDataSize   *int64 `json:"binary_data_size"`
	Region           string `json:"shared_memory_region"`
	Classification   int    `json:"classification"`
}

// check refuses what the service does not do.
func (p parameters) check(what string) error {
	switch {
	case p.Region != "":
		return refusef("%s: shared memory is not supported: send and receive tensors with the request", what)
	case p.Classification != 0:
		return refusef("%s: classification is not supported: ask for the output itself", what)
	}
	return nil
}

type inferRequest struct {
	ID         string     `json:"id"`
	Parameters parameters `json:"parameters"`
	Inputs     []struct {
		Name       string          `json:"name"`
		Shape      []int64         `json:"shape"`
		Datatype   string          `json:"datatype"`
		Parameters parameters      `json:"parameters"`
		Data       json.RawMessage `json:"data"`
	} `json:"inputs"`
	Outputs []struct {
		Name       string     `json:"name"`
		Parameters parameters `json:"parameters"`
	} `json:"outputs"`
}

type outputTensor struct {
	tensorMetadata
	Parameters map[string]any  `json:"parameters,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

type inferResponse struct {
	Model   string         `json:"model_name"`
	Version string         `json:"model_version"`
	ID      string         `json:"id,omitempty"`
	Outputs []outputTensor `json:"outputs"`
}

// infer runs a method.
func (s *Service) infer(w http.ResponseWriter, r *http.Request, m *model) error {
	leave, err := s.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	q, in, err := m.read(w, r)
	if err != nil {
		return err
	}
	var names []string
	for _, o := range q.Outputs {
		if slices.Contains(names, o.Name) {
			return refusef("output %s: is named twice", diag.Printable(o.Name))
		}
		names = append(names, o.Name)
	}
	values, out, err := m.run(r.Context(), in, names)
	if err != nil {
		return err
	}
	a, binary := inferResponse{Model: m.name, Version: version, ID: q.ID}, [][]byte{}
	for i, v := range values {
		o := outputTensor{tensorMetadata: tensorMetadata{v.Name, datatypes[v.DType], sizes(out[i].Shape)}}
		inBytes := q.Parameters.BinaryDataOutput
		if names != nil && q.Outputs[i].Parameters.BinaryData != nil {
			inBytes = q.Outputs[i].Parameters.BinaryData
		}
		if inBytes != nil && *inBytes {
			o.Parameters = map[string]any{"binary_data_size": len(out[i].Data)}
			binary = append(binary, out[i].Data)
		} else if o.Data, err = numbers(v.Name, out[i]); err != nil {
			return err
		}
		a.Outputs = append(a.Outputs, o)
	}
	if len(binary) == 0 {
		answer(w, a)
		return nil
	}
	head, err := json.Marshal(a)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(headerLength, strconv.Itoa(len(head)))
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	for _, b := range append([][]byte{head}, binary...) {
		if _, err := w.Write(b); err != nil {
			return nil // the client has gone
		}
	}
	return nil
}

func sizes(shape []int) []int64 {
	out := []int64{}
	for _, d := range shape {
		out = append(out, int64(d))
	}
	return out
}

// read reads a request and its tensors.
func (m *model) read(w http.ResponseWriter, r *http.Request) (q inferRequest, in map[string]rlx.Tensor, err error) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	if c := r.Header.Get("Content-Encoding"); c != "" && c != "identity" {
		return q, nil, &failure{http.StatusUnsupportedMediaType, unsupported,
			"Content-Encoding " + diag.Printable(c) + " is not supported: send the request without compression"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, m.limit()))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return q, nil, &failure{http.StatusRequestEntityTooLarge, tooLarge, fmt.Sprintf(
			"the request has more than %d bytes, which are all that the inputs of %s may take", large.Limit, m.name)}
	}
	if err != nil {
		return q, nil, refusef("the body cannot be read: %v", err)
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	head, rest := body, []byte(nil)
	if text := r.Header.Get(headerLength); text != "" {
		n, err := strconv.ParseUint(text, 10, 62)
		if err != nil || n > uint64(len(body)) {
			return q, nil, refusef("%s is %s; the body has %d bytes", headerLength, diag.Printable(text), len(body))
		}
		head, rest = body[:n], body[n:]
	}
	if err := json.Unmarshal(head, &q); err != nil {
		return q, nil, refusef("the body is not a request in JSON: %v", err)
	}
	in, err = m.tensors(&q, rest)
	return q, in, err
}

// tensors returns the inputs of a request. rest has the binary ones, one after the other.
func (m *model) tensors(q *inferRequest, rest []byte) (map[string]rlx.Tensor, error) {
	if err := q.Parameters.check("request"); err != nil {
		return nil, err
	}
	for _, o := range q.Outputs {
		if err := o.Parameters.check("output " + diag.Printable(o.Name)); err != nil {
			return nil, err
		}
	}
	in := map[string]rlx.Tensor{}
	for _, x := range q.Inputs {
		v, shape, err := m.input(x.Name, x.Datatype, x.Shape)
		if err == nil {
			err = x.Parameters.check("input " + x.Name)
		}
		if err != nil {
			return nil, err
		}
		if _, ok := in[x.Name]; ok {
			return nil, refusef("input %s: is given twice", x.Name)
		}
		size := x.Parameters.BinaryDataSize
		switch {
		case size != nil && x.Data != nil:
			return nil, refusef("input %s: has both data and binary_data_size", x.Name)
		case size != nil && (*size < 0 || *size > int64(len(rest))):
			return nil, refusef("input %s: binary_data_size is %d; %d bytes are left in the body", x.Name, *size,
				len(rest))
		case size != nil:
			in[x.Name], err = raw(v, shape, rest[:*size])
			rest = rest[*size:]
		case x.Data == nil:
			return nil, refusef("input %s: has neither data nor binary_data_size", x.Name)
		default:
			in[x.Name], err = parsed(v, shape, x.Data)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(rest) > 0 {
		return nil, refusef("the body has %d bytes after the last binary input", len(rest))
	}
	return in, nil
}
