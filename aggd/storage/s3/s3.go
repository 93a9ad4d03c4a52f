// Package s3 keeps files as the objects of a bucket that speaks S3. It runs in a
// process of its own, locald, which has the network and the key; hutchd has
// neither (Serve).
//
// S3 knows no folders. A folder is there while an object's key begins with its
// name and a slash, and is gone with the last of them.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"hutch/aggd/storage"
)

// maxKey is the length of the longest key that S3 takes.
const maxKey = 1024

// A Bucket is the objects of a bucket whose keys begin with a prefix.
type Bucket struct {
	core   minio.Core
	name   string
	prefix string // ends with a slash, or is empty
	quota  quota
}

var _ storage.Storage = (*Bucket)(nil)

// New returns the bucket that c says. The server is not asked yet.
func New(c storage.Bucket) (*Bucket, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("endpoint is no URL like https://host")
	}
	region := c.Region
	if region == "" {
		region = "us-east-1" // or the library would ask the server for it
	}
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds:      credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""),
		Secure:     u.Scheme == "https",
		Region:     region,
		MaxRetries: 2,
		Transport: limited{&http.Transport{
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: storage.Patience,
			IdleConnTimeout:       time.Minute,
			MaxIdleConnsPerHost:   storage.MaxRequests,
			DisableCompression:    true,
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	b := &Bucket{core: *core, name: c.Name, prefix: strings.Trim(c.Prefix, "/")}
	if b.prefix != "" {
		b.prefix += "/"
	}
	b.quota = quota{limit: c.Quota, turn: make(chan struct{}, 1)}
	return b, nil
}

// maxPage is more than a page of a list takes: a thousand keys, as long as they
// can be, with what is said of each.
const maxPage = 8 << 20

// A limited cuts off what is no answer of S3: the library reads a page of a list
// whole, however long a server makes it.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		most := int64(storage.MaxLine)
		if r.URL.Query().Has("list-type") {
			most = maxPage
		}
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, most), answer.Body}
	}
	return answer, err
}

// key returns the key of the object called name.
func (b *Bucket) key(name string) (string, error) {
	switch {
	case !fs.ValidPath(name) || strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return "", syscall.EINVAL
	case name == ".":
		return "", syscall.EISDIR
	case len(b.prefix)+len(name) > maxKey:
		return "", syscall.ENAMETOOLONG
	}
	return b.prefix + name, nil
}

// folder returns what the keys of all in a folder begin with.
func (b *Bucket) folder(name string) (string, error) {
	if name == "." {
		return b.prefix, nil
	}
	key, err := b.key(name)
	return key + "/", err
}

// Read returns a part of an object.
func (b *Bucket) Read(ctx context.Context, name string, off, n int64) ([]byte, storage.Info, error) {
	info, err := b.Stat(ctx, name)
	if err != nil {
		return nil, info, err
	}
	if info.Kind == storage.Folder {
		return nil, info, errors.New("is a dir, not a regular file")
	}
	n = min(n, info.Size-off)
	if n <= 0 {
		return nil, info, nil
	}
	var opts minio.GetObjectOptions
	if err := opts.SetRange(off, off+n-1); err != nil {
		return nil, info, err
	}
	body, o, _, err := b.core.GetObject(ctx, b.name, b.prefix+name, opts)
	if err != nil {
		return nil, info, plain(err)
	}
	defer body.Close()
	info.Tag = o.ETag // of what is read, which may be another by now
	data, err := io.ReadAll(io.LimitReader(body, n))
	return data, info, plain(err)
}

// Write puts an object.
func (b *Bucket) Write(ctx context.Context, name string, data []byte, how storage.How) error {
	key, err := b.key(name)
	if err != nil {
		return err
	}
	old, err := b.Stat(ctx, name)
	switch {
	case err != nil && !errors.Is(err, syscall.ENOENT):
		return err
	case err == nil && how == storage.New:
		return syscall.EEXIST
	case err == nil && old.Kind == storage.Folder:
		return syscall.EISDIR
	}
	if err != nil {
		if err := b.checkFolders(ctx, name); err != nil {
			return err
		}
	}
	var opts minio.PutObjectOptions
	if how == storage.New {
		opts.SetMatchETagExcept("*") // two may be making it
	}
	err = b.put(ctx, key, data, old.Size, opts)
	if err == errChanged && how == storage.New {
		return syscall.EEXIST
	}
	return err
}

// Replace puts an object in the place of one that was read.
func (b *Bucket) Replace(ctx context.Context, name string, data []byte, was storage.Info) error {
	key, err := b.key(name)
	if err != nil {
		return err
	}
	var opts minio.PutObjectOptions
	if was.Tag != "" {
		opts.SetMatchETag(was.Tag)
	}
	return b.put(ctx, key, data, was.Size, opts)
}

// put puts an object in the place of one of a size, if there is room for it.
func (b *Bucket) put(ctx context.Context, key string, data []byte, old int64, opts minio.PutObjectOptions) error {
	opts.DisableMultipart = true
	return b.quota.write(ctx, b, old, int64(len(data)), func() error {
		_, err := b.core.Client.PutObject(ctx, b.name, key, bytes.NewReader(data), int64(len(data)), opts)
		return plain(err)
	})
}

// checkFolders refuses a name below one that is a file.
func (b *Bucket) checkFolders(ctx context.Context, name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := b.Stat(ctx, dir)
		switch {
		case errors.Is(err, syscall.ENOENT):
		case err != nil:
			return err
		case info.Kind != storage.Folder:
			return syscall.ENOTDIR
		default:
			return nil // whose folders are folders
		}
	}
	return nil
}

// Stat says whether there is an object or a folder of that name.
func (b *Bucket) Stat(ctx context.Context, name string) (storage.Info, error) {
	folder := storage.Info{Name: path.Base(name), Kind: storage.Folder}
	if name == "." {
		return folder, nil
	}
	key, err := b.key(name)
	if err != nil {
		return storage.Info{}, err
	}
	o, err := b.core.Client.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err == nil {
		return storage.Info{Name: folder.Name, Kind: storage.File, Size: o.Size, Time: o.LastModified, Tag: o.ETag}, nil
	}
	if err := plain(err); !errors.Is(err, syscall.ENOENT) {
		return storage.Info{}, err
	}
	for o := range b.objects(ctx, minio.ListObjectsOptions{Prefix: key + "/", Recursive: true, MaxKeys: 1}) {
		return folder, plain(o.Err)
	}
	return storage.Info{}, syscall.ENOENT
}

// objects lists objects. An error is the last of them; the library's own list
// may just end where the time is over.
func (b *Bucket) objects(ctx context.Context, opts minio.ListObjectsOptions) iter.Seq[minio.ObjectInfo] {
	return func(yield func(minio.ObjectInfo) bool) {
		for o := range b.core.Client.ListObjectsIter(ctx, b.name, opts) {
			if !yield(o) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(minio.ObjectInfo{Err: err})
		}
	}
}

// List lists a folder. Keys that are no names of files are left out.
func (b *Bucket) List(ctx context.Context, name string, most int) (list []storage.Info, more bool, err error) {
	prefix, err := b.folder(name)
	if err != nil {
		return nil, false, err
	}
	seen := 0
	for o := range b.objects(ctx, minio.ListObjectsOptions{Prefix: prefix}) {
		if o.Err != nil {
			return nil, false, plain(o.Err)
		}
		seen++
		base, isFolder := strings.CutSuffix(strings.TrimPrefix(o.Key, prefix), "/")
		if base == "." || !fs.ValidPath(base) || strings.Contains(base, "/") || !utf8.ValidString(base) {
			continue
		}
		if more = len(list) == most; more {
			break
		}
		info := storage.Info{Name: base, Kind: storage.File, Size: o.Size, Time: o.LastModified}
		if isFolder {
			info = storage.Info{Name: base, Kind: storage.Folder}
		}
		list = append(list, info)
	}
	if seen == 0 && name != "." {
		info, err := b.Stat(ctx, name)
		if err == nil && info.Kind != storage.Folder {
			err = syscall.ENOTDIR
		}
		return nil, false, err
	}
	slices.SortFunc(list, func(a, b storage.Info) int { return strings.Compare(a.Name, b.Name) })
	return list, more, nil
}

// Remove deletes an object.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	info, err := b.Stat(ctx, name)
	if err != nil {
		return err
	}
	if info.Kind == storage.Folder {
		return syscall.EISDIR
	}
	return b.quota.write(ctx, b, info.Size, 0, func() error {
		return plain(b.core.Client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
	})
}
