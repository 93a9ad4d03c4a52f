package runconfig

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"hutch/aggd/guard"
	"hutch/fs"
)

// A Kind is a kind of source.
type Kind string

// The kinds of sources.
const (
	Named  Kind = "name"   // an entry of a registry or, where none has it, an image
	Image  Kind = "image"  // of an OCI registry
	NPX    Kind = "npx"    // a package of npm
	UVX    Kind = "uvx"    // a package of PyPI
	Go     Kind = "go"     // a package of a Go module
	Remote Kind = "remote" // a server that runs elsewhere
	Here   Kind = "here"   // an image that is below images, by its name there
	Own    Kind = "own"    // a program of this machine
)

// A Source is where a server comes from.
type Source struct {
	Kind Kind
	// Name is the name of the entry or package, the reference of the image with its
	// tag and digest, or the URL; of a program, and of a package of Go that is a folder of
	// this machine, its path.
	Name    string
	Extras  string // of a package of PyPI, separated by commas
	Version string // of a package; "": the newest
}

// schemes are the beginnings of a REF that have two slashes.
var schemes = []struct {
	text string
	read func(rest string) (Source, error)
}{
	{"npx://", parseNPX},
	{"uvx://", parseUVX},
	{"go://", parseGo},
	{"https://", func(rest string) (Source, error) { return parseRemote("https://" + rest) }},
	{"http://", func(rest string) (Source, error) { return parseRemote("http://" + rest) }},
	{"image:", parseHere},
	{"/", func(rest string) (Source, error) { return parsePath(Own, "/"+rest) }},
}

const maxSource = 1024

// ParseSource reads a REF: a name, an image, npx://PACKAGE, uvx://PACKAGE,
// go://PACKAGE, each with @VERSION or without, a URL, image:NAME, or the path of a program
// or, behind go://, of a folder.
func ParseSource(ref string) (Source, error) {
	s, err := parseSource(ref)
	if err != nil {
		return Source{}, fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	return s, nil
}

func parseSource(ref string) (Source, error) {
	switch {
	case ref == "":
		return Source{}, errors.New("a server's source is empty: write a name, an image, npx://PACKAGE, uvx://PACKAGE, go://MODULE, https://URL, image:NAME or the path of a program")
	case len(ref) > maxSource:
		return Source{}, fmt.Errorf("a server's source has %d bytes: at most %d", len(ref), maxSource)
	case strings.HasPrefix(ref, "./"), strings.HasPrefix(ref, "../"):
		return Source{}, fmt.Errorf("%.64q is relative to nothing here: write the whole path, from / on", ref)
	case !isPath(ref) && strings.ContainsFunc(ref, func(c rune) bool { return c <= ' ' || c >= unicode.MaxASCII }):
		return Source{}, errors.New("a server's source has characters in it that are blank, not shown or not ASCII")
	}
	for _, s := range schemes {
		if rest, ok := strings.CutPrefix(ref, s.text); ok {
			return s.read(rest)
		}
	}
	if scheme, _, ok := strings.Cut(ref, "://"); ok {
		return Source{}, fmt.Errorf("a server's source begins with %.32s://: write npx://, uvx://, go:// or https://", scheme)
	}
	if isName.MatchString(ref) {
		return Source{Kind: Named, Name: ref}, nil
	}
	return Source{Kind: Image, Name: ref}.AsImage()
}

// isName is the name of an entry of a registry: a word, or two with a slash
// between them.
var isName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$`)

// isImage is a reference of the distribution specification.
var isImage = regexp.MustCompile(`^(((localhost|[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9-]+)+)(:[0-9]{1,5})?|[A-Za-z0-9][A-Za-z0-9-]*:[0-9]{1,5})/)?` +
	`[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*` +
	`(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64})?$`)

// AsImage returns the image that a name is, where no registry has it. Others it
// returns as they are.
func (s Source) AsImage() (Source, error) {
	if s.Kind != Named && s.Kind != Image {
		return s, nil
	}
	if !isImage.MatchString(s.Name) {
		return Source{}, fmt.Errorf("%.64q is no image: write one as ghcr.io/OWNER/NAME:TAG", s.Name)
	}
	return Source{Kind: Image, Name: s.Name}, nil
}

var (
	npmName     = regexp.MustCompile(`^(@[A-Za-z0-9~-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*$`)
	npmVersion  = regexp.MustCompile(`^[~^]?[A-Za-z0-9][A-Za-z0-9.+-]*$`)
	pypiName    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	pypiExtras  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(,[A-Za-z0-9][A-Za-z0-9._-]*)*$`)
	pypiVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+!-]*$`)
	goPackage   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9-]+)+(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)
	goVersion   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+/_-]*$`)
)

// parseNPX reads [@SCOPE/]NAME[@VERSION].
func parseNPX(rest string) (Source, error) {
	s := Source{Kind: NPX, Name: rest}
	if at := strings.LastIndexByte(rest, '@'); at > 0 {
		s.Name, s.Version = rest[:at], rest[at+1:]
		if !npmVersion.MatchString(s.Version) {
			return Source{}, fmt.Errorf("npx://%.64s: %.32q is no version or tag like 1.2.3 or latest", rest, s.Version)
		}
	}
	if !npmName.MatchString(s.Name) || len(s.Name) > 214 {
		return Source{}, fmt.Errorf("npx://%.64s is no package of npm: write npx://NAME or npx://@SCOPE/NAME, with @VERSION if you like", rest)
	}
	return s, nil
}

// parseUVX reads NAME[[EXTRA,…]][@VERSION] and what pip has for @, ==.
func parseUVX(rest string) (Source, error) {
	s := Source{Kind: UVX}
	name, version, versioned := strings.Cut(strings.Replace(rest, "==", "@", 1), "@")
	if versioned && !pypiVersion.MatchString(version) {
		return Source{}, fmt.Errorf("uvx://%.64s: %.32q is no version like 1.2.3", rest, version)
	}
	s.Name, s.Version = name, version
	if inside, ok := strings.CutSuffix(name, "]"); ok {
		s.Name, s.Extras, _ = strings.Cut(inside, "[")
		if !pypiExtras.MatchString(s.Extras) {
			return Source{}, fmt.Errorf("uvx://%.64s has no list like [cli,http] in its brackets", rest)
		}
	}
	if !pypiName.MatchString(s.Name) {
		return Source{}, fmt.Errorf("uvx://%.64s is no package of PyPI: write uvx://NAME, with @VERSION if you like", rest)
	}
	return s, nil
}

// parseGo reads MODULE[/PACKAGE][@VERSION].
func parseGo(rest string) (Source, error) {
	s := Source{Kind: Go}
	var versioned bool
	s.Name, s.Version, versioned = strings.Cut(rest, "@")
	switch {
	case strings.HasPrefix(rest, "/"):
		return parsePath(Go, rest)
	case strings.HasPrefix(rest, "."):
		return Source{}, fmt.Errorf("go://%.64s is relative to nothing here: write the whole path of the folder, as go:///src/prog", rest)
	case versioned && (!goVersion.MatchString(s.Version) || strings.Contains(s.Version, "..")):
		return Source{}, fmt.Errorf("go://%.64s: %.32q is no version like v1.2.3 or latest", rest, s.Version)
	case !goPackage.MatchString(s.Name):
		return Source{}, fmt.Errorf("go://%.64s is no package of a module: write go://github.com/OWNER/NAME/cmd/NAME, with @VERSION if you like", rest)
	}
	return s, nil
}

// parseRemote reads a URL. It may hold a secret, so it is not told in the error.
func parseRemote(text string) (Source, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Source{}, errors.New("a server's URL cannot be read: write https://HOST/PATH")
	}
	if _, err := guard.Host(u.Hostname()); err != nil {
		return Source{}, fmt.Errorf("a server's URL: %w: write https://HOST/PATH", err)
	}
	switch {
	case u.User != nil:
		return Source{}, errors.New("a server's URL has a user in it: put a token where bearer_token tells of it")
	case strings.Contains(text, "#"):
		return Source{}, errors.New("a server's URL has a # in it: leave it out with what follows")
	}
	return Source{Kind: Remote, Name: text}, nil
}

// isPath tells whether a REF is the path of something on this machine.
func isPath(ref string) bool { return strings.HasPrefix(strings.TrimPrefix(ref, "go://"), "/") }

// parsePath reads the path of a program, or of the folder of a package of Go.
func parsePath(kind Kind, name string) (Source, error) {
	switch {
	case path.Clean(name) != name || name == "/":
		return Source{}, fmt.Errorf("%.64q is no plain path: write %.64q", name, path.Clean(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return c == ':' || !unicode.IsPrint(c) }):
		return Source{}, fmt.Errorf("%.64q has a colon or characters in it that are not shown, and cannot be mounted", name)
	}
	return Source{Kind: kind, Name: name}, nil
}

// parseHere reads the name of an image that is below images.
func parseHere(rest string) (Source, error) {
	if err := fs.CheckWord("image", rest); err != nil {
		return Source{}, fmt.Errorf("image:%.64s is no name of an image below images: hutch images lists them", rest)
	}
	return Source{Kind: Here, Name: rest}, nil
}

// Path returns the path of this machine that s is; "" of another source.
func (s Source) Path() string {
	if (s.Kind == Own || s.Kind == Go) && isPath(s.Name) {
		return s.Name
	}
	return ""
}

// String returns the REF for s.
func (s Source) String() string {
	b := s.Name
	if s.Extras != "" {
		b += "[" + s.Extras + "]"
	}
	if s.Version != "" {
		b += "@" + s.Version
	}
	switch s.Kind {
	case NPX, UVX, Go:
		return string(s.Kind) + "://" + b
	case Here:
		return "image:" + b
	}
	return b
}
