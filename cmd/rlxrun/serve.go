package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/localpage"
	"github.com/rlx-go/rlx/task"
)

// serveFlags are the flags of `rlxrun serve`.
type serveFlags struct {
	image  string
	camera string
	port   int
	api    apiFlags
	host   hostFlags
}

func serveCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", Args: "FILE... [flags]", Short: "models for programs: OpenAI's API, the Open Inference Protocol; or a page in your browser with an image or a scene",
		Long: `Serves artifacts, prints the address, and runs until Ctrl-C.
A language model (task text) is served over the HTTP API of OpenAI: chat completions, completions, embeddings and models, streamed or not. Point a client at the address, as its base URL.
If it was compiled with rlxc --batch N, up to N texts of all clients share every run; otherwise they take turns token by token. Without --listen only this machine can connect.
Several files, files without a task, and others with --api are served over the Open Inference Protocol, version 2, which clients of KServe and Triton speak: every method that keeps no state, over REST and, with --grpc, gRPC.
Otherwise it serves a page. Open the address in a browser on this machine. If the artifact declares the task segment, the page segments images:
an image is encoded once; after that a click, a box or the keyboard finds a mask in the time of the decoder alone, and you can save masks. If it declares the task segment_concepts, a text or
boxes around examples find all objects of a kind. If it declares the task splats, the page shows
the scene, and mouse, fingers or keys move the camera; each frame is rendered by the backend, a small one while the camera moves, if the artifact has a method for it. The page's server listens on
127.0.0.1 only, and the address has a random token, so other machines, other users and other pages in your browser cannot use it. With --listen, whoever has the
address can, from other machines, too. The page loads nothing from the network, and images stay on the machine that runs the model. A backend that ends is started again. To use it on a remote machine, forward the port: ssh -L 8000:127.0.0.1:8000 MACHINE rlxrun serve sam.rlx --port 8000`,
		Examples: []cli.Example{
			{About: "a language model at http://127.0.0.1:8080/v1", Line: "rlxrun serve llama.rlx --port 8080"},
			{About: "for other machines, with a key and TLS",
				Line: "rlxrun serve llama.rlx --listen :8443 --key-file key.txt --tls-cert cert.pem --tls-key key.pem"},
			{About: "methods of two artifacts, over REST and gRPC", Line: "rlxrun serve sam.rlx resnet.rlx --port 8000 --grpc 127.0.0.1:8001"},
			{About: "open the page with an image", Line: "rlxrun serve sam.rlx --image coins.png"},
			{About: "the page for other machines in the house, too: open the address that is printed there",
				Line: "rlxrun serve sam.rlx --listen :8000"},
			{About: "look around in a scene of Gaussian splats", Line: "rlxrun serve scene.rlx"},
			{About: "run on a GPU, at a fixed port", Line: "rlxrun serve sam.rlx -b wgpu --port 8000"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f serveFlags
			fs.Group("The page")
			fs.StringVar(&f.image, "image", "", "`FILE` an image to open the page with; - is stdin")
			fs.StringVar(&f.camera, "camera", "", cameraUsage)
			fs.IntVar(&f.port, "port", 0, "`N` the port (default any free one)")
			f.api.declare(fs)
			f.host.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if err := f.api.settle(&f); err != nil {
					return err
				}
				if f.port < 0 || f.port > 1<<16-1 {
					return cli.Usagef("--port", "is %d; allowed are 1 to %d, and 0 for any that is free", f.port,
						1<<16-1)
				}
				if err := (&splatsFlags{camera: f.camera}).settle(); err != nil {
					return err
				}
				if len(args) < 2 {
					one := func(ctx context.Context, s *session) error { return s.serve(ctx, &f) }
					return inSession(ctx, env, args, &f.host, &debugFlags{}, one)
				}
				if f.api.name != "" {
					return cli.Usagef("--name", "is for one file; several have the names of their files")
				}
				return inSessions(ctx, env, args, &f.host, func(ctx context.Context, all []*session) error {
					return f.toPrograms(ctx, all...)
				})
			}
		},
	}
}

// toPrograms serves artifacts to programs.
func (f *serveFlags) toPrograms(ctx context.Context, all ...*session) error {
	if f.camera != "" || f.image != "" {
		return cli.Usagef("serve", "--image and --camera are for pages, and programs are served here")
	}
	if err := f.api.checkKey("--listen", f.api.listen); err != nil {
		return err
	}
	return serveAPI(ctx, f, all)
}

// serve serves a page, or programs, until ctx ends, and returns the reason. A backend that is lost is started again.
func (s *session) serve(ctx context.Context, f *serveFlags) error {
	if f.api.api {
		return f.toPrograms(ctx, s)
	}
	var page func(net.Listener) error
	switch t := s.model.Task().(type) {
	case *task.Segment, *task.Concepts:
		if f.camera != "" {
			return cli.Usagef("--camera", "is for scenes; %s segments images", s.model.Path())
		}
		page = func(l net.Listener) error { return s.serveImages(ctx, f, l) }
	case *task.Splats:
		if f.image != "" {
			return cli.Usagef("--image", "is for artifacts that segment images; %s is a scene", s.model.Path())
		}
		page = func(l net.Listener) error { return s.serveScene(ctx, f, t, l) }
	default:
		return f.toPrograms(ctx, s)
	}
	for _, flag := range f.api.given() {
		if !slices.Contains(pageFlagNames, strings.TrimPrefix(flag, "--")) {
			return cli.Usagef(flag, "is for servers of programs; %s gets a page in your browser", s.model.Path()).
				WithHint("--api serves its methods to programs")
		}
	}
	listener, err := listen(f.address())
	if err != nil {
		return err
	}
	defer listener.Close()
	return page(listener)
}

// address returns where to listen.
func (f *serveFlags) address() string {
	return cmp.Or(f.api.listen, net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)))
}

// listen listens at HOST:PORT.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // the rest repeats the address
		}
		return nil, cli.Usagef("address "+address, "cannot be used: %w", err)
	}
	return l, nil
}

// readyToServe waits for the backend and loads methods.
func (s *session) readyToServe(ctx context.Context, methods []*rlx.Method) error {
	if err := s.ready(ctx, nil, nil, methods...); err != nil {
		return err
	}
	return s.load(ctx, methods...)
}

// A page is one that rlxrun serves.
type page interface {
	URL(net.Addr) string
	LetIn(names ...string)
	Serve(context.Context, net.Listener, io.Writer) error
}

// serveUntil announces the address of a page and serves it until ctx ends. Then it waits for a run in progress.
func (s *session) serveUntil(ctx context.Context, f *serveFlags, listener net.Listener, p page, l *lasting) error {
	listener, scheme, err := f.api.secure(listener)
	if err != nil {
		return err
	}
	at, note := listener.Addr(), "the page is for browsers on this machine; Ctrl-C ends it"
	if f.api.listen != "" && !localpage.IsLocal(f.api.listen) {
		at, note = s.letIn(f.api.listen, at, p), "anyone who has the address can use the page; Ctrl-C ends it"
		if scheme == "http" {
			note += ". Others in the network can read what it shows: --tls-cert and --tls-key encrypt it"
		}
	}
	url := strings.Replace(p.URL(at), "http:", scheme+":", 1)
	if err := s.announce(url, note); err != nil {
		return err
	}
	defer l.wait()
	err = p.Serve(ctx, listener, s.env.Stderr)
	if cli.AskedToStop(ctx) {
		return nil
	}
	return err
}

// letIn lets other machines use a page, and returns its address for them. If it listens on all addresses, the address
// has the name of this machine.
func (s *session) letIn(listen string, at net.Addr, p page) net.Addr {
	var names []string
	host, _, _ := net.SplitHostPort(listen)
	if host != "" {
		names = append(names, host)
	}
	own, err := os.Hostname()
	if err == nil {
		names = append(names, own, own+".local")
	}
	p.LetIn(names...)
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() || err != nil {
		return at
	}
	return named{own, tcp.Port}
}

// named is an address with a name in place of an IP address.
type named struct {
	host string
	port int
}

func (n named) Network() string { return "tcp" }
func (n named) String() string  { return net.JoinHostPort(n.host, strconv.Itoa(n.port)) }

// announce prints an address, with a note for people.
func (s *session) announce(url, note string) error {
	if s.env.JSON {
		return s.env.WriteJSON(map[string]string{"url": url})
	}
	s.env.Notef("%s", note)
	_, err := io.WriteString(s.env.Stdout, url+"\n")
	return err
}
