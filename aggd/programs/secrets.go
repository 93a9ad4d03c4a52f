package programs

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"sync"

	"hutch/aggd/wire"
	"hutch/fs"
)

// A digest is of an environment with secrets; zero: there are none in it.
type digest [sha256.Size]byte

// resolve returns the environment of a program with the secrets that it refers to.
func (d definition) resolve(ctx context.Context, r wire.Resolver) (map[string]string, digest, error) {
	env, changed, err := r.All(ctx, d.Env)
	if err != nil || !changed {
		return env, digest{}, err
	}
	text, err := json.Marshal(env)
	return env, sha256.Sum256(text), err
}

// Rotate looks whether the secrets of programs are others since they were started,
// or are gone. Define gives those another key from then on, which ends what runs by
// the old one. A secret that cannot be had just now is taken for what it was.
func (h *Host) Rotate(ctx context.Context) {
	h.mu.Lock()
	given, defined := maps.Clone(h.given), h.defined
	h.mu.Unlock()
	var all sync.WaitGroup
	for key, was := range given {
		all.Go(func() {
			_, is, err := defined[key].resolve(ctx, h.Resolve)
			if err == nil && is != was || fs.Is(err, fs.ErrNotExist) {
				h.forget(key)
			}
		})
	}
	all.Wait()
}

// forget has the next definition of a key's program get another.
func (h *Host) forget(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.keys, func(_, k string) bool { return k == key })
}
