package wire

import (
	"context"
	"maps"
)

// A Resolver returns what a value of a server's environment, headers or token stands
// for: the secret that it refers to, or the value itself. Its errors name the
// reference. A nil Resolver knows no references.
type Resolver func(ctx context.Context, value string) (string, error)

// Server returns the server with its headers and its token resolved.
func (r Resolver) Server(ctx context.Context, s Server) (Server, error) {
	headers, _, err := r.All(ctx, s.Headers)
	if err != nil || r == nil || s.BearerToken == "" {
		s.Headers = headers
		return s, err
	}
	s.Headers = headers
	s.BearerToken, err = r(ctx, s.BearerToken)
	return s, err
}

// All returns the values resolved, and whether any is another by that; the map that
// is given is not changed.
func (r Resolver) All(ctx context.Context, values map[string]string) (all map[string]string, changed bool, err error) {
	if r == nil {
		return values, false, nil
	}
	all = maps.Clone(values)
	for name, value := range values {
		if all[name], err = r(ctx, value); err != nil {
			return nil, false, err
		}
		changed = changed || all[name] != value
	}
	return all, changed, nil
}
