package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hutch/fs"
)

// loadSaved makes an image of the folder dir with what docker save has written.
func (s *Store) loadSaved(ctx context.Context, j *job, dir string) (record, string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return record{}, "", err
	}
	defer root.Close()
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := readJSON(root, "manifest.json", &manifest); err != nil {
		return record{}, "", err
	}
	if len(manifest) != 1 {
		return record{}, "", fmt.Errorf("%w: there are %d images in it, and one is wanted", fs.ErrInvalid, len(manifest))
	}
	m := manifest[0]
	src := source{kind: "docker archive"}
	if err := readJSON(root, m.Config, &src.config); err != nil {
		return record{}, "", err
	}
	for _, name := range m.Layers {
		l := packed{open: opener(dir, name)}
		if st, err := root.Stat(name); err == nil {
			l.size = st.Size()
		}
		src.layers = append(src.layers, l)
	}
	if err := identify(src.layers, &src.config); err != nil {
		return record{}, "", err
	}
	return s.build(ctx, j, src)
}

// loadLayout makes an image of the OCI layout in the folder dir.
func (s *Store) loadLayout(ctx context.Context, j *job, dir, kind string) (record, string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return record{}, "", err
	}
	defer root.Close()
	var index v1.IndexManifest
	if err := readJSON(root, "index.json", &index); err != nil {
		return record{}, "", err
	}
	one, err := pick(index.Manifests)
	for err == nil && one.MediaType.IsIndex() {
		var deeper *v1.IndexManifest
		if deeper, err = parseBlob(root, one, v1.ParseIndexManifest); err == nil {
			one, err = pick(deeper.Manifests)
		}
	}
	if err != nil {
		return record{}, "", err
	}
	m, err := parseBlob(root, one, v1.ParseManifest)
	if err != nil {
		return record{}, "", err
	}
	c, err := parseBlob(root, m.Config, v1.ParseConfigFile)
	if err != nil {
		return record{}, "", err
	}
	src := source{kind: kind, digest: one.Digest.String(), config: *c}
	src.layers, err = match(m, c, func(d v1.Descriptor) func(context.Context) (io.ReadCloser, error) {
		return opener(dir, blobName(d.Digest))
	})
	if err != nil {
		return record{}, "", err
	}
	return s.build(ctx, j, src)
}

func blobName(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// parseBlob reads the blob that d tells of, whole and as it should be.
func parseBlob[T any](root *os.Root, d v1.Descriptor, parse func(io.Reader) (*T, error)) (*T, error) {
	data, err := readAll(root, blobName(d.Digest))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); d.Digest.Algorithm != "sha256" || hex.EncodeToString(sum[:]) != d.Digest.Hex {
		return nil, fmt.Errorf("%w: digest of %s is sha256:%x", fs.ErrInvalid, blobName(d.Digest), sum)
	}
	v, err := parse(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", fs.ErrInvalid, blobName(d.Digest), err)
	}
	return v, nil
}
