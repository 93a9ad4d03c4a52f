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
)

// A Reader reads an archive.
type Reader struct {
	zip  *zstd.Decoder
	tail *summed
	tar  *tar.Reader
	last int // rank of the part that is under way
}

// NewReader returns a reader of the archive that r has, and its manifest.
func NewReader(r io.Reader) (*Reader, Manifest, error) {
	zip, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, Manifest{}, err
	}
	a := &Reader{zip: zip, tail: &summed{r: zip, sum: sha256.New()}}
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
		zip.Close()
		return nil, m, malformed(err)
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
		return nil, bad("it has no %s at its end", digestName)
	}
	if err != nil {
		return nil, malformed(err)
	}
	if h.Name == digestName && h.Typeflag == tar.TypeReg && len(h.PAXRecords) == 0 {
		return nil, a.end(h)
	}
	for key := range h.PAXRecords {
		if !known(key) {
			return nil, bad("%q has a record %q", shorten(h.Name), shorten(key))
		}
	}
	part, _, _ := strings.Cut(h.Name, "/")
	n := rank(part)
	if h.Typeflag == tar.TypeGNUSparse { // which reads as more than there is
		n = -1
	}
	switch {
	case n < 0:
		return nil, bad("unknown member %q", shorten(h.Name))
	case n < a.last:
		return nil, bad("member %q stands behind %s", shorten(h.Name), Parts[a.last])
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

// end sees to it that the archive is what it was when it was made, and ends.
func (a *Reader) end(h *tar.Header) error {
	want := hex.EncodeToString(a.tail.before())
	text, err := io.ReadAll(io.LimitReader(a.tar, 100))
	if err != nil {
		return malformed(err)
	}
	if string(text) != want+"\n" {
		return bad("it was changed: its %s is another", digestName)
	}
	if h, err := a.tar.Next(); err == nil {
		return bad("member %q stands behind its end", shorten(h.Name))
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
			return bad("it is cut off")
		}
	}
	for _, e := range []error{tar.ErrHeader, tar.ErrFieldTooLong, zstd.ErrMagicMismatch, zstd.ErrCRCMismatch, zstd.ErrWindowSizeExceeded, zstd.ErrReservedBlockType,
		zstd.ErrCompressedSizeTooBig, zstd.ErrBlockTooSmall, zstd.ErrUnexpectedBlockSize, zstd.ErrUnknownDictionary, zstd.ErrWindowSizeTooSmall, zstd.ErrDecoderSizeExceeded, zstd.ErrFrameSizeExceeded, zstd.ErrFrameSizeMismatch} {
		if errors.Is(err, e) {
			return bad("it is damaged: %s", strings.TrimPrefix(err.Error(), "archive/tar: "))
		}
	}
	return err
}

// A summed reader sums up what is read, but for the last block.
type summed struct {
	r    io.Reader
	sum  hash.Hash
	last []byte
}

const block = 512

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.last = append(s.last, p[:n]...)
	if k := len(s.last) - block; k > 0 {
		s.sum.Write(s.last[:k])
		s.last = append(s.last[:0], s.last[k:]...)
	}
	return n, err
}

// before returns the sum of all before the last block, which is a header.
func (s *summed) before() []byte { return s.sum.Sum(nil) }

// nameOf returns the parts of a member's name, or why it can be none.
func nameOf(h *tar.Header) ([]string, error) {
	name := strings.TrimSuffix(h.Name, "/")
	if name != path.Clean(name) || strings.IndexByte(name, 0) >= 0 || strings.HasPrefix(name, "/") || (h.Name != name) != (h.Typeflag == tar.TypeDir) {
		return nil, bad("name %q", shorten(h.Name))
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxDepth+1 {
		return nil, bad("%q is more than %d folders deep", shorten(name), maxDepth)
	}
	for _, p := range parts {
		if p == "" || p == "." || p == ".." || len(p) > 255 {
			return nil, bad("name %q", shorten(h.Name))
		}
	}
	return parts, nil
}
