package client

import (
	"context"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// What a directory may have that is listed.
const (
	MaxEntries = 1 << 18
	maxListing = 64 << 20 // bytes, as the server sends it
	maxTarget  = 4096
)

// A listing is a directory that is being read, by messages of one type.
type listing struct {
	c           *Conn
	typ         uint8
	cut         func(*wire.Cutter) (of fs.Described, next uint64)
	list        []fs.Described
	seen        map[string]bool
	off         uint64 // of the next entry
	total, size int    // entries, and bytes, that came
	last        bool   // nothing more will come
}

// List returns the entries of the directory at path, sorted by name. Those
// with names that are none are left out.
func (c *Conn) List(ctx context.Context, path []string) ([]fs.Entry, error) {
	l := &listing{c: c, typ: wire.Treaddir, seen: make(map[string]bool), cut: func(r *wire.Cutter) (of fs.Described, next uint64) {
		of.Qid, next, of.Mode = r.Qid().Path, r.U64(), fs.FileMode(uint32(r.U8())<<12)
		of.Name = r.Str()
		return of, next
	}}
	err := l.open(ctx, path)
	entries := make([]fs.Entry, 0, len(l.list))
	for _, of := range l.sorted() {
		entries = append(entries, fs.Entry{Name: of.Name, Mode: of.Mode, Qid: of.Qid})
	}
	return entries, err
}

// Describe is List with all there is to know of each file, mostly by one
// message. Of a server that does not know that it is fs.ErrUnsupported.
func (c *Conn) Describe(ctx context.Context, path []string) ([]fs.Described, error) {
	l := &listing{c: c, typ: wire.Treaddirplus, seen: make(map[string]bool), cut: func(r *wire.Cutter) (of fs.Described, next uint64) {
		next, name, target := r.U64(), r.Str(), r.Str()
		_, of.Stat = r.Attr()
		of.Name = name
		if len(target) < maxTarget && !strings.Contains(target, "\x00") {
			of.Target = target
		}
		return of, next
	}}
	var err error
	if len(path) <= wire.MaxWalk {
		err = l.part(ctx, rootFid, path)
	}
	if err == nil && !l.last {
		err = l.open(ctx, path)
	}
	return l.sorted(), err
}

func (l *listing) sorted() []fs.Described {
	slices.SortFunc(l.list, func(a, b fs.Described) int { return strings.Compare(a.Name, b.Name) })
	return l.list
}

// open reads what has not come yet of the directory at path.
func (l *listing) open(ctx context.Context, path []string) error {
	f, err := l.c.open(ctx, Quick, path, wire.Rdonly|wire.Directory)
	if err != nil {
		return err
	}
	defer f.Clunk()
	for !l.last && err == nil {
		err = l.part(ctx, f.n, nil)
	}
	return err
}

// part reads what one message brings: of an open fid, or, by Treaddirplus, of
// the directory that names lead to from it.
func (l *listing) part(ctx context.Context, fid uint32, names []string) error {
	r, err := l.c.call(ctx, Quick, l.typ, func(b []byte) []byte {
		b = wire.Put32(wire.Put64(wire.Put32(b, fid), l.off), l.c.size()-wire.ReadLen)
		if l.typ == wire.Treaddirplus {
			b = wire.PutStrings(b, names)
		}
		return b
	})
	if err != nil {
		return err
	}
	if count := r.U32(); int64(count) != int64(len(r.B)) {
		return l.c.liar("a directory of %d bytes in %d", count, len(r.B))
	}
	l.size += len(r.B)
	l.last = len(r.B) == 0
	for len(r.B) > 0 {
		of, next := l.cut(&r)
		if l.total++; r.Bad || l.total > MaxEntries || l.size > maxListing {
			return l.c.liar("a directory without an end")
		}
		if l.off = next; fs.CheckName(of.Name) == nil && !l.seen[of.Name] {
			l.seen[of.Name] = true
			l.list = append(l.list, of)
		}
	}
	l.last = l.last || l.typ == wire.Treaddirplus && l.off == 0
	return nil
}
