package replica

import (
	"context"
	"path/filepath"
)

// A Set is replicas of several folders, by name, that are made together.
type Set map[string]*Replica

// NewSet returns replicas, to be made in the folder to, of the folders called
// names in the folder from.
func NewSet(from, to string, names ...string) Set {
	s := make(Set)
	for _, name := range names {
		s[name] = New(filepath.Join(from, name), filepath.Join(to, name))
	}
	return s
}

// Ahead is Replica.Ahead of each.
func (s Set) Ahead(ctx context.Context) error {
	for _, r := range s {
		if err := r.Ahead(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Still copies what has changed since Ahead, of folders that may be in use, and
// says whether that was nothing. Then each replica is complete, and what its
// folder was at one moment, although nobody was stopped; not all at the same.
func (s Set) Still(ctx context.Context) (sum Cost, still bool, err error) {
	still = true
	for _, r := range s {
		same, err := r.still(ctx, &sum)
		if err != nil {
			return sum, false, err
		}
		still = still && same
	}
	return sum, still, nil
}

// Copy is Replica.Copy of each, and returns the cost of all.
func (s Set) Copy(ctx context.Context) (Cost, error) {
	var sum Cost
	for _, r := range s {
		if _, err := r.pass(ctx, true, &sum); err != nil {
			return sum, err
		}
	}
	return sum, nil
}
