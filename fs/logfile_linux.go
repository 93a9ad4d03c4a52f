package fs

import (
	"os"

	"golang.org/x/sys/unix"
)

// cutFront drops about the first n bytes of f, by whole blocks where the
// file system can: nothing that is written meanwhile is lost then.
func cutFront(f *os.File, n int64) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err == nil && st.Bsize > 0 {
		blocks := n / int64(st.Bsize) * int64(st.Bsize)
		if blocks > 0 && unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, blocks) == nil {
			return blocks, nil
		}
	}
	return rewrite(f, n)
}
