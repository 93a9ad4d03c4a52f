package registry

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"hutch/aggd/guard"
	"hutch/fs"
)

// An Origin is where a source of entries is.
type Origin struct {
	Kind  string // builtin, file, url or api
	Where string // a path or a URL; "" of builtin
}

// Kinds are the kinds of sources.
var Kinds = []string{"builtin", "file", "url", "api"}

// String returns the source as ctl takes and tells it.
func (o Origin) String() string {
	if o.Where == "" {
		return o.Kind
	}
	return o.Kind + " " + fs.Quote(o.Where)
}

// shown returns the source without what follows a ? in its URL, which may be a secret.
func (o Origin) shown() string {
	if at := strings.IndexByte(o.Where, '?'); at >= 0 && o.Kind == "url" {
		o.Where = o.Where[:at] + "?…"
	}
	return o.String()
}

// Check says why there can be no such source.
func (o Origin) Check() error {
	switch o.Kind {
	case "builtin":
		if o.Where != "" {
			return fmt.Errorf("%w: source builtin is nowhere else: leave out %q", fs.ErrInvalid, fs.Shorten(o.Where))
		}
		return nil
	case "file":
		if !filepath.IsAbs(o.Where) {
			return fmt.Errorf("%w: path %q of a registry is not absolute", fs.ErrInvalid, fs.Shorten(o.Where))
		}
		if strings.ContainsFunc(o.Where, unicode.IsControl) { // a source is a line of a file and of what status tells
			return fmt.Errorf("%w: path %q of a registry has a control character: call the file something else", fs.ErrInvalid, fs.Shorten(o.Where))
		}
		return nil
	case "url", "api":
		return o.checkURL()
	}
	return fmt.Errorf("%w: source %q is none of %s", fs.ErrInvalid, fs.Shorten(o.Kind), strings.Join(Kinds, ", "))
}

func (o Origin) checkURL() error {
	u, err := url.Parse(o.Where)
	switch {
	case err != nil || u.Hostname() == "" || u.Fragment != "" || len(o.Where) > 2000:
		return fmt.Errorf("%w: %q is no URL like https://host/path", fs.ErrInvalid, fs.Shorten(o.Where))
	case u.User != nil:
		return fmt.Errorf("%w: the URL of a registry has a login in it: leave it out", fs.ErrInvalid)
	case o.Kind == "api" && u.RawQuery != "":
		return fmt.Errorf("%w: the URL of an API ends before the ?", fs.ErrInvalid)
	case u.Scheme == "https", u.Scheme == "http" && guard.IsLocal(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%w: %q is not https, which only a registry on this machine need not be", fs.ErrInvalid, fs.Shorten(o.Where))
}

// away tells whether the source is not on this machine, so that what it says of
// this machine's addresses is a lie.
func (o Origin) away() bool {
	if o.Kind != "url" && o.Kind != "api" {
		return false
	}
	u, err := url.Parse(o.Where)
	return err != nil || !guard.IsLocal(u.Hostname())
}
