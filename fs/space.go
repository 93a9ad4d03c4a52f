package fs

import "context"

// A Space is the room on the file system that a file is on, as statfs(2) has
// it: in blocks of Block bytes, and in files.
type Space struct {
	Block            uint32
	Blocks, Free     uint64
	Avail            uint64 // what of Free is for everybody
	Files, FilesFree uint64
}

// A Spacer is a Node of a file that is stored somewhere. Made-up files take
// no room.
type Spacer interface {
	Space(ctx context.Context) (Space, error)
}

// blockSize is that of a file system without room.
const blockSize = 4096

// SpaceOf returns the room where n is stored; none if it is nowhere.
func SpaceOf(ctx context.Context, n Node) (Space, error) {
	if s, ok := n.(Spacer); ok {
		return s.Space(ctx)
	}
	return Space{Block: blockSize}, nil
}

// Space is that of what lies under the row.
func (n *rowNode[T]) Space(ctx context.Context) (Space, error) {
	u, err := n.under(ctx)
	if err != nil || u == nil {
		return Space{Block: blockSize}, nil
	}
	return SpaceOf(ctx, u)
}
