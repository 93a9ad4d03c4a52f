package gateway

import (
	"context"
	"strings"

	"hutch/profiles"
)

// Resolve returns what a value of a server's definition stands for: the secret that
// it refers to, which nothing that is recorded or shown has from then on, or the
// value itself. Its error names the reference.
func (g *Gateway) Resolve(ctx context.Context, value string) (string, error) {
	is, err := g.service.Secrets.Resolve(ctx, value)
	if err != nil {
		g.red.Spare(value)
		return "", err
	}
	if is != value {
		g.Hide(profiles.Parts(is)...)
		if _, credentials, ok := strings.Cut(is, " "); ok { // of a header, behind its scheme
			g.Hide(credentials)
		}
	}
	return is, nil
}
