package pins

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"hutch/aggd/rawjson"
	"hutch/fs"
)

// A Digest stands for a definition.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// unread are the members of a tool that no model reads and no call needs, and its
// name, by which it is known.
var unread = []string{"name", "icons", "_meta"}

// A definition is what a server says of a tool, as it is spelled wherever it is
// the same.
type definition []byte

// define returns the definition that raw has. Where readers do not agree on what
// it says, as of a member that stands there twice, each spelling is another.
func define(raw []byte) definition {
	if rawjson.Check(raw) == nil && rawjson.Unique(raw) == nil && !rawjson.HalfPair(raw) {
		if d, err := rawjson.Canonical(rawjson.Delete(raw, unread...)); err == nil {
			return d
		}
	}
	sum := sha256.Sum256(raw) // as no JSON text has bytes that are not UTF-8
	return fmt.Appendf(nil, `{"ambiguous":%s,"sha256":"%x"}`, rawjson.Quote(string(raw)), sum)
}

func (d definition) digest() Digest { return sha256.Sum256(d) }

// DigestOf returns the digest of what a server says of a tool.
func DigestOf(raw []byte) Digest { return define(raw).digest() }

// differ returns the members in which two definitions differ, in order, as people
// can read them.
func differ(was, is definition) (names []string) {
	note := func(d definition, other map[string][]byte) {
		rawjson.Walk(d, func(key []byte, start, end int) {
			if len(names) == maxDiffer || bytes.Equal(d[start:end], other[string(key)]) {
				return
			}
			if name := fs.QuoteLine(fs.Shorten(string(key))); !slices.Contains(names, name) {
				names = append(names, name)
			}
		})
	}
	note(was, is.members())
	note(is, was.members())
	slices.Sort(names)
	return names
}

// members returns the members of a definition by their names.
func (d definition) members() map[string][]byte {
	all := make(map[string][]byte)
	rawjson.Walk(d, func(key []byte, start, end int) { all[string(key)] = d[start:end] })
	return all
}

// maxDiffer is how many members differ tells of.
const maxDiffer = 8
