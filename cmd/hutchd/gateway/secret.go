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
		parts := profiles.Parts(is)
		if _, credentials, ok := strings.Cut(is, " "); ok { // of a header, behind its scheme
			parts = append(parts, credentials)
		}
		g.Hide(parts...)
		g.credentials.Add(parts...)
	}
	return is, nil
}

// HideOthers has what another gateway gives a program never be recorded, and what of it
// is that one's credentials not be shown to the client either.
func (g *Gateway) HideOthers(of *Gateway, values []string) {
	g.Hide(values...)
	for _, v := range values {
		if of.credentials.Known(v) != v {
			g.credentials.Add(v)
		}
	}
}

// hideEchoes takes the secrets that the profile wants hidden out of what a server says.
func (g *Gateway) hideEchoes(value []byte) (left []byte, ok bool) {
	switch g.profile.Load().Hide {
	case profiles.HideNothing:
		return value, true
	case profiles.HideKnown:
		return g.red.JSON(value)
	}
	return g.credentials.JSON(value)
}
