package image

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"hutch/fs"
	"hutch/vmm/image/layer"
	"hutch/vmm/replica"
)

// load makes an image of the folder or file at path, by what it is.
func (s *Store) load(ctx context.Context, j *job, path string) (record, string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return record{}, "", fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	st, err := os.Stat(real)
	if err == nil && s.Admit != nil {
		err = s.Admit(real)
	}
	switch path = real; {
	case err != nil:
		return record{}, "", err
	case st.IsDir() && exists(filepath.Join(path, "oci-layout")):
		return s.loadLayout(ctx, j, path, "oci layout")
	case st.IsDir():
		return s.loadFolder(ctx, j, path)
	case !st.Mode().IsRegular():
		return record{}, "", fmt.Errorf("%w: %s is neither a folder nor a file", fs.ErrInvalid, path)
	}
	archive, err := isArchive(path)
	switch {
	case err != nil:
		return record{}, "", err
	case archive:
		return s.loadArchive(ctx, j, path)
	}
	open := func(context.Context) (io.ReadCloser, error) { return os.Open(path) }
	return s.build(ctx, j, source{kind: "tar", layers: []packed{{size: st.Size(), open: open}}})
}

// loadFolder makes an image of the files in dir.
func (s *Store) loadFolder(ctx context.Context, j *job, dir string) (record, string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return record{}, "", err
	}
	own, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return record{}, "", err
	}
	if rel, err := filepath.Rel(real, own); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return record{}, "", fmt.Errorf("%w: the images themselves are in %s", fs.ErrInvalid, dir)
	}
	open := func(ctx context.Context) (io.ReadCloser, error) {
		r, w := io.Pipe() // it is packed while it is unpacked
		s.tasks.Go(func() { w.CloseWithError(layer.Pack(ctx, real, w)) })
		return r, nil
	}
	return s.build(ctx, j, source{kind: "folder", layers: []packed{{open: open}}})
}

// inArchive are the names that archives of images hold, and no root file system.
var inArchive = regexp.MustCompile(`^(blobs(/.*)?|(sha256:)?[0-9a-f]{64}([./].*)?|oci-layout|repositories|(index|manifest)\.json)$`)

// inRoot are the names that root file systems have.
var inRoot = regexp.MustCompile(`^(bin|boot|dev|etc|home|lib(32|64|x32)?|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var|\.dockerenv)(/|$)`)

// maxLooked is how many names that tell nothing an archive may begin with.
const maxLooked = 4096

// isArchive says whether the file at path is an archive of layers, as docker
// save and others make them. Its first names tell or, behind names that tell nothing, as
// jib writes them, a manifest.json that lists images.
func isArchive(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	plain, err := decompress(f)
	if err != nil {
		return false, err
	}
	defer plain.Close()
	r := tar.NewReader(plain)
	found, others := false, 0
	for {
		h, err := r.Next()
		switch {
		case err == io.EOF && !found:
			return false, fmt.Errorf("%w: %s is no tar archive, or an empty one", fs.ErrInvalid, file)
		case err == io.EOF:
			return others == 0, nil
		case err != nil:
			return false, fmt.Errorf("%w: %s is no tar archive: %s", fs.ErrInvalid, file, strings.TrimPrefix(err.Error(), "archive/tar: "))
		}
		name := path.Clean(h.Name)
		if name == "." {
			continue
		}
		found = true
		switch {
		case name == "manifest.json" && others > 0:
			return isManifest(r), nil
		case name == "manifest.json" || name == "oci-layout":
			return true, nil
		case inArchive.MatchString(name):
			continue
		}
		if others++; others > maxLooked || inRoot.MatchString(name) {
			return false, nil
		}
	}
}

// isManifest says whether r has the list of images of a docker archive.
func isManifest(r io.Reader) bool {
	var list []struct {
		Config string
		Layers []string
	}
	err := json.NewDecoder(io.LimitReader(r, maxConfig)).Decode(&list)
	return err == nil && len(list) > 0 && list[0].Config != "" && len(list[0].Layers) > 0
}

// loadArchive makes an image of an archive of layers.
func (s *Store) loadArchive(ctx context.Context, j *job, path string) (record, string, error) {
	tmp, err := s.fresh()
	if err != nil {
		return record{}, "", err
	}
	defer replica.Remove(tmp)
	f := packed{open: func(context.Context) (io.ReadCloser, error) { return os.Open(path) }}
	if _, _, err := s.unpack(ctx, &job{}, f, tmp, layer.NewBudget(s.maxBytes, s.maxEntries)); err != nil {
		return record{}, "", err
	}
	dir := filepath.Join(tmp, "tree")
	if exists(filepath.Join(dir, "manifest.json")) {
		return s.loadSaved(ctx, j, dir)
	}
	return s.loadLayout(ctx, j, dir, "oci archive")
}

// readAll reads a small file below root, of which no link leads out.
func readAll(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("%w: %s is larger than %d bytes", fs.ErrInvalid, name, maxConfig)
	}
	return data, err
}

func readJSON(root *os.Root, name string, to any) error {
	data, err := readAll(root, name)
	if err == nil {
		if err = json.Unmarshal(data, to); err != nil {
			err = fmt.Errorf("%w: %s: %w", fs.ErrInvalid, name, err)
		}
	}
	return err
}

// opener opens the file called name below dir, when it is its turn.
func opener(dir, name string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		f, err := os.OpenInRoot(dir, name)
		if err != nil {
			return nil, err
		}
		if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
			f.Close()
			return nil, cmp.Or(err, fmt.Errorf("%w: %s is no file", fs.ErrInvalid, name))
		}
		return f, nil
	}
}
