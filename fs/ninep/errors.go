package ninep

import (
	"strings"

	"hutch/fs"
	"hutch/fs/ninep/errno"
	"hutch/fs/ninep/wire"
)

// maxRerror is the longest text of an error that Plan 9 takes: ERRMAX-1.
const maxRerror = 127

// putError appends the error reply for err to b, and returns its type. The
// dialect of a connection without one yet is taken to be 9P2000.
func (d dialect) putError(b []byte, err error) (uint8, []byte) {
	if d == linux {
		return wire.Rlerror, wire.Put32(b, errno.Linux(fs.Errno(err)))
	}
	text := fs.Text(err)
	if len(text) > maxRerror {
		text = strings.ToValidUTF8(text[:maxRerror], "")
	}
	return wire.Rerror, wire.PutString(b, text)
}
