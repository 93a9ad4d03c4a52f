package registry

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hutch/fs"
)

// In the store's folder is a file sources, a line as of ctl for each source but the
// built-in one, and a file for what each of them said, by a hash of that line.

func (s *Store) originsPath() string { return filepath.Join(s.dir, "sources") }

func readOrigins(path string) ([]Origin, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Origin
	for line := range strings.Lines(string(text)) {
		words, err := fs.Words(strings.TrimSuffix(line, "\n"))
		if err != nil || len(words) != 2 {
			return nil, fmt.Errorf("%w: %s: no source: %.60q", fs.ErrInvalid, path, line)
		}
		o := Origin{words[0], words[1]}
		if err := o.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, o)
	}
	return list, nil
}

func writeOrigins(path string, list []Origin) error {
	var b strings.Builder
	for _, o := range list {
		fmt.Fprintln(&b, o)
	}
	return fs.WriteFile(path, []byte(b.String()), true)
}

const keptSuffix = ".json"

func (s *Store) keptPath(o Origin) string {
	sum := sha256.Sum256([]byte(o.String()))
	return filepath.Join(s.dir, fmt.Sprintf("%x%s", sum[:8], keptSuffix))
}

// load takes from the disk what a source said last, once. What is not to be
// had is read from the source again. Its caller holds s.mu.
func (s *Store) load(src *source) {
	if src.loaded {
		return
	}
	src.loaded = true
	k := &kept{}
	if err := fs.ReadJSON(s.keptPath(src.Origin), k); err != nil || k.Source != src.String() {
		return
	}
	src.kept, s.index = k, nil
}

// keep puts on the disk what a source said. Where that cannot be, a later process
// has to read the source.
func (s *Store) keep(o Origin, k *kept) { fs.WriteJSON(s.keptPath(o), k, false) }

// prune removes what sources said that are set no more. Its caller holds s.mu.
func (s *Store) prune() {
	files, _ := os.ReadDir(s.dir)
	known := map[string]bool{}
	for _, src := range s.sources {
		known[s.keptPath(src.Origin)] = true
	}
	for _, f := range files {
		if path := filepath.Join(s.dir, f.Name()); filepath.Ext(path) == keptSuffix && !known[path] {
			os.Remove(path)
		}
	}
}
