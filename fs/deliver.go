package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// scratchNames are the names of scratch files.
var scratchNames = sync.OnceValue(func() (n struct {
	anywhere *regexp.Regexp // they mean nothing else
	noNew    *regexp.Regexp // nor do these where no name is made by writing its file
	behind   *regexp.Regexp // what follows the name of a file that is there
}) {
	n.anywhere = regexp.MustCompile(`^[.#]|^tmp[a-z0-9_]{8}$|\.tmp(\.|$)|\.\d{6,}$|~$|___jb_`)
	n.noNew = regexp.MustCompile(`^tmp|^sed\w{6}$|^\d{4}$|[._-]te?mp\b`)
	n.behind = regexp.MustCompile(`^(\W|\d{6,}$)`)
	return n
})

// deliveryTime is how long a rename waits for a stream to take what is written:
// the kernel keeps others out of the directory meanwhile.
const deliveryTime = time.Minute

// scratchDir is the directory as the user who asks has it.
func (n *rowNode[T]) scratchDir() scratchDir { return scratchDir{n.qid(), n.who} }

// scratch returns the scratch file called name, or nil.
func (n *rowNode[T]) scratch(name string) *scratch {
	if n.t.scratches.none() {
		return nil
	}
	return n.t.scratches.find(n.scratchDir(), name)
}

// scratchable says whether a file called name can be a scratch file. Other names are slips,
// as of ctl, and are refused.
func (n *rowNode[T]) scratchable(name string) bool {
	names := scratchNames()
	switch {
	case n.row.Under != nil: // which has all files
		return false
	case names.anywhere.MatchString(name), n.row.New == nil && names.noNew.MatchString(name):
		return true
	}
	for i := range n.row.Rows {
		if rest, ok := strings.CutPrefix(name, n.row.Rows[i].Name); ok && names.behind.MatchString(rest) {
			return true
		}
	}
	return false
}

func (n *rowNode[T]) createScratch(ctx context.Context, name string, flags int) (Node, Handle, error) {
	f, err := n.t.scratches.make(n.scratchDir(), name, "")
	if err != nil {
		return nil, nil, n.fail(err)
	}
	node := &scratchNode{f: f, name: name}
	h, err := node.Open(ctx, flags)
	return node, h, err
}

// free says whether newname can be that of a scratch file: no other file has it.
func (n *rowNode[T]) free(ctx context.Context, newname string) bool {
	there, err := n.Walk(ctx, newname)
	return err == nil && IsScratch(there) || err != nil && n.scratchable(newname)
}

// renameScratch gives a scratch file another name, or writes it to the file of that name.
func (n *rowNode[T]) renameScratch(ctx context.Context, name string, f *scratch, d *rowNode[T], newname string) error {
	if d.free(ctx, newname) {
		n.t.scratches.link(f, d.scratchDir(), newname, n.scratchDir(), name)
		return nil
	}
	if err := d.deliver(ctx, f, newname); err != nil {
		return err
	}
	n.t.scratches.drop(n.scratchDir(), name)
	return nil
}

// linkScratch gives a scratch file one name more. If that is the name of a file that is
// made by writing it, it is written.
func (n *rowNode[T]) linkScratch(ctx context.Context, name string, f *scratch) (Node, error) {
	_, err := n.Walk(ctx, name)
	switch {
	case err == nil:
		return nil, n.fail(fmt.Errorf("%w: %s", ErrExist, name))
	case n.scratchable(name):
		n.t.scratches.link(f, n.scratchDir(), name, scratchDir{}, "")
		return &scratchNode{f: f, name: name}, nil
	}
	if err := n.deliver(ctx, f, name); err != nil {
		return nil, err
	}
	return n.Walk(ctx, name)
}

// backup copies a file's text to a scratch file: programs rename the old file to a backup
// before they write the new one, and the file of the tree stays.
func (n *rowNode[T]) backup(ctx context.Context, name string, d *rowNode[T], newname string) error {
	c, err := n.Walk(ctx, name)
	if err != nil {
		return err
	}
	r, ok := c.(*rowNode[T])
	if !ok || r.row.Read == nil || r.row.Perm&0o600 != 0o600 || d == nil || !d.free(ctx, newname) {
		return fmt.Errorf("%w: %s cannot be renamed to %s", ErrNotPermitted, name, newname)
	}
	text, err := r.stored(ctx)
	if err == nil {
		_, err = d.t.scratches.make(d.scratchDir(), newname, text)
	}
	return err
}

// A delivery is a text on its way to a file.
type delivery struct {
	dir    uint64 // of the file
	name   string
	h      Handle
	stream bool // a write may block
	text   string
	sent   int
}

// deliver writes a scratch file's text to the file called name, as one that was opened and
// truncated. A caller that gave up waiting and asks again waits for the same delivery.
func (n *rowNode[T]) deliver(ctx context.Context, f *scratch, name string) error {
	to, err := n.delivery(ctx, f, name)
	if err != nil {
		return err
	}
	if to.stream {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, deliveryTime, ErrTimedOut)
		defer cancel()
	}
	err = to.send(ctx)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), ErrTimedOut):
		err = n.fail(fmt.Errorf("%w: %s took %d of %d bytes in %v", ErrTimedOut, name, to.sent, len(to.text), deliveryTime))
	case Errno(err) == syscall.EINTR:
		defer f.lock()()
		f.left = to
		return err
	}
	return cmp.Or(err, to.h.Close())
}

// delivery opens the file called name, or returns what was left of the same delivery.
func (n *rowNode[T]) delivery(ctx context.Context, f *scratch, name string) (*delivery, error) {
	unlock := f.lock()
	left, text := f.left, string(f.text)
	f.left = nil
	unlock()
	if left != nil && left.dir == n.qid() && left.name == name && left.text == text {
		return left, nil
	}
	if left != nil {
		left.h.Close()
	}
	c, h, err := n.Create(ctx, name, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	r, ok := c.(*rowNode[T])
	return &delivery{dir: n.qid(), name: name, h: h, stream: ok && r.row.Open != nil, text: text}, nil
}

// send writes the rest of the text.
func (d *delivery) send(ctx context.Context) error {
	for d.sent < len(d.text) {
		k, err := d.h.WriteAt(ctx, []byte(d.text[d.sent:]), int64(d.sent))
		if d.sent += k; err == nil && k == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return err
		}
	}
	return d.h.Flush(ctx)
}
