package guest

import (
	"context"
	"sort"
	"strings"

	"hutch/fs"
)

// What a directory may have that is listed.
const (
	maxEntries = 1 << 18
	maxListing = 64 << 20 // bytes, as the guest sends it
	maxTarget  = 4096
)

// A listing is a directory that is being read, by messages of one type.
type listing struct {
	n           *conn
	typ         uint8
	cut         func(*reply) entry
	seen        map[string]bool
	off         uint64 // of the next entry
	total, size int    // entries, and bytes, that came
	last        bool   // nothing more will come
}

// An entry is what was cut off a reply.
type entry struct {
	name string
	next uint64 // where the next one is
	keep func() // adds it to the list
}

// list returns a directory's entries. Those with names that are none are
// left out.
func (n *conn) list(ctx context.Context, path []string) ([]fs.Entry, error) {
	var list []fs.Entry
	l := &listing{n: n, typ: treaddir, seen: make(map[string]bool), cut: func(r *reply) entry {
		qid, next, kind, name := r.qid(), r.u64(), r.u8(), r.str()
		return entry{name, next, func() {
			list = append(list, fs.Entry{Name: name, Mode: typeOf(uint32(kind) << 12), Qid: fold(qid)})
		}}
	}}
	err := l.open(ctx, path)
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, err
}

// describe is list with all there is to know of each file, mostly by one
// message. An agent that was started before there was such a one has
// fs.ErrUnsupported.
func (n *conn) describe(ctx context.Context, path []string) ([]fs.Described, error) {
	var list []fs.Described
	l := &listing{n: n, typ: treadplus, seen: make(map[string]bool), cut: func(r *reply) entry {
		next, name, target := r.u64(), r.str(), r.str()
		of := fs.Described{Stat: r.stat(name)}
		if len(target) < maxTarget && !strings.Contains(target, "\x00") {
			of.Target = target
		}
		return entry{name, next, func() { list = append(list, of) }}
	}}
	var err error
	if len(path) <= maxWalk {
		err = l.part(ctx, rootFid, path)
	}
	if err == nil && !l.last {
		err = l.open(ctx, path)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, err
}

// open reads what has not come yet of the directory at path.
func (l *listing) open(ctx context.Context, path []string) error {
	fid, _, err := l.n.open(ctx, path, oRdonly|oDirectory)
	if err != nil {
		return err
	}
	defer l.n.clunk(fid)
	for !l.last {
		if err := l.part(ctx, fid, nil); err != nil {
			return err
		}
	}
	return nil
}

// part reads what one message brings: of an open fid, or, by Treaddirplus, of
// the directory that names lead to from it.
func (l *listing) part(ctx context.Context, fid uint32, names []string) error {
	r, err := l.n.call(ctx, l.typ, func(b []byte) []byte {
		b = put32(put64(put32(b, fid), l.off), l.n.msize-readLen)
		if l.typ != treadplus {
			return b
		}
		b = put16(b, uint16(len(names)))
		for _, name := range names {
			b = putString(b, name)
		}
		return b
	})
	if err != nil {
		return err
	}
	if count := r.u32(); int64(count) != int64(len(r.b)) {
		return l.n.liar("a directory of %d bytes in %d", count, len(r.b))
	}
	l.size += len(r.b)
	l.last = len(r.b) == 0
	for len(r.b) > 0 {
		e := l.cut(&r)
		if l.total++; r.bad || l.total > maxEntries || l.size > maxListing {
			return l.n.liar("a directory without an end")
		}
		if l.off = e.next; checkName(e.name) == nil && !l.seen[e.name] {
			l.seen[e.name] = true
			e.keep()
		}
	}
	l.last = l.last || l.typ == treadplus && l.off == 0
	return nil
}
