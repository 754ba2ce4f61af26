package openai

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/api"
)

// Models are the language models of a server. The zero value has none; add them with Put.
type Models struct {
	mu       sync.Mutex
	servers  []*Server // in the order in which they came
	draining bool
}

// Put adds a model, which must have the task text and be the engine's. name is what /v1/models lists. It takes the
// place of the model that had the name, and continues its counts: requests in progress end with the old one, and end of
// the old one is called after the last of them. e must not have been used. end may be nil.
func (all *Models) Put(name string, m *rlx.Model, e *Engine, end func()) {
	s := &Server{name: name, model: m, engine: e, started: time.Now(), uses: api.NewUses(end)}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.draining {
		e.drain()
	}
	i := slices.IndexFunc(all.servers, func(s *Server) bool { return s.name == name })
	if i < 0 {
		all.servers = append(all.servers, s)
		return
	}
	old := all.servers[i]
	e.metrics = old.engine.metrics
	all.servers = slices.Clone(all.servers) // others may read it
	all.servers[i] = s
	old.uses.Replaced()
}

// list returns the models.
func (all *Models) list() []*Server {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.servers
}

// use returns the model that a request names; done is called when the request has ended. If there is one model, any
// name will do.
func (all *Models) use(name string) (s *Server, done func(), err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	switch i := slices.IndexFunc(all.servers, func(s *Server) bool { return s.name == name }); {
	case i >= 0:
		s = all.servers[i]
	case len(all.servers) == 1:
		s = all.servers[0]
	case name == "":
		return nil, nil, refuse("model", "is missing; this server has "+namesOf(all.servers))
	default:
		return nil, nil, unknown(name, all.servers)
	}
	return s, s.uses.Begin(), nil
}

func unknown(name string, servers []*Server) *failure {
	return &failure{http.StatusNotFound,
		"the model " + diag.Printable(name) + " does not exist; this server has " + namesOf(servers), "model",
		"model_not_found", 0}
}

func namesOf(servers []*Server) string {
	var names []string
	for _, s := range servers {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// Add adds the API to a server.
func (all *Models) Add(to *api.Server) {
	to.Add(api.Part{Prefix: "/v1/", Ready: all.ready, Drain: all.drain, Gather: prometheus.GathererFunc(all.gather),
		Refuse: func(w http.ResponseWriter, status int, reason, message string) {
			fail(w, &failure{status, message, "", reason, 0})
		}})
	for pattern, f := range map[string]http.HandlerFunc{
		"GET /v1/models": all.models, "GET /v1/models/{name}": all.models,
		"POST /v1/chat/completions": handle(all, (*Server).chat),
		"POST /v1/completions":      handle(all, (*Server).complete),
		"POST /v1/embeddings":       handle(all, (*Server).embed),
	} {
		to.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { f(w, recorded(r)) })
	}
}

// handle reads a request and lets the model that it names answer it.
func handle[T any, P interface {
	*T
	modelName() string
}](all *Models, answer func(*Server, http.ResponseWriter, *http.Request, P)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := P(new(T))
		err := read(w, r, in)
		var s *Server
		done := func() {}
		if err == nil {
			s, done, err = all.use(in.modelName())
		}
		if err != nil {
			failed(r.Context(), w, failureOf(err))
			return
		}
		defer done()
		recordOf(r.Context()).model = s.name
		answer(s, w, r, in)
	}
}

func (c *common) modelName() string           { return c.Model }
func (r *embeddingRequest) modelName() string { return r.Model }

func (all *Models) ready() error {
	for _, s := range all.list() {
		if err := s.engine.Ready(); err != nil {
			return err
		}
	}
	return nil
}

func (all *Models) drain() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.draining = true
	for _, s := range all.servers {
		s.engine.drain()
	}
}

// gather returns the numbers of all models.
func (all *Models) gather() ([]*dto.MetricFamily, error) {
	var from prometheus.Gatherers
	for _, s := range all.list() {
		from = append(from, s.engine.metrics.registry, s.engine.gauges)
	}
	return from.Gather()
}

type modelInfo struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (all *Models) models(w http.ResponseWriter, r *http.Request) {
	list := []modelInfo{}
	for _, s := range all.list() {
		list = append(list, modelInfo{s.name, "model", s.started.Unix(), "rlx"})
	}
	name := r.PathValue("name")
	if name == "" {
		answer(w, map[string]any{"object": "list", "data": list})
		return
	}
	i := slices.IndexFunc(list, func(m modelInfo) bool { return m.ID == name })
	if i < 0 {
		fail(w, unknown(name, all.list()))
		return
	}
	answer(w, list[i])
}
