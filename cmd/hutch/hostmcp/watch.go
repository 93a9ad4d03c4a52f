package hostmcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"hutch/aggd/jsonrpc"
	"hutch/fs"
)

// A source is a file that blocks until something of others changes.
type source struct {
	pattern string // of the files that change
	file    string // that tells of it; a * is what it is in the pattern
	fresh   bool   // each open of it begins with what is so now
}

// sources is the table of what tells of changes. The first pattern that fits
// counts; a file that none fits changes without a word.
var sources = []source{
	{"status", "events", false},
	{"vm", "events", false},
	{"events", "events", false},
	{"log/service", "log/follow", false},
	{"log/follow", "log/follow", false},
	{"asks", "asks/next", true},
	{"asks/*", "asks/next", true},
	{"asks/*/*", "asks/next", true},
	{"vm/*/log/mcp", "vm/*/mcp/calls", false},
	{"vm/*/mcp/calls", "vm/*/mcp/calls", false},
	{"vm/*/timeline", "vm/*/mcp/calls", false},
	{"vm/*/exec/*/*", "vm/*/exec/*/wait", false},
	{"vm/*", "vm/*/events", false},
	{"vm/*/status", "vm/*/events", false},
	{"vm/*/config", "vm/*/events", false},
	{"vm/*/events", "vm/*/events", false},
	{"vm/*/snap", "vm/*/events", false},
}

// sourceOf returns what tells of changes of a file.
func sourceOf(name string) (source, error) {
	words := strings.Split(name, "/")
	for _, s := range sources {
		if ok, _ := path.Match(s.pattern, name); !ok {
			continue
		}
		at := strings.Split(s.file, "/")
		for i := range at {
			if at[i] == "*" {
				at[i] = words[i]
			}
		}
		s.file = strings.Join(at, "/")
		return s, nil
	}
	return source{}, fmt.Errorf("%w: nothing tells of changes of %s", fs.ErrUnsupported, name)
}

// maxWatches is how many subscriptions there may be.
const maxWatches = 64

// watches are the subscriptions of a session.
type watches struct {
	h   *host
	mu  sync.Mutex // guards what follows
	end map[string]context.CancelFunc
	all sync.WaitGroup
}

// add has updated called whenever the file of a URI changed, until remove of the
// same key.
func (w *watches) add(ctx context.Context, key, uri string, updated func()) error {
	name, _, err := fileOf(uri)
	if err != nil {
		return err
	}
	s, err := sourceOf(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	if took, err := w.take(key, cancel); !took {
		cancel()
		return err
	}
	ready, err := w.h.follow(ctx, s)
	if err != nil {
		w.giveUp(ctx, key)
		return err
	}
	w.all.Go(func() {
		for ready != nil {
			err := ready.next(ctx)
			if ctx.Err() == nil {
				updated()
			}
			if err != nil {
				ready.t.close()
				ready = w.h.followAgain(ctx, s)
			}
		}
		w.giveUp(ctx, key) // the file is gone for good
	})
	return nil
}

// take takes a place for a key that has none, before what it is for is begun.
func (w *watches) take(key string, end context.CancelFunc) (took bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.end[key] != nil:
		return false, nil
	case len(w.end) >= maxWatches:
		return false, fmt.Errorf("%w: %d subscriptions, which is all there may be", fs.ErrBusy, maxWatches)
	}
	w.end[key] = end
	return true, nil
}

// giveUp gives back the place of a subscription that ends by itself, unless it was
// removed and the place may be another's.
func (w *watches) giveUp(ctx context.Context, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil {
		w.end[key]()
		delete(w.end, key)
	}
}

func (w *watches) remove(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end := w.end[key]; end != nil {
		end()
	}
	delete(w.end, key)
}

func (w *watches) keys() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.end {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}

func (w *watches) close() {
	for _, key := range w.keys() {
		w.remove(key)
	}
	w.all.Wait()
}

// A following is a blocking file from where it stood.
type following struct {
	t *tree
	f *file
}

// follow opens a source at its end.
func (h *host) follow(ctx context.Context, s source) (*following, error) {
	t, err := h.service.dial(ctx)
	if err != nil {
		return nil, err
	}
	off := int64(0)
	if !s.fresh {
		off, err = t.endOf(ctx, s.file)
	}
	var f *file
	if err == nil {
		f, err = t.open(ctx, s.file, os.O_RDONLY)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	f.off = off
	return &following{t, f}, nil
}

// endOf returns how much a file that blocks has.
func (t *tree) endOf(ctx context.Context, name string) (int64, error) {
	f, err := t.open(ctx, name, os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return 0, err
	}
	defer f.close()
	for p := make([]byte, 64<<10); ; {
		n, err := f.read(ctx, p)
		if again(err) || err == nil && n == 0 {
			return f.off, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// next waits until there is more.
func (f *following) next(ctx context.Context) error {
	n, err := f.f.read(ctx, make([]byte, 64<<10))
	if err == nil && n == 0 {
		err = fs.ErrPipe // it has ended
	}
	return err
}

// againAfter is how long a service that went is waited for between two looks.
const againAfter = time.Second

// followAgain follows a source that was lost, as soon as a service serves it
// again; nil when ctx is done, or the file is gone for good.
func (h *host) followAgain(ctx context.Context, s source) *following {
	for {
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
			return nil
		}
		if t, err := dial(ctx, h.service.addr); err != nil {
			continue // whoever ended it may not want it started
		} else {
			t.close()
		}
		f, err := h.follow(ctx, s)
		if err == nil {
			return f
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
}

// SubscribeToResourceErr begins to tell the client of changes of a resource.
func (s *session) SubscribeToResourceErr(uri string) error {
	return s.subscribe(uri, uri, nil)
}

func (s *session) subscribe(key, uri string, meta map[string]any) error {
	err := s.watches.add(s.ctx, key, uri, func() {
		s.write(mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
			Method: mcp.MethodNotificationResourceUpdated, Params: mcp.NotificationParams{Meta: meta, AdditionalFields: map[string]any{"uri": uri}},
		}})
	})
	return toldPlainly(err)
}

func (s *session) SubscribeToResource(uri string)     { s.SubscribeToResourceErr(uri) }
func (s *session) UnsubscribeFromResource(uri string) { s.watches.remove(uri) }
func (s *session) SubscribedResources() []string      { return s.watches.keys() }
func (s *session) IsSubscribedToResource(uri string) bool {
	return slices.Contains(s.watches.keys(), uri)
}

// A listener is the session for one request of subscriptions/listen, whose id
// is in all that it brings.
type listener struct {
	*session
	id    json.RawMessage
	queue chan mcp.JSONRPCNotification // from the library, which acknowledges it
}

func (l *listener) NotificationChannel() chan<- mcp.JSONRPCNotification { return l.queue }

// answer is the session's, behind what the library has to tell before.
func (l *listener) answer(ctx context.Context, m jsonrpc.Message, line []byte) []byte {
	var telling sync.WaitGroup
	telling.Go(func() {
		for n := range l.queue {
			l.write(n)
		}
	})
	defer telling.Wait()
	defer close(l.queue)
	return l.session.answer(l.server.WithContext(ctx, l), m, line)
}

func (l *listener) key(uri string) string { return string(l.id) + " " + uri }

func (l *listener) SubscribeToResourceErr(uri string) error {
	return l.subscribe(l.key(uri), uri, map[string]any{mcp.MetaKeySubscriptionID: l.id})
}

func (l *listener) SubscribeToResource(uri string)     { l.SubscribeToResourceErr(uri) }
func (l *listener) UnsubscribeFromResource(uri string) { l.watches.remove(l.key(uri)) }
