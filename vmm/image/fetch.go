package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"hutch/fs"
)

// Fetch returns the name of the image that was pulled as ref. If there is none, it is
// pulled; when ctx ends, the pull goes on, and the next Fetch of ref waits for it. Of a
// pull that brings nothing, as where there is no such image, no image is left.
func (s *Store) Fetch(ctx context.Context, ref string) (string, error) {
	r, err := parseReference(ref)
	if err != nil {
		return "", err
	}
	name, j, made, err := s.fetchOf(r)
	if err == nil && j != nil {
		err = j.wait(ctx)
	}
	if err != nil && made {
		s.dropEmpty(name)
	}
	return name, err
}

// fetchOf returns the image of a reference, with the pull that fills it, if it has no
// files yet, and whether it was made for that.
func (s *Store) fetchOf(r name.Reference) (found string, j *job, made bool, err error) {
	s.fetchMu.Lock()
	defer s.fetchMu.Unlock()
	found, j, whole, err := s.pulled(r.Name())
	if err != nil || whole || j != nil {
		return found, j, false, err
	}
	if found == "" {
		found, made = s.free(r), true
		if err := s.Make(found); err != nil {
			return "", nil, false, err
		}
	}
	j, err = s.beginPull(found, r)
	return found, j, made, err
}

// dropEmpty removes an image whose pull has failed before it was known what is in it: there
// is nothing that the next pull could go on with.
func (s *Store) dropEmpty(name string) {
	s.fetchMu.Lock() // the next Fetch does not pull into it meanwhile
	defer s.fetchMu.Unlock()
	if r, err := load(s.path(name)); err == nil && r.State == failed && len(r.Layers) == 0 {
		s.Remove(name, func() error { return nil }) // if it is pulled again, it is busy
	}
}

// Find returns the image that was pulled as ref, is being pulled, or failed to be, and
// whether it has its files. Its name is "" if there is none.
func (s *Store) Find(ref string) (img Image, whole bool, err error) {
	r, err := parseReference(ref)
	if err != nil {
		return Image{}, false, err
	}
	name, _, whole, err := s.pulled(r.Name())
	if name == "" || err != nil {
		return Image{}, false, err
	}
	img, err = s.look(name)
	return img, whole, err
}

// pulled is Find for a source as records have it, with the pull if it is under way,
// and whether the image has its files: one that has goes before others.
func (s *Store) pulled(source string) (found string, j *job, whole bool, err error) {
	names, err := s.List()
	if err != nil {
		return "", nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if one := s.jobs[name]; name == Host || one != nil {
			if one != nil && one.source == source {
				found, j = name, one
			}
			continue
		}
		switch r, err := load(s.path(name)); {
		case err != nil || r.Source != source:
		case r.State == ready && r.Kind == "registry":
			return name, nil, true, nil
		case r.State == failed && found == "":
			found = name
		}
	}
	return found, j, false, nil
}

// free returns a name for the image of a reference that none has: debian-12 of
// docker.io/library/debian:12, or else one with a hash of the reference.
func (s *Store) free(r name.Reference) string {
	sum := sha256.Sum256([]byte(r.Name()))
	hash := hex.EncodeToString(sum[:4])
	tag := strings.TrimPrefix(r.Identifier(), "sha256:")
	if d, ok := r.(name.Digest); ok {
		tag = strings.TrimPrefix(d.DigestStr(), "sha256:")[:12]
	}
	name := path.Base(r.Context().RepositoryStr()) + "-" + tag
	if fs.CheckWord("image", name) != nil {
		return "image-" + hash
	}
	if s.Has(name) {
		name = name[:min(len(name), maxName-1-len(hash))] + "-" + hash
	}
	return name
}

// maxName is how long an image's name can be, in bytes.
const maxName = 64

// A Launch is what an image says of how it is run. User is as in a Dockerfile.
type Launch struct {
	Entrypoint, Cmd []string
	Env             []string // K=V
	User, Dir       string
}

// Launch returns what the image says of how it is run.
func (i Image) Launch() Launch {
	r := i.record
	return Launch{Entrypoint: r.Entrypoint, Cmd: r.Cmd, Env: r.Env, User: r.User, Dir: r.Workdir}
}

// Progress returns how far the pull or import of an image has come, on a line; "" of
// one that is not under way.
func (s *Store) Progress(name string) string {
	s.mu.Lock()
	j := s.jobs[name]
	s.mu.Unlock()
	switch {
	case j == nil:
		return ""
	case j.layers.Load() == 0:
		return "asked for"
	}
	return fmt.Sprintf("%d of %d layers, %d of %d bytes", j.layersDone.Load(), j.layers.Load(), j.bytesDone.Load(), j.bytes.Load())
}
