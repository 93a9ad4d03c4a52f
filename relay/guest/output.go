package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"hutch/fs"
)

// An output is an open stdout or stderr. Read from offset 0 when the guest
// has dropped what was there, it begins where what is kept begins. That stays
// kept for as long as the file is open: the guest drops nothing that one of
// its readers has not gone past.
type output struct {
	*file
	e    *Exec
	name string

	mu    sync.Mutex // guards what follows
	began bool       // something was read
	from  int64      // the offset in the guest of our offset 0
}

func (o *output) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := o.file.ReadAt(ctx, p, o.place(off))
	if !errors.Is(err, fs.ErrInvalid) {
		o.mu.Lock()
		o.began = o.began || n > 0
		o.mu.Unlock()
		return n, err
	}
	from, gone := o.gone(ctx)
	if !gone {
		return 0, o.e.g.explain(ctx, err, o.e.path("err")...)
	}
	if !o.begin(off, from) {
		return 0, fmt.Errorf("%w: offset %d: the output before %d is gone", fs.ErrInvalid, off, from)
	}
	return o.file.ReadAt(ctx, p, o.place(off))
}

func (o *output) place(off int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.from + off
}

// begin has our offset 0 be the guest's from, if nobody can have taken it for
// another.
func (o *output) begin(off, from int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if off != 0 || o.began {
		return false
	}
	o.began, o.from = true, from
	return true
}

// gone returns up to where the guest has dropped the output, if it has.
func (o *output) gone(ctx context.Context) (int64, bool) {
	status, err := o.e.Read(ctx, "status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(status) {
		var end, from int64
		if n, _ := fmt.Sscanf(line, o.name+" %d from %d", &end, &from); n == 2 && from > 0 && from <= end {
			return from, true
		}
	}
	return 0, false
}
