package fs

import "context"

// A Described is a file as its directory tells of it, with the text of a link.
type Described struct {
	Stat
	Target string
}

// A Describer is a directory Node that tells at once what all its files are
// like, where asking for each is dear.
type Describer interface {
	// Describe returns the directory's files, sorted by name.
	Describe(ctx context.Context) ([]Described, error)
}

// Describe returns ErrUnsupported for a directory that is no Describer.
func Describe(ctx context.Context, n Node) ([]Described, error) {
	if d, ok := n.(Describer); ok {
		return d.Describe(ctx)
	}
	return nil, ErrUnsupported
}
