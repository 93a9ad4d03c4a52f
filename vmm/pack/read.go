package pack

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"hutch/fs"
)

// A Reader reads an archive.
type Reader struct {
	zip  *zstd.Decoder
	tail *summed
	tar  *tar.Reader
	last int  // rank of the part that is under way
	over bool // the digest was reached
}

// NewReader returns a reader of the archive that r has, and its manifest.
func NewReader(r io.Reader) (*Reader, Manifest, error) {
	zip, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, Manifest{}, err
	}
	a := &Reader{zip: zip, tail: &summed{r: zip, left: unasked, sum: sha256.New()}}
	a.tar = tar.NewReader(a.tail)
	h, err := a.tar.Next()
	if err == nil && (h.Name != manifestName || h.Typeflag != tar.TypeReg || len(h.PAXRecords) > 0 || h.Size > maxManifest) {
		err = bad("it does not begin with %s", manifestName)
	}
	var m Manifest
	if err == nil {
		m, err = readManifest(a.tar)
	}
	if err != nil {
		err = a.Blame(malformed(err))
		zip.Close()
		return nil, m, err
	}
	return a, m, nil
}

// Close lets go of what the reader has.
func (a *Reader) Close() { a.zip.Close() }

// next returns the next member, of which nothing is known but that its part is
// none before the last one's. It returns io.EOF when the archive has ended as it
// should.
func (a *Reader) next() (*tar.Header, error) {
	if _, err := io.Copy(io.Discard, a.tar); err != nil {
		return nil, malformed(err)
	}
	h, err := a.tar.Next()
	if err == io.EOF {
		a.over = true
		return nil, errUnsealed
	}
	if err != nil {
		return nil, malformed(err)
	}
	if isDigest(h) {
		a.over = true
		return nil, a.end(h)
	}
	for key := range h.PAXRecords {
		if !known(key) {
			return nil, bad("%q has a record %q", fs.Shorten(h.Name), fs.Shorten(key))
		}
	}
	part, _, _ := strings.Cut(h.Name, "/")
	n := rank(part)
	if h.Typeflag == tar.TypeGNUSparse { // which reads as more than there is
		n = -1
	}
	switch {
	case n < 0:
		return nil, bad("unknown member %q", fs.Shorten(h.Name))
	case n < a.last:
		return nil, bad("member %q stands behind %s", fs.Shorten(h.Name), Parts[a.last])
	}
	a.last = n
	return h, nil
}

// known says whether a member may have a record.
func known(key string) bool {
	switch key {
	case sparseRecord, "path", "linkpath", "size", "uid", "gid", "mtime":
		return true
	}
	return strings.HasPrefix(key, xattrRecord)
}

// unasked is how much of an archive is read before it is known how much room there
// is, and for an error's sake.
const unasked = 1 << 30

// Blame returns err, or if that is about what the archive has, and the archive was
// changed since it was made, an error that says so. For that it reads on to the
// digest, through a GiB at most, and not behind it: who sends the archive may wait
// for an answer before the end.
func (a *Reader) Blame(err error) error {
	if a.over || !errors.Is(err, fs.ErrInvalid) || errors.Is(err, errDamaged) {
		return err
	}
	a.over = true
	a.tail.left = min(a.tail.left, unasked)
	rerr := a.rest()
	if rerr == io.EOF || errors.Is(rerr, errNoRoom) {
		return err
	}
	return malformed(rerr)
}

// rest reads on to the digest. It returns io.EOF if that is right.
func (a *Reader) rest() error {
	for {
		h, err := a.tar.Next()
		switch {
		case err == io.EOF:
			return errUnsealed
		case err != nil:
			return err
		case isDigest(h):
			return a.end(h)
		}
	}
}

func isDigest(h *tar.Header) bool {
	return h.Name == digestName && h.Typeflag == tar.TypeReg && len(h.PAXRecords) == 0
}

var (
	errOther    = bad("it was changed since it was made: it does not match its %s", digestName)
	errUnsealed = bad("it has no %s at its end", digestName)
	errDamaged  = errors.New("it is damaged")
	errCut      = bad("it is cut off")
)

// end sees to it that the archive is what it was when it was made, and ends.
func (a *Reader) end(h *tar.Header) error {
	want := hex.EncodeToString(a.tail.sum.Sum(nil))
	text, err := io.ReadAll(io.LimitReader(a.tar, 100))
	if err != nil {
		return malformed(err)
	}
	if string(text) != want+"\n" {
		return errOther
	}
	if h, err := a.tar.Next(); err == nil {
		return bad("member %q stands behind its end", fs.Shorten(h.Name))
	} else if err != io.EOF {
		return malformed(err)
	}
	return io.EOF
}

// Drain reads what comes behind the end: there must be nothing.
func (a *Reader) Drain() error {
	n, err := io.Copy(io.Discard, io.LimitReader(a.zip, 1))
	if n > 0 {
		return bad("it goes on behind its end")
	}
	return malformed(err)
}

// malformed returns err as one of the archive, if it is.
func malformed(err error) error {
	for _, cut := range []error{io.ErrUnexpectedEOF, io.EOF} {
		if errors.Is(err, cut) {
			return errCut
		}
	}
	for _, e := range []error{tar.ErrHeader, tar.ErrFieldTooLong, zstd.ErrMagicMismatch, zstd.ErrCRCMismatch, zstd.ErrWindowSizeExceeded, zstd.ErrReservedBlockType,
		zstd.ErrCompressedSizeTooBig, zstd.ErrBlockTooSmall, zstd.ErrUnexpectedBlockSize, zstd.ErrUnknownDictionary, zstd.ErrWindowSizeTooSmall, zstd.ErrDecoderSizeExceeded, zstd.ErrFrameSizeExceeded, zstd.ErrFrameSizeMismatch} {
		if errors.Is(err, e) {
			return bad("%w: %s", errDamaged, strings.TrimPrefix(err.Error(), "archive/tar: "))
		}
	}
	return err
}

// A summed reader sums up what is read, but for the last block.
type summed struct {
	r    io.Reader
	left int64 // bytes that it reads at most
	sum  hash.Hash
	last []byte // the block that is not summed up yet
}

const block = 512

func (s *summed) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, errNoRoom
	}
	n, err := s.r.Read(p)
	s.left -= int64(n)
	s.last = append(s.last, p[:n]...)
	if k := len(s.last) - block; k > 0 {
		s.sum.Write(s.last[:k])
		s.last = append(s.last[:0], s.last[k:]...)
	}
	return n, err
}

// nameOf returns the parts of a member's name, or why it can be none.
func nameOf(h *tar.Header) ([]string, error) {
	name := strings.TrimSuffix(h.Name, "/")
	if name != path.Clean(name) || strings.IndexByte(name, 0) >= 0 || strings.HasPrefix(name, "/") || (h.Name != name) != (h.Typeflag == tar.TypeDir) {
		return nil, bad("name %q", fs.Shorten(h.Name))
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxDepth+1 {
		return nil, bad("%q is more than %d folders deep", fs.Shorten(name), maxDepth)
	}
	for _, p := range parts {
		if p == "" || p == "." || p == ".." || len(p) > 255 {
			return nil, bad("name %q", fs.Shorten(h.Name))
		}
	}
	return parts, nil
}
