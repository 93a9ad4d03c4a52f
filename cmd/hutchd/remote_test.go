package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"sync"
	"time"

	"hutch/fs"
	"hutch/fs/ninep"
	"hutch/fs/ninep/client"
	"hutch/fs/ninep/wire"
)

// A remote is the service's tree, by path.
type remote struct{ *client.Conn }

var background = context.Background()

// dialTree connects to the service at addr, which may take its time.
func dialTree(addr string) (*remote, error) {
	network, address, err := ninep.SplitAddr(addr)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	c, err := client.New(background, conn, 10*time.Minute)
	if err != nil {
		return nil, err
	}
	return &remote{c}, nil
}

// number gives err the system's own, too.
func number(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", err, fs.Errno(err))
}

func (r *remote) in(name string, do func(dir *client.Fid) error) error {
	return number(r.At(background, wire.Path(path.Dir(name)), do))
}

func (r *remote) Open(name string, flags int) (*remoteFile, error) {
	f, err := r.Conn.Open(background, wire.Path(name), flags)
	return newRemoteFile(f, err)
}

func (r *remote) Create(name string, flags int, perm os.FileMode) (*remoteFile, error) {
	f, err := r.Walk(background, wire.Path(path.Dir(name)))
	if err == nil {
		if err = f.Create(background, path.Base(name), flags, perm); err != nil {
			f.Clunk()
		}
	}
	return newRemoteFile(f, err)
}

func (r *remote) Mkdir(name string, perm os.FileMode) error {
	return r.in(name, func(dir *client.Fid) error { return dir.Mkdir(background, path.Base(name), perm) })
}

func (r *remote) Remove(name string) error {
	st, err := r.Stat(name)
	if err != nil {
		return err
	}
	return r.in(name, func(dir *client.Fid) error { return dir.Remove(background, path.Base(name), st.Mode.IsDir()) })
}

func (r *remote) Stat(name string) (fs.Stat, error) {
	st, err := r.Conn.Stat(background, wire.Path(name))
	return st, number(err)
}

func (r *remote) ReadDir(name string) ([]fs.Entry, error) {
	list, err := r.List(background, wire.Path(name))
	return list, number(err)
}

// A remoteFile is an open file. Close ends what is under way.
type remoteFile struct {
	*client.Fid
	ctx    context.Context
	cancel context.CancelFunc
	close  func() error
	at, to int64 // where the next Read, and Write, begins
}

func newRemoteFile(fid *client.Fid, err error) (*remoteFile, error) {
	if err != nil {
		return nil, number(err)
	}
	f := &remoteFile{Fid: fid}
	f.ctx, f.cancel = context.WithCancel(background)
	f.close = sync.OnceValue(func() error {
		f.cancel()
		return number(f.Fid.Close(background))
	})
	return f, nil
}

func (f *remoteFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.Fid.ReadAt(f.ctx, client.Stream, p, off)
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF
	}
	return n, number(err)
}

func (f *remoteFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.Fid.Write(f.ctx, client.Stream, p, off)
	return n, number(err)
}

func (f *remoteFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *remoteFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.to)
	f.to += int64(n)
	return n, err
}

func (f *remoteFile) Close() error { return f.close() }
