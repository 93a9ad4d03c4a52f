package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"hutch/fs"
)

func parseReference(ref string) (name.Reference, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is not the name of an image in a registry: %w", fs.ErrInvalid, ref, err)
	}
	return r, nil
}

// pull makes an image of what a registry has as ref.
func (s *Store) pull(ctx context.Context, j *job, ref name.Reference) (record, string, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	late := lateAfter(s.stall, giveUp)
	src, err := s.find(ctx, giveUp, ref)
	late.Stop()
	var r record
	root := ""
	if err == nil {
		r, root, err = s.build(ctx, j, src)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r, root, explain(err)
}

// find asks the registry for the image, with the credentials of the user's
// docker configuration, if there are any for it.
func (s *Store) find(ctx context.Context, giveUp context.CancelCauseFunc, ref name.Reference) (source, error) {
	d, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("hutch"))
	if err != nil {
		return source{}, err
	}
	img, err := chosen(d)
	if err != nil {
		return source{}, err
	}
	src := source{kind: "registry", digest: d.Digest.String()}
	m, err := img.Manifest()
	if err != nil {
		return source{}, err
	}
	c, err := img.ConfigFile()
	if err != nil {
		return source{}, fmt.Errorf("%w: config of the image: %w", fs.ErrInvalid, err)
	}
	src.config = *c
	src.layers, err = match(m, c, func(d v1.Descriptor) func(context.Context) (io.ReadCloser, error) {
		return func(ctx context.Context) (io.ReadCloser, error) {
			l, err := img.LayerByDigest(d.Digest)
			if err != nil {
				return nil, err
			}
			return newPatient(ctx, s.stall, giveUp, l.Compressed)
		}
	})
	return src, err
}

// chosen returns the image that d is, or the one in it that can run here.
func chosen(d *remote.Descriptor) (v1.Image, error) {
	switch {
	case d.MediaType.IsImage():
		return d.Image()
	case !d.MediaType.IsIndex():
		return nil, fmt.Errorf("%w: it is no container image but %s", fs.ErrUnsupported, plain(string(d.MediaType)))
	}
	index, err := d.ImageIndex()
	for err == nil {
		var m *v1.IndexManifest
		if m, err = index.IndexManifest(); err != nil {
			break
		}
		var one v1.Descriptor
		if one, err = pick(m.Manifests); err != nil {
			break
		}
		if one.MediaType.IsImage() {
			return index.Image(one.Digest)
		}
		index, err = index.ImageIndex(one.Digest) // a digest cannot contain itself
	}
	return nil, err
}

// match returns the layers of a manifest with what its config says of them.
func match(m *v1.Manifest, c *v1.ConfigFile, open func(v1.Descriptor) func(context.Context) (io.ReadCloser, error)) ([]packed, error) {
	var layers []packed
	for _, d := range m.Layers {
		if !d.MediaType.IsLayer() {
			return nil, fmt.Errorf("%w: it is no container image: a layer of it is %s", fs.ErrUnsupported, plain(string(d.MediaType)))
		}
		layers = append(layers, packed{size: d.Size, open: open(d)})
	}
	return layers, identify(layers, c)
}

// identify gives the layers the digests that a config says they have, by which
// the store knows them.
func identify(layers []packed, c *v1.ConfigFile) error {
	ids := c.RootFS.DiffIDs
	if len(ids) != len(layers) {
		return fmt.Errorf("%w: image has %d layers, and digests of %d", fs.ErrInvalid, len(layers), len(ids))
	}
	for i, h := range ids {
		if h.Algorithm != "sha256" || !hexDigest.MatchString(h.Hex) {
			return fmt.Errorf("%w: digest %q of a layer is not a sha256", fs.ErrUnsupported, plain(h.String()))
		}
		layers[i].hex = h.Hex
	}
	return nil
}

var hexDigest = regexp.MustCompile("^[0-9a-f]{64}$")

// explain gives the errors of registries their kinds.
func explain(err error) error {
	var t *transport.Error
	if !errors.As(err, &t) {
		return err
	}
	switch t.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: the registry refuses: the image is not there for everybody: mend its name, or docker login as the user that hutchd runs as: %w", fs.ErrPermission, err)
	case http.StatusNotFound:
		return fmt.Errorf("%w: the registry has no such image: %w", fs.ErrNotExist, err)
	}
	return fmt.Errorf("%w: registry: %w", fs.ErrIO, err)
}
