package pack

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A Writer makes an archive.
type Writer struct {
	zip *zstd.Encoder
	sum hash.Hash
	tar *tar.Writer
	now time.Time
	buf []byte // for copying

	part string           // the one that is under way
	seen map[inode]string // its files with more names than one
}

// NewWriter begins an archive, which goes to w.
func NewWriter(w io.Writer, m Manifest) (*Writer, error) {
	zip, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(window))
	if err != nil {
		return nil, err
	}
	a := &Writer{zip: zip, sum: sha256.New(), now: m.Taken, buf: make([]byte, 256<<10)}
	a.tar = tar.NewWriter(io.MultiWriter(zip, a.sum))
	m.Format = Format
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return a, a.File(manifestName, int64(len(text)+1), strings.NewReader(string(text)+"\n"))
}

// window is how far back the compression looks, in bytes: what a reader must keep.
const window = 4 << 20

// File adds a file of size bytes, which r has.
func (a *Writer) File(name string, size int64, r io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: size, ModTime: a.now.Truncate(time.Second)}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.CopyN(a.tar, r, size)
	return err
}

// Close ends the archive. One that is not closed is none.
func (a *Writer) Close() error {
	if err := a.tar.Flush(); err != nil {
		return err
	}
	text := hex.EncodeToString(a.sum.Sum(nil)) + "\n"
	if err := a.File(digestName, int64(len(text)), strings.NewReader(text)); err != nil {
		return err
	}
	if err := a.tar.Close(); err != nil {
		return err
	}
	return a.zip.Close()
}

// Abandon lets go of what a Writer that is not closed has.
func (a *Writer) Abandon() {
	a.zip.Reset(io.Discard)
	a.zip.Close()
}

// copying copies n bytes, and asks the context now and then.
func copying(ctx context.Context, w io.Writer, r io.Reader, n int64, buf []byte) (int64, error) {
	done := int64(0)
	for done < n {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		k, err := r.Read(buf[:min(int64(len(buf)), n-done)])
		if k > 0 {
			if _, werr := w.Write(buf[:k]); werr != nil {
				return done, werr
			}
			done += int64(k)
		}
		if err == io.EOF && done < n {
			return done, io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF {
			return done, err
		}
	}
	return done, nil
}
