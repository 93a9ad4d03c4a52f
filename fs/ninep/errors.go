package ninep

import (
	"unicode/utf8"

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
	return wire.Rerror, wire.PutString(b, cut(fs.Text(err), maxRerror))
}

// cut returns at most n bytes of s and no part of a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
