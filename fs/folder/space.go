package folder

import (
	"context"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// Space returns the room where the folder is.
func (n *file) Space(context.Context) (fs.Space, error) {
	d, err := n.f.root.Open(".")
	if err != nil {
		return fs.Space{}, err
	}
	defer d.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(d.Fd()), &st); err != nil {
		return fs.Space{}, err
	}
	return fs.Space{
		Block: uint32(st.Bsize), Blocks: st.Blocks, Free: st.Bfree, Avail: st.Bavail, Files: st.Files, FilesFree: st.Ffree,
	}, nil
}
