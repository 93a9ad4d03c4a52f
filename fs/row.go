package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// A Row declares one file of a tree: its name, permission and behaviour.
// Behaviours reach everything through the Call, so that a table of rows is
// plain data. T is what a walk finds on its way: the objects whose files
// the rows are.
//
// A row is a directory if it has Rows, Names or Enter; a Mount hands the
// name over to another tree; anything else is a file.
type Row[T any] struct {
	Name string      // fixed, or what the manual calls the names: NAME, N
	Perm fs.FileMode // permission bits
	Doc  string      // one line for the README

	// Allow says why who asks may not have the file, nor what is below it; nil:
	// anyone may whom Perm lets. Clients see its name all the same.
	Allow func(Call[T]) error

	Read  func(Call[T]) (string, error)      // a file's whole text, made once at each open
	Write func(Call[T], string) error        // called for each message, without the newline that ends it
	Verbs []Verb[T]                          // Write, by a table of verbs
	Long  int                                // of Write: the longest message, given up with its writer; 0: as for Verbs
	Store func(Call[T], string) error        // takes a stored file's new text; Read gives it back
	Check func(Call[T]) error                // why the text that was stored does not count, for fsync to tell
	Ready func(Call[T]) error                // why Store would refuse any text now; nil: it would not
	Open  func(Call[T], int) (Handle, error) // anything else: streams, clone
	Size  func(Call[T]) uint64               // true length, for logs

	Rows  []Row[T]                         // fixed entries of a directory
	Names func(Call[T]) ([]string, error)  // names of generated entries …
	Enter func(Call[T], string) (T, error) // … what each name leads to …
	Each  []Row[T]                         // … and the entry it is: one row
	Make  func(Call[T], string) error      // mkdir of a generated entry
	New   func(Call[T], string) (T, error) // what a name leads to that is not there: writing the file makes it
	Drop  func(Call[T], string) error      // rmdir of a generated entry
	Mount func(Call[T]) (Node, error)      // the root of another tree
	Under func(Call[T]) (Node, error)      // a directory whose entries stand beside Rows; nil: none now
	Links *Links                           // what the links of another machine below this mean here

	num uint64 // place in the table
}

// A Call is one use of a row.
type Call[T any] struct {
	Ctx  context.Context
	At   T      // what the walk found
	Name string // of the file, as walked
	Who  Principal
}

// A Tree is a table of rows with the object at its root.
type Tree[T any] struct {
	rows []Row[T]
	top  T
	opt  Options[T]
	born time.Time

	mu    sync.Mutex          // guards edits
	edits map[uint64]*editing // of stored files, by qid

	scratches scratches
}

// Options are what a tree asks of its owner.
type Options[T any] struct {
	// Ident returns the number of the object that at leads to, below 1<<36
	// and never reused; 0 for the root.
	Ident func(at T) uint64
	// Failed is told every error that a client gets from a row of at.
	Failed func(at T, err error)
	// Hold is told that a file of at is open until the function it returns
	// is called; nil results are fine.
	Hold func(at T) func()
}

const rowBits = 12 // a qid is ident<<rowBits | row number

// New returns a tree of rows over top. It numbers the rows in place.
func New[T any](rows []Row[T], top T, opt Options[T]) *Tree[T] {
	n := uint64(1)
	number(rows, &n)
	return &Tree[T]{rows: rows, top: top, opt: opt, born: time.Now(), edits: map[uint64]*editing{},
		scratches: scratches{dirs: map[scratchDir]map[string]*scratch{}}}
}

func number[T any](rows []Row[T], n *uint64) {
	for i := range rows {
		*n++
		rows[i].num = *n
		number(rows[i].Rows, n)
		number(rows[i].Each, n)
	}
}

// Root returns the tree's root directory, as this process's user sees it.
func (t *Tree[T]) Root() Node {
	self := Principal{UID: uint32(os.Geteuid())}
	return &rowNode[T]{t: t, row: &Row[T]{Perm: 0o555, Rows: t.rows, num: 1}, name: "/", at: t.top, who: self}
}

// IsDir says whether the row is a directory.
func (r *Row[T]) IsDir() bool {
	return r.Rows != nil || r.Names != nil || r.Enter != nil || r.Under != nil || r.Mount != nil
}

// Rows returns the table.
func (t *Tree[T]) Rows() []Row[T] { return t.rows }

func (r *Row[T]) mode() fs.FileMode {
	if r.IsDir() {
		return fs.ModeDir | r.Perm
	}
	return r.Perm
}

// rowNode is a row as found by a walk.
type rowNode[T any] struct {
	Refuse
	t    *Tree[T]
	row  *Row[T]
	name string
	at   T
	who  Principal

	stays bool // see Stat
}

func (n *rowNode[T]) call(ctx context.Context) Call[T] {
	return Call[T]{Ctx: ctx, At: n.at, Name: n.name, Who: n.who}
}

// For returns the node as who sees it.
func (n *rowNode[T]) For(who Principal) Node {
	if n.who == who {
		return n
	}
	c := *n
	c.who = who
	return &c
}

func (n *rowNode[T]) fail(err error) error {
	if err != nil && n.t.opt.Failed != nil {
		n.t.opt.Failed(n.at, err)
	}
	return err
}

// Links returns what the row says of the links below it.
func (n *rowNode[T]) Links() *Links { return n.row.Links }

func (n *rowNode[T]) qid() uint64 { return n.t.opt.Ident(n.at)<<rowBits | n.row.num }

func (n *rowNode[T]) Stat(ctx context.Context) (Stat, error) {
	st := Stat{
		Name: n.name, Mode: n.row.mode(), Qid: n.qid(), Nlink: 1, Stays: n.stays,
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Mtime: n.t.born,
	}
	switch {
	case n.row.Size != nil:
		st.Size = n.row.Size(n.call(ctx))
	case n.row.Store != nil:
		text, _ := n.stored(ctx)
		st.Size = uint64(len(text))
	}
	st.Atime, st.Ctime = st.Mtime, st.Mtime
	return st, nil
}

func (n *rowNode[T]) Walk(ctx context.Context, name string) (Node, error) {
	if !n.row.IsDir() {
		return nil, ErrNotDir
	}
	if r := n.fixed(name); r != nil {
		return n.step(ctx, r, name, n.at, true)
	}
	if f := n.scratch(name); f != nil {
		return &scratchNode{f: f, name: name}, nil
	}
	if n.row.Under != nil {
		return n.walkUnder(ctx, name)
	}
	if n.row.Enter == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotExist, name)
	}
	at, err := n.row.Enter(n.call(ctx), name)
	if err != nil {
		return nil, err
	}
	return n.step(ctx, &n.row.Each[0], name, at, false)
}

func (n *rowNode[T]) step(ctx context.Context, r *Row[T], name string, at T, stays bool) (Node, error) {
	// Clients do not ask again for a name that stays, not even for another user,
	// whom Allow might refuse.
	c := &rowNode[T]{t: n.t, row: r, name: name, at: at, who: n.who, stays: stays && r.IsDir() && r.Allow == nil}
	if r.Allow != nil {
		if err := r.Allow(c.call(ctx)); err != nil {
			return nil, c.fail(refused(err))
		}
	}
	if r.Mount == nil {
		return c, nil
	}
	m, err := r.Mount(c.call(ctx))
	return For(m, n.who), c.fail(err)
}

// refused makes what Allow returned an error of the kind ErrPermission.
func refused(err error) error {
	if errors.Is(err, ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrPermission, err)
}

func (n *rowNode[T]) List(ctx context.Context) ([]Entry, error) {
	if !n.row.IsDir() {
		return nil, ErrNotDir
	}
	var list []Entry
	for i := range n.row.Rows {
		r := &n.row.Rows[i]
		c := rowNode[T]{t: n.t, row: r, at: n.at}
		list = append(list, Entry{Name: r.Name, Mode: r.mode(), Qid: c.qid()})
	}
	if n.row.Names != nil {
		names, err := n.row.Names(n.call(ctx))
		if err != nil {
			return nil, n.fail(err)
		}
		for _, name := range names {
			if at, err := n.row.Enter(n.call(ctx), name); err == nil {
				c := rowNode[T]{t: n.t, row: &n.row.Each[0], at: at}
				list = append(list, Entry{Name: name, Mode: c.row.mode(), Qid: c.qid()})
			}
		}
	}
	if u, err := n.under(ctx); u != nil {
		more, err := u.List(ctx)
		if err != nil {
			return nil, n.fail(err)
		}
		list = append(list, more...)
	} else if err != nil {
		return nil, n.fail(err)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

func (n *rowNode[T]) Mkdir(ctx context.Context, name string, perm fs.FileMode) (Node, error) {
	if u, err := n.under(ctx); u != nil && err == nil && n.fixed(name) == nil {
		made, err := u.Mkdir(ctx, name, perm)
		return made, n.fail(err)
	}
	if n.row.Make == nil {
		return nil, n.fail(fmt.Errorf("%w: no directory can be made in %s", ErrNotPermitted, n.name))
	}
	switch there, err := n.Walk(ctx, name); {
	case err == nil && !IsScratch(there):
		return nil, n.fail(fmt.Errorf("%w: %s", ErrExist, name))
	case errors.Is(err, ErrPermission):
		return nil, err
	}
	if err := n.row.Make(n.call(ctx), name); err != nil {
		return nil, n.fail(err)
	}
	n.t.scratches.drop(n.scratchDir(), name) // a tool's temporary file makes way
	return n.Walk(ctx, name)
}

func (n *rowNode[T]) Remove(ctx context.Context, name string, dir bool) error {
	child, err := n.Walk(ctx, name)
	if err != nil {
		return err
	}
	st, err := child.Stat(ctx)
	switch {
	case err != nil:
		return err
	case dir && !st.Mode.IsDir():
		return n.fail(fmt.Errorf("%w: %s", ErrNotDir, name))
	case !dir && st.Mode.IsDir():
		return n.fail(fmt.Errorf("%w: %s", ErrIsDir, name))
	}
	if IsScratch(child) {
		n.t.scratches.drop(n.scratchDir(), name)
		return nil
	}
	if u, err := n.under(ctx); u != nil && err == nil && n.fixed(name) == nil {
		return n.fail(u.Remove(ctx, name, dir))
	}
	if n.row.Drop == nil || n.fixed(name) != nil {
		return n.fail(fmt.Errorf("%w: %s cannot be removed", ErrNotPermitted, name))
	}
	err = n.row.Drop(n.call(ctx), name)
	if c, ok := child.(*rowNode[T]); ok {
		return c.fail(err) // the object has its own err file
	}
	return n.fail(err)
}

// fixed returns the directory's fixed entry of that name, or nil.
func (n *rowNode[T]) fixed(name string) *Row[T] {
	for i := range n.row.Rows {
		if r := &n.row.Rows[i]; r.Name == name {
			return r
		}
	}
	return nil
}

// Create opens what is there: shells create with every ">".
func (n *rowNode[T]) Create(ctx context.Context, name string, flags int, perm fs.FileMode) (Node, Handle, error) {
	if u, err := n.under(ctx); u != nil && err == nil && n.fixed(name) == nil {
		made, h, err := u.Create(ctx, name, flags, perm)
		return made, h, n.fail(err)
	}
	c, err := n.Walk(ctx, name)
	if errors.Is(err, ErrPermission) {
		return nil, nil, err
	}
	if err != nil && n.scratchable(name) {
		return n.createScratch(ctx, name, flags)
	}
	if errors.Is(err, ErrNotExist) && n.row.New != nil {
		return n.createNew(ctx, name, flags)
	}
	if err != nil {
		return nil, nil, n.fail(fmt.Errorf("%w: no file can be made in %s", ErrNotPermitted, n.name))
	}
	if flags&os.O_EXCL != 0 {
		return nil, nil, n.fail(fmt.Errorf("%w: %s", ErrExist, name))
	}
	h, err := c.Open(ctx, flags)
	return c, h, err
}

// createNew opens a generated entry that is not there yet.
func (n *rowNode[T]) createNew(ctx context.Context, name string, flags int) (Node, Handle, error) {
	at, err := n.row.New(n.call(ctx), name)
	if err != nil {
		return nil, nil, n.fail(err)
	}
	c, err := n.step(ctx, &n.row.Each[0], name, at, false)
	if err != nil {
		return nil, nil, err
	}
	h, err := c.Open(ctx, flags)
	return c, h, err
}

func (n *rowNode[T]) Open(ctx context.Context, flags int) (Handle, error) {
	h, err := n.open(ctx, flags)
	if err != nil {
		return nil, n.fail(err)
	}
	o := &opened{Handle: h, fail: n.fail}
	if n.t.opt.Hold != nil {
		o.release = n.t.opt.Hold(n.at)
	}
	return o, nil
}

func (n *rowNode[T]) open(ctx context.Context, flags int) (Handle, error) {
	acc := flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
	switch r := n.row; {
	case r.IsDir():
		return nil, ErrIsDir
	case acc != os.O_WRONLY && r.Perm&0o444 == 0:
		return nil, fmt.Errorf("%w: %s is not readable", ErrPermission, n.name)
	case acc != os.O_RDONLY && r.Perm&0o222 == 0:
		return nil, fmt.Errorf("%w: %s is not writable", ErrPermission, n.name)
	case r.Open != nil:
		return r.Open(n.call(ctx), flags)
	case r.Store != nil:
		return n.edit(ctx, flags)
	}
	h := &textHandle{}
	if acc != os.O_WRONLY && n.row.Read != nil {
		text, err := n.row.Read(n.call(ctx))
		if err != nil {
			return nil, err
		}
		h.text = text
	}
	switch {
	case acc == os.O_RDONLY:
	case n.row.Long > 0:
		h.message = NewLongWriter(n.write, n.row.Long)
	default:
		h.message = NewWriter(n.row.Verbs, n.write)
	}
	return h, nil
}

// write passes one message to the row.
func (n *rowNode[T]) write(ctx context.Context, m string) error {
	if n.row.Verbs == nil {
		return n.row.Write(n.call(ctx), m)
	}
	err := Run(n.row.Verbs, n.call(ctx), m)
	if errors.As(err, new(unknown)) && n.says(ctx, m) {
		return nil
	}
	return err
}

// says says whether m is a line of what the file reads: programs that edit a file
// write all of it again.
func (n *rowNode[T]) says(ctx context.Context, m string) bool {
	if n.row.Read == nil {
		return false
	}
	text, err := n.row.Read(n.call(ctx))
	return err == nil && slices.Contains(strings.Split(text, "\n"), m)
}
