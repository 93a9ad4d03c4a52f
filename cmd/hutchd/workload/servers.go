package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/profiles"
)

// serverDir is the folder of a server.
func (w *Workloads) serverDir(name string) string { return filepath.Join(w.dir, name) }

// maxServers is how many servers there can be.
const maxServers = 1024

// load makes the servers whose folders are there.
func (w *Workloads) load() error {
	names, err := kept(w.dir)
	for _, name := range names {
		s := w.newServer(name)
		if text, err := os.ReadFile(filepath.Join(s.dir, configFile)); err == nil {
			s.read(string(text))
		}
		w.servers[name] = s
	}
	return err
}

// kept returns the names of the folders in dir, which is made if it is not there. What
// was being removed or written goes.
func kept(dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			os.RemoveAll(filepath.Join(dir, e.Name()))
			continue
		}
		fs.Sweep(filepath.Join(dir, e.Name()))
		names = append(names, e.Name())
	}
	return names, err
}

// leaving is where the folder of a server or group is until it is removed.
func leaving(g *gateway.Gateway) string {
	return filepath.Join(filepath.Dir(g.Folder()), fmt.Sprintf(".gone-%s-%d", g.Of(), g.ID))
}

// MakeServer makes a server called name, of which nothing is said yet.
func (w *Workloads) MakeServer(name string) (*Server, error) {
	if err := profiles.CheckServerName(name); err != nil {
		return nil, fmt.Errorf("%w: server name %q %w", fs.ErrInvalid, name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, errEnding
	case w.servers[name] != nil:
		return nil, fmt.Errorf("%w: server %s", fs.ErrExist, name)
	case len(w.servers) >= maxServers:
		return nil, fmt.Errorf("%w: there are %d servers, and cannot be more", fs.ErrNoSpace, maxServers)
	}
	dir := w.serverDir(name)
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "log"), 0o700), os.WriteFile(filepath.Join(dir, madeFile), nil, 0o600))
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s := w.newServer(name)
	w.servers[name] = s
	return s, nil
}

// Server returns the server called name.
func (w *Workloads) Server(name string) (*Server, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.servers[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w: server %s", fs.ErrNotExist, name)
}

// Servers returns the servers, sorted by name.
func (w *Workloads) Servers() []*Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return byName(w.servers)
}

// byName returns what has names, sorted by them.
func byName[T any](named map[string]T) (list []T) {
	for _, name := range slices.Sorted(maps.Keys(named)) {
		list = append(list, named[name])
	}
	return list
}

// RemoveServer stops a server, and removes it with its sandbox and its records.
func (w *Workloads) RemoveServer(ctx context.Context, name string) error {
	s, err := w.Server(name)
	if err != nil {
		return err
	}
	if err := s.Stop(ctx); err != nil {
		return err
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	if err := w.use(ctx, ofServer(name), w.drop); err != nil {
		s.give()
		return err
	}
	s.Gateway.Close() // ends those who wait for their turn
	gone, err := leaving(s.Gateway), s.saveTokens("")
	w.mu.Lock()
	err = errors.Join(err, os.Rename(s.dir, gone))
	delete(w.servers, name)
	w.mu.Unlock()
	w.regroup(s.group())
	return errors.Join(err, os.RemoveAll(gone))
}
