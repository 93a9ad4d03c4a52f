// Package fuse mounts a tree of nodes as a file system of the kernel. It
// knows no file of the tree: a request becomes a call of a node or a handle
// with a context that ends when the client is interrupted or the server
// closes.
//
// Made-up files are never cached: their attributes and entries hold for no
// time, and reads and writes come as the client makes them. Stored files are
// cached only where the Options say so. A directory that
// is a folder of the host (fs.HostDir) is served from that folder itself,
// and where the kernel allows it reads and writes there bypass the server. Names
// and attributes of it hold as long as nobody changes them.
//
// The process that serves a mount must not use it: a request of its own
// might wait for a thread that is needed to answer it.
package fuse

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"log"
	"sync"
	"sync/atomic"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"hutch/fs"
)

// Options say how a tree is mounted. The zero value is good.
type Options struct {
	// Name is what mount tables call the file system; "hutch" if empty.
	Name string
	// AllowOther lets other users in, with the kernel checking modes. For
	// an ordinary user /etc/fuse.conf must permit it.
	AllowOther bool
	// Log takes what goes wrong behind the clients' backs; log.Default() if nil.
	Log *log.Logger
	// Debug logs every request and answer.
	Debug bool
	// Counters are counted up, if not nil.
	Counters *Counters
	// Stored has the kernel keep the pages of stored files, those with a
	// version, as long as their size and time stay. Programs can map them.
	Stored bool
	// Keep is how long the kernel takes names and attributes to be the
	// same without asking, and pages too. It is for trees that hardly change.
	Keep time.Duration
	// ReadOnly mounts the tree read-only.
	ReadOnly bool
	// RawLinks serves the links of other machines by their own text, and has
	// the kernel follow none. It takes root.
	RawLinks bool
	// Locked is told of files in host folders that are open for writing and
	// that a client has locked, once each; nil is fine.
	Locked func(HostFile)
}

// Counters say what a server has done so far.
type Counters struct {
	Requests    atomic.Int64 // for made-up files; those for host folders are not counted
	Errors      atomic.Int64 // requests answered with an error
	Interrupted atomic.Int64 // requests given up by the client
	BytesRead   atomic.Int64
	Written     atomic.Int64
	Open        atomic.Int64 // files open now
	Waiting     atomic.Int64 // reads and writes under way now
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "hutch"
	}
	if o.Log == nil {
		o.Log = log.Default()
	}
	if o.Counters == nil {
		o.Counters = new(Counters)
	}
	return o
}

// A Server serves one mounted tree.
type Server struct {
	dir     string
	number  string // the mount's device number
	opt     Options
	raw     *gofuse.Server
	top     gofs.InodeEmbedder // serves the root
	birth   atomic.Uint64      // tells apart the kernel's inodes of one writable file
	places  places
	dirs    fdCache // of host folders
	files   fdCache
	watch   watch
	writers writers
	calls   sync.WaitGroup
	stop    chan struct{} // closed when the server begins to close
	done    chan struct{} // closed when nothing is served any more

	mu      sync.Mutex // guards what follows
	closing bool       // set once; no call is added after it
	open    map[io.Closer]struct{}
}

// Mount mounts the tree of root on dir, which is made if it is missing, and
// serves it until Close or until someone unmounts it. What a killed server
// left mounted there is removed first; a mount that lives is refused.
func Mount(dir string, root fs.Node, opt Options) (*Server, error) {
	s := &Server{
		opt:  opt.withDefaults(),
		stop: make(chan struct{}),
		done: make(chan struct{}),
		open: map[io.Closer]struct{}{},
	}
	s.places.seed = maphash.MakeSeed()
	attr, err := s.serving(root)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	if opt.RawLinks && !direct() {
		return nil, fmt.Errorf("mount %s: %w: links by their own text, as another user than root", dir, fs.ErrNotPermitted)
	}
	undo, err := s.prepare(dir)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := s.mount(attr); err != nil {
		undo()
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	return s, nil
}

// serving finds what serves the root, and returns its number.
func (s *Server) serving(root fs.Node) (*gofs.StableAttr, error) {
	st, err := root.Stat(context.Background())
	if err != nil {
		return nil, err
	}
	if !st.Mode.IsDir() {
		return nil, fmt.Errorf("%w: the root of a tree", fs.ErrNotDir)
	}
	if h, ok := s.hostTop(root); ok {
		s.top = h
	} else {
		e := s.entry(root)
		e.links = foreignOf(root, e.EmbeddedInode(), nil)
		s.top = e
	}
	return &gofs.StableAttr{Ino: st.Qid}, nil
}

func (s *Server) mount(attr *gofs.StableAttr) error {
	opt := &gofs.Options{
		MountOptions:    s.mountOptions(),
		NullPermissions: true,
		RootStableAttr:  attr,
	}
	if keep := s.opt.Keep; keep > 0 {
		opt.AttrTimeout, opt.EntryTimeout, opt.NegativeTimeout = &keep, &keep, &keep
	}
	raw, err := attach(gofs.NewNodeFS(s.top, opt), s.dir, &opt.MountOptions)
	if err != nil {
		return err
	}
	s.raw = raw
	s.number, err = s.device()
	go s.serve()
	if err == nil {
		err = raw.WaitMount()
	}
	if err == nil && s.opt.RawLinks {
		err = s.followsNone()
	}
	if err != nil {
		s.Close()
	}
	return err
}

func (s *Server) mountOptions() gofuse.MountOptions {
	o := gofuse.MountOptions{
		FsName:     s.opt.Name,
		Name:       s.opt.Name,
		AllowOther: s.opt.AllowOther,
		Logger:     log.New(s, "", 0),
		Debug:      s.opt.Debug,
		// Direct reads do not count as background requests, however long
		// they block; closes and the readahead of host files do.
		MaxBackground: 64,
		// Depth 2 lets a host folder that lies on an overlay be passed through.
		MaxStackDepth: 2,
		// Attributes come with names only where a client asks for them.
		ExtraCapabilities: gofuse.CAP_READDIRPLUS_AUTO | gofuse.CAP_DIRECT_IO_ALLOW_MMAP | killPriv,
		DirectMountStrict: direct(),
	}
	if s.opt.AllowOther {
		o.Options = append(o.Options, "default_permissions")
	}
	if s.opt.ReadOnly {
		o.Options = append(o.Options, "ro")
	}
	if s.opt.RawLinks {
		o.DirectMountFlags = noFollow
	}
	return o
}

// serve ends when the file system is unmounted or its connection cut.
func (s *Server) serve() {
	s.raw.Serve()
	s.release()
	close(s.done)
}

// Write passes on what the library logs. While the server closes that is
// only that answers find nobody who waits for them.
func (s *Server) Write(line []byte) (int, error) {
	select {
	case <-s.stop:
	default:
		s.opt.Log.Print(string(line))
	}
	return len(line), nil
}

// Done is closed when the tree is no longer served, whoever ended that.
func (s *Server) Done() <-chan struct{} { return s.done }

// Wait waits until the tree is no longer served.
func (s *Server) Wait() { <-s.done }

// Close ends the service. In this order:
//
//  1. calls under way are cancelled and new ones refused, so that a blocked
//     reader returns instead of holding the mount;
//  2. the tree is unmounted; if files are open, a process stands in it or
//     another mount namespace has it, it is taken out of sight and its
//     connection to the kernel is cut, which fails what those processes do
//     with it from then on;
//  3. the serve loop and every call under way are waited for;
//  4. handles that clients left open are closed.
//
// Where an ordinary user may not cut the connection, Close returns an error
// when the tree is out of sight and does the rest but for the serve loop,
// which ends when the last process has let go.
func (s *Server) Close() error {
	s.refuse()
	var err error
	select {
	case <-s.done: // unmounted by someone else; what is mounted there now is not ours
	default:
		err = s.unmount()
	}
	if err != nil {
		s.release()
		return fmt.Errorf("unmount %s: %w", s.dir, err)
	}
	<-s.done
	return nil
}

// refuse cancels the calls under way and lets no new ones in.
func (s *Server) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.closing = true
		close(s.stop)
	}
}

// release closes what clients left open.
func (s *Server) release() {
	s.refuse()
	s.watch.close()
	s.calls.Wait()
	s.mu.Lock()
	open := s.open
	s.open = map[io.Closer]struct{}{}
	s.mu.Unlock()
	for c := range open {
		s.opt.Counters.Open.Add(-1)
		c.Close()
	}
	s.dirs.close()
	s.files.close()
}

// keep remembers an open file, which the server closes if the client cannot.
// It reports false if the server has gone.
func (s *Server) keep(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.open[c] = struct{}{}
	s.opt.Counters.Open.Add(1)
	return true
}

// drop closes a file that was kept, once.
func (s *Server) drop(c io.Closer) {
	s.mu.Lock()
	_, ok := s.open[c]
	delete(s.open, c)
	s.mu.Unlock()
	if ok {
		s.opt.Counters.Open.Add(-1)
		c.Close()
	}
}
