package pins

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"syscall"

	"hutch/aggd/rawjson"
	"hutch/fs"
)

// What a server's file may hold.
const (
	maxTools = 4096     // that are approved
	maxText  = 4 << 20  // bytes of their names and definitions; a definition over it stays out
	maxName  = 1 << 10  // bytes of a tool's name
	maxFile  = 32 << 20 // bytes that a file is read for: 4096 digests and names, each byte of which may be escaped by six, and maxText
)

// A pin is what was approved of a tool.
type pin struct {
	digest Digest
	text   definition // nil: it is too long to be kept, or no JSON without its secrets
	hidden bool       // secrets were taken out of text
}

// A book has the pins of a server.
type book struct {
	pins map[string]pin // by the tools' own names
	size int            // bytes of names and definitions
}

// A line is a pin in the file.
type line struct {
	Tool   string          `json:"tool"`
	Digest string          `json:"digest"`
	Says   json.RawMessage `json:"says,omitempty"`
	Hidden bool            `json:"hidden,omitempty"` // says is not what the digest is of: secrets were taken out
}

// read returns the book in the file at path. Of a server that nobody has seen
// there is none; then the error is os.ErrNotExist.
func read(path string) (*book, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(errDamaged, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return parse(text)
}

var errDamaged = fmt.Errorf("%w: damaged", fs.ErrIO)

// parse returns the book that the lines of text are.
func parse(text []byte) (*book, error) {
	if len(text) > maxFile || len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, errDamaged
	}
	b := newBook()
	for l := range bytes.Lines(text) {
		name, p, err := parseLine(l)
		if err != nil {
			return nil, err
		}
		if _, twice := b.pins[name]; twice || len(b.pins) == maxTools {
			return nil, errDamaged
		}
		b.put(name, p)
	}
	return b, nil
}

func parseLine(text []byte) (string, pin, error) {
	var l line
	if err := rawjson.Decode(text, &l); err != nil {
		return "", pin{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	sum, err := hex.DecodeString(l.Digest)
	if err != nil || len(sum) != len(Digest{}) || len(l.Tool) > maxName {
		return "", pin{}, errDamaged
	}
	p := pin{Digest(sum), definition(l.Says), l.Hidden}
	if p.text != nil && !p.hidden && p.text.digest() != p.digest {
		return "", pin{}, errDamaged
	}
	return l.Tool, p, nil
}

// write puts the book in the place of the one in the file at path. It is on the
// disk when write returns.
func (b *book) write(path string) error {
	return fs.Replace(path, true, func(f *os.File) error {
		var text bytes.Buffer
		for _, name := range slices.Sorted(maps.Keys(b.pins)) {
			p := b.pins[name]
			l, err := rawjson.Encode(line{name, p.digest.String(), json.RawMessage(p.text), p.hidden})
			if err != nil {
				return err
			}
			text.Write(l)
			text.WriteByte('\n')
		}
		_, err := f.Write(text.Bytes())
		return err
	})
}

func newBook() *book { return &book{pins: make(map[string]pin)} }

func (b *book) put(name string, p pin) {
	if was, ok := b.pins[name]; ok {
		b.size -= len(name) + len(was.text)
	}
	b.pins[name] = p
	b.size += len(name) + len(p.text)
}

// approve puts a tool into the book, if there is room for it.
func (b *book) approve(name string, p pin) error {
	was, known := b.pins[name]
	switch {
	case len(name) > maxName:
		return fmt.Errorf("%w: its name has %d bytes, at most %d", fs.ErrNoSpace, len(name), maxName)
	case len(b.pins) == maxTools && !known:
		return fmt.Errorf("%w: %d tools of its server are remembered, and no more", fs.ErrNoSpace, maxTools)
	}
	if b.size-len(was.text)+len(p.text) > maxText {
		p.text = nil
	}
	b.put(name, p)
	return nil
}
