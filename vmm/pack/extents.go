package pack

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"hutch/fs"
	"hutch/fs/sparse"
)

// sparseRecord is the PAX record of a file with holes.
const sparseRecord = "HUTCH.sparse"

// An extent is a piece of a file that has data.
type extent struct{ off, len int64 }

// maxExtents bounds the pieces of one file, so that they fit a record.
const maxExtents = 16 << 10

// extents returns where the file f of so many bytes has data, nil if everywhere.
// Small holes are taken for data where there would be too many pieces.
func extents(f *os.File, size int64) ([]extent, error) {
	for gap := int64(0); ; gap = max(2*gap, 64<<10) {
		list := []extent{}
		data := sparse.Of(f, size)
		for begin, end := data.From(0); begin < end && len(list) <= maxExtents; begin, end = data.From(end) {
			if n := len(list); n > 0 && begin-(list[n-1].off+list[n-1].len) <= gap {
				list[n-1].len = end - list[n-1].off
			} else {
				list = append(list, extent{begin, end - begin})
			}
		}
		if len(list) == 1 && list[0] == (extent{0, size}) {
			list = nil
		}
		if len(list) <= maxExtents {
			_, err := f.Seek(0, io.SeekStart)
			return list, err
		}
	}
}

func formatExtents(size int64, list []extent) string {
	b := strconv.AppendInt(nil, size, 10)
	for _, e := range list {
		b = fmt.Appendf(b, ",%d:%d", e.off, e.len)
	}
	return string(b)
}

// parseExtents returns what a record says of a file that has so many bytes of data.
func parseExtents(text string, data int64) (size int64, list []extent, err error) {
	first, rest, more := strings.Cut(text, ",")
	if size, err = strconv.ParseInt(first, 10, 64); err != nil || size < 0 {
		return 0, nil, bad("length %q of a file with holes", fs.Shorten(first))
	}
	at, sum := int64(0), int64(0)
	for more {
		var piece string
		piece, rest, more = strings.Cut(rest, ",")
		from, length, _ := strings.Cut(piece, ":")
		off, err1 := strconv.ParseInt(from, 10, 64)
		n, err2 := strconv.ParseInt(length, 10, 64)
		if err1 != nil || err2 != nil || off < at || n <= 0 || off > size || n > size-off || len(list) == maxExtents {
			return 0, nil, bad("piece %q of a file with holes", fs.Shorten(piece))
		}
		list, at, sum = append(list, extent{off, n}), off+n, sum+n
	}
	if sum != data {
		return 0, nil, bad("a file with holes has %d bytes of data, and says %d", data, sum)
	}
	return size, list, nil
}
