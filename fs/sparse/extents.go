// Package sparse finds the data of sparse files, which have holes between it.
package sparse

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Extents are where a file has data. All else of it are holes, which read as
// zeros, cost no disk, and can be far longer than anybody would want to read.
type Extents struct {
	f          *os.File
	size       int64
	begin, end int64 // of the one that was found last
}

// Of returns the extents of a file up to size, which is not negative. They
// move where f.Read reads.
func Of(f *os.File, size int64) *Extents { return &Extents{f: f, size: size} }

// From returns where the first data at or after at begin, and where they end;
// at size both if there are no more. Where the system tells of no holes all
// is data. It asks once for each extent, however often it is called in one: the system
// may have to look at all of it for the answer.
func (x *Extents) From(at int64) (begin, end int64) {
	if at >= x.end {
		x.seek(at)
	}
	return max(at, x.begin), x.end
}

func (x *Extents) seek(at int64) {
	begin, err := x.f.Seek(at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) { // no more data
		x.begin, x.end = x.size, x.size
		return
	}
	end := x.size
	if err == nil {
		end, err = x.f.Seek(begin, unix.SEEK_HOLE)
	}
	if err != nil { // the file system knows no holes
		begin, end = at, x.size
	}
	x.begin = min(begin, x.size)
	x.end = min(max(end, x.begin+1), x.size) // so that it ends, whatever becomes of the file meanwhile
}
