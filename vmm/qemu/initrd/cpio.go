package initrd

import (
	"bytes"
	"fmt"
)

// An entry is a file of an archive.
type entry struct {
	name string // without the leading slash
	mode uint32 // with the type, as stat(2) has it
	data []byte
	dev  [2]uint32 // of a device: major, minor
}

// Types of files, as stat(2) has them.
const (
	folder    = 0o040000
	regular   = 0o100000
	character = 0o020000
)

// archive returns a cpio archive of the kind that Linux unpacks ("newc"):
// all numbers in hexadecimal, names and contents padded to four bytes.
// Nothing in it depends on the time.
func archive(entries []entry) []byte {
	var b bytes.Buffer
	for i, e := range append(entries, entry{name: "TRAILER!!!"}) {
		fmt.Fprintf(&b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
			i+1, e.mode, 0, 0, 1, 0, len(e.data), 0, 0, e.dev[0], e.dev[1], len(e.name)+1, 0, e.name)
		pad(&b)
		b.Write(e.data)
		pad(&b)
	}
	return b.Bytes()
}

func pad(b *bytes.Buffer) { b.Write(make([]byte, -b.Len()&3)) }
