package workspace

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path"
	"unicode/utf8"
)

const (
	readDefault = 256 << 10
	readMax     = 4 << 20
	writeMax    = 16 << 20
)

type readArgs struct {
	target
	Offset   int64  `json:"offset"`
	Limit    *int64 `json:"limit"`
	Encoding string `json:"encoding"`
}

// A piece tells programs what part of a file was read.
type piece struct {
	Path       string `json:"path"`
	Size       int64  `json:"size"`
	Offset     int64  `json:"offset"`
	Length     int    `json:"length"`
	Encoding   string `json:"encoding"`
	Content    string `json:"content"`               // as text or base64: some clients show a model nothing else
	NextOffset int64  `json:"next_offset,omitempty"` // where the rest starts, if there is one
}

type blobBlock struct {
	Type     string `json:"type"`
	Resource blob   `json:"resource"`
}

type blob struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Blob     string `json:"blob"`
}

func fileRead(_ context.Context, in place, a readArgs) (*result, error) {
	limit, err := bounds(a.Offset, a.Limit, readDefault, readMax)
	if err != nil {
		return nil, err
	}
	f, info, err := openRegular(in.root, a.Path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, a.Offset, limit))
	if err != nil {
		return nil, at(a.Path, err)
	}
	p := piece{Path: a.Path, Size: max(info.Size(), a.Offset+int64(len(data))), Offset: a.Offset}
	return p.result(data, a.Encoding)
}

// result makes the answer for the bytes data.
func (p *piece) result(data []byte, encoding string) (*result, error) {
	more := p.Offset+int64(len(data)) < p.Size
	whole := data
	if more {
		whole = wholeRunes(data)
	}
	isText := utf8.Valid(whole) && (len(whole) > 0 || len(data) == 0)
	var block any
	switch {
	case encoding == "utf-8" && !isText:
		return nil, fmt.Errorf("path %q: is not UTF-8 text: read it with encoding base64", p.Path)
	case encoding == "utf-8" || encoding == "auto" && isText:
		data, p.Encoding, p.Content = whole, "utf-8", string(whole)
		block = textBlock{"text", p.Content}
	case encoding == "base64" || encoding == "auto":
		p.Encoding, p.Content = "base64", base64.StdEncoding.EncodeToString(data)
		block = blobBlock{"resource", blob{"file://" + path.Join(guestPath, p.Path), mimeType(p.Path), p.Content}}
	default:
		return nil, fmt.Errorf("argument \"encoding\": %q is none", encoding)
	}
	p.Length = len(data)
	r := &result{Content: []any{block}, Structured: p, bytes: int64(len(data))}
	if end := p.Offset + int64(len(data)); end < p.Size {
		p.NextOffset = end
		r.Content = append(r.Content, text("[bytes %d to %d of %d; go on with offset %d]", p.Offset, end, p.Size, end))
	}
	return r, nil
}

// wholeRunes returns data without the start of a rune that was cut at its end.
func wholeRunes(data []byte) []byte {
	for i := len(data) - 1; i >= 0 && i > len(data)-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return data[:i]
			}
			break
		}
	}
	return data
}

func mimeType(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// bounds checks an offset and a limit and returns the limit that holds.
func bounds(offset int64, limit *int64, standard, most int64) (int64, error) {
	if offset < 0 {
		return 0, fmt.Errorf("argument \"offset\": %d is negative", offset)
	}
	if limit == nil {
		return standard, nil
	}
	if *limit < 1 || *limit > most {
		return 0, fmt.Errorf("argument \"limit\": %d is not between 1 and %d", *limit, most)
	}
	return *limit, nil
}

// A content is what a tool is to write.
type content struct {
	Content  *string `json:"content"`
	Encoding string  `json:"encoding"`
}

type writeArgs struct {
	target
	content
	Mode    string `json:"mode"`
	Parents bool   `json:"parents"`
}

var writeFlags = map[string]int{
	"overwrite": os.O_CREATE | os.O_TRUNC,
	"create":    os.O_CREATE | os.O_EXCL,
	"append":    os.O_CREATE | os.O_APPEND,
}

type written struct {
	Path   string `json:"path"`
	Length int    `json:"length"`
	Size   int64  `json:"size"`
}

func fileWrite(_ context.Context, in place, a writeArgs) (*result, error) {
	data, err := a.data()
	if err != nil {
		return nil, err
	}
	flags, ok := writeFlags[a.Mode]
	if !ok {
		return nil, fmt.Errorf("argument \"mode\": %q is none", a.Mode)
	}
	if a.Parents {
		if err := mkdirAll(in.root, path.Dir(a.Path)); err != nil {
			return nil, err
		}
	}
	size, err := write(in.root, a.Path, flags, data)
	if err != nil {
		return nil, err
	}
	return &result{
		Content:    []any{text("wrote %d bytes to %s", len(data), a.Path)},
		Structured: written{a.Path, len(data), size},
		bytes:      int64(len(data)),
	}, nil
}

// size is about how many bytes that is.
func (a content) size() int64 {
	if a.Content == nil {
		return 0
	}
	if a.Encoding == "base64" {
		return int64(base64.StdEncoding.DecodedLen(len(*a.Content)))
	}
	return int64(len(*a.Content))
}

func (a *content) data() ([]byte, error) {
	if a.Content == nil {
		return nil, errors.New("content is missing")
	}
	data := []byte(*a.Content)
	switch a.Encoding {
	case "utf-8":
	case "base64":
		var err error
		if data, err = base64.StdEncoding.DecodeString(*a.Content); err != nil {
			return nil, fmt.Errorf("argument \"content\": %w", err)
		}
	default:
		return nil, fmt.Errorf("argument \"encoding\": %q is none", a.Encoding)
	}
	if len(data) > writeMax {
		return nil, fmt.Errorf("content of %d bytes is over the limit of %d", len(data), writeMax)
	}
	return data, nil
}

func write(root *os.Root, name string, flags int, data []byte) (size int64, err error) {
	f, _, err := openRegular(root, name, os.O_WRONLY|flags)
	if err != nil {
		return 0, err
	}
	_, err = f.Write(data)
	info, serr := f.Stat()
	if err = errors.Join(err, serr, f.Close()); err != nil {
		return 0, at(name, err)
	}
	return info.Size(), nil
}

func fileDelete(_ context.Context, in place, a target) (*result, error) {
	info, err := in.root.Lstat(a.Path)
	if err != nil {
		return nil, at(a.Path, err)
	}
	if info.IsDir() {
		return nil, at(a.Path, errors.New("is a directory"))
	}
	if err := in.root.Remove(a.Path); err != nil {
		return nil, at(a.Path, err)
	}
	return &result{Content: []any{text("deleted %s", a.Path)}}, nil
}

type createArgs struct {
	target
	Parents bool `json:"parents"`
}

func dirCreate(_ context.Context, in place, a createArgs) (*result, error) {
	var err error
	if a.Parents {
		err = mkdirAll(in.root, a.Path)
	} else if err = in.root.Mkdir(a.Path, 0o755); err != nil {
		err = isDir(in.root, a.Path, err)
	}
	if err != nil {
		return nil, err
	}
	return &result{Content: []any{text("made %s", a.Path)}}, nil
}

func mkdirAll(root *os.Root, name string) error {
	if err := root.MkdirAll(name, 0o755); err != nil {
		return isDir(root, name, err)
	}
	return nil
}

// isDir forgives the error of making a directory that is there.
func isDir(root *os.Root, name string, err error) error {
	if !errors.Is(err, fs.ErrExist) {
		return at(name, err)
	}
	if info, serr := root.Stat(name); serr != nil || !info.IsDir() {
		return at(name, err)
	}
	return nil
}
