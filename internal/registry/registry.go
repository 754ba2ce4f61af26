// Package registry stores artifacts in OCI registries, such as those of container images, and fetches them.
//
// An artifact is the only layer of a manifest of type ArtifactType. The digest of the manifest pins its bytes: a
// reference with that digest always means the same file.
//
// The package imports core/code, core/diag, internal/atomicfile, internal/ctxio and internal/filelock.
package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// The media types of a manifest's artifact and of its layer.
const (
	ArtifactType = "application/vnd.rlx.artifact.v1"
	LayerType    = "application/vnd.rlx.artifact.v1.rlx"
)

// manifestSize is the largest manifest that is read, in bytes. Ours have about 700.
const manifestSize = 1 << 20

// Repository is a place in a registry, named by a reference such as ghcr.io/me/sam:v1 or ghcr.io/me/sam@sha256:....
type Repository struct {
	repo *remote.Repository
	ref  string // as the user wrote it
}

// Open parses a reference. It connects to nothing. Passwords come from the configuration of Docker and Podman
// (~/.docker/config.json and its helpers). Connections use TLS, except to a registry on this machine or with
// plainHTTP.
func Open(ref string, plainHTTP bool) (*Repository, error) {
	repo, err := remote.NewRepository(ref)
	if err != nil {
		return nil, diag.New(code.Registry, ref, "is not a reference to an artifact (%w)", err).WithHint(
			"write REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST, such as ghcr.io/me/sam:v1")
	}
	if repo.Reference.Reference == "" {
		return nil, diag.New(code.Registry, ref, "has neither a tag nor a digest").WithHint(
			"add one, such as %s:v1", ref)
	}
	repo.PlainHTTP = plainHTTP || isLocal(repo.Reference.Host())
	client := &auth.Client{Client: &http.Client{Transport: retry.NewTransport(nil)}, Cache: auth.NewCache()}
	client.SetUserAgent("rlxc")
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, diag.New(code.Registry, ref, "the passwords of Docker cannot be read (%w)", err)
	}
	client.Credential = credentials.Credential(store)
	repo.Client = client
	return &Repository{repo, ref}, nil
}

// Name returns the name of the repository, without the registry.
func (r *Repository) Name() string { return r.repo.Reference.Repository }

// isLocal reports whether a host, with or without a port, is this machine.
func isLocal(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// fail returns the error of a request, with its cause in words.
func (r *Repository) fail(err error, doing string) error {
	var response *errcode.ErrorResponse
	e := diag.New(code.Registry, r.ref, "%s failed: %w", doing, err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errdef.ErrNotFound):
		return e.WithHint("check the name and the tag")
	case errors.As(err, &response) &&
		(response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden):
		return e.WithHint(`"docker login %s" or "podman login %[1]s" stores a password`, r.repo.Reference.Host())
	}
	return e
}

// Push stores size bytes of an artifact under the tag of the reference and returns a reference to it by digest. Bytes
// that the repository already has are not sent. Pushing the same file again gives the same digest.
func (r *Repository) Push(ctx context.Context, file io.ReaderAt, size int64, progress func(done int64)) (
	string, error) {
	if _, err := digest.Parse(r.repo.Reference.Reference); err == nil {
		return "", diag.New(code.Registry, r.ref, "is a digest, which the registry computes itself").WithHint(
			"push to a tag, such as %s/%s:v1", r.repo.Reference.Registry, r.repo.Reference.Repository)
	}
	sum, err := digest.FromReader(io.NewSectionReader(file, 0, size))
	if err != nil {
		return "", diag.New(code.ArtifactRead, r.ref, "%w", err)
	}
	layer := ocispec.Descriptor{MediaType: LayerType, Digest: sum, Size: size}
	there, err := r.repo.Exists(ctx, layer)
	if err != nil {
		return "", r.fail(err, "asking for the artifact")
	}
	if !there {
		if err := r.repo.Push(ctx, layer, &counting{io.NewSectionReader(file, 0, size), 0, progress}); err != nil {
			return "", r.fail(err, "storing the artifact")
		}
	}
	manifest, err := oras.PackManifest(ctx, r.repo, oras.PackManifestVersion1_1, ArtifactType, oras.PackManifestOptions{
		Layers: []ocispec.Descriptor{layer},
		// a fixed time, so that the digest depends only on the artifact
		ManifestAnnotations: map[string]string{ocispec.AnnotationCreated: "1970-01-01T00:00:00Z"}})
	if err != nil {
		return "", r.fail(err, "storing the manifest")
	}
	if err := r.repo.Tag(ctx, manifest, r.repo.Reference.Reference); err != nil {
		return "", r.fail(err, "setting the tag")
	}
	return r.at(manifest.Digest), nil
}

// at returns the reference by digest.
func (r *Repository) at(d digest.Digest) string {
	return fmt.Sprintf("%s/%s@%s", r.repo.Reference.Registry, r.repo.Reference.Repository, d)
}

// other is the error for a reference to something that push has not stored.
func (r *Repository) other(format string, args ...any) error {
	return diag.New(code.Registry, r.ref, "has "+format, args...).WithHint(
		"name an artifact that rlxc push has stored, not a container image")
}

// layer returns the descriptor of the artifact that the reference means, and the reference by digest.
func (r *Repository) layer(ctx context.Context) (layer ocispec.Descriptor, pinned string, err error) {
	manifest, err := r.repo.Resolve(ctx, r.repo.Reference.Reference)
	if err != nil {
		return layer, "", r.fail(err, "looking up the reference")
	}
	if manifest.MediaType != ocispec.MediaTypeImageManifest || manifest.Size > manifestSize {
		return layer, "", r.other("a manifest of type %s and %d bytes; want %s of at most %d", manifest.MediaType,
			manifest.Size, ocispec.MediaTypeImageManifest, manifestSize)
	}
	text, err := content.FetchAll(ctx, r.repo.Manifests(), manifest)
	if err != nil {
		return layer, "", r.fail(err, "reading the manifest")
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return layer, "", diag.New(code.Registry, r.ref, "has a manifest that is not valid JSON (%w)", err)
	}
	if len(m.Layers) != 1 || m.Layers[0].MediaType != LayerType {
		return layer, "", r.other("a manifest with %d layers and artifact type %q; want one layer of type %s",
			len(m.Layers), m.ArtifactType, LayerType)
	}
	layer = m.Layers[0]
	if err := layer.Digest.Validate(); err != nil || layer.Digest.Algorithm() != digest.SHA256 || layer.Size < 0 {
		return layer, "", r.other("a layer with digest %q and %d bytes; want a digest of SHA-256", layer.Digest,
			layer.Size)
	}
	return layer, r.at(manifest.Digest), nil
}

// counting calls progress with the number of bytes that were read.
type counting struct {
	from     io.Reader
	done     int64
	progress func(done int64)
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.done += int64(n)
	c.progress(c.done)
	return n, err
}
