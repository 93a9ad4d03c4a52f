package registry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hutch/profiles/runconfig"
)

// A packageKind is a kind of package that hutch runs.
type packageKind struct {
	name  string // as server.json has it
	kind  runconfig.Kind
	bases []string // URLs of the package registry; the first is the usual one
	idle  []string // words for the program that runs it which change nothing here
	env   []string // flags of that program which set a variable of the environment
}

// packageKinds are found by name.
var packageKinds = []packageKind{
	{name: "npm", kind: runconfig.NPX, bases: []string{"https://registry.npmjs.org"}, idle: []string{"-y", "--yes"}},
	{name: "pypi", kind: runconfig.UVX, bases: []string{"https://pypi.org", "https://pypi.org/simple"}},
	{name: "go", kind: runconfig.Go, bases: []string{"https://proxy.golang.org"}},
	{
		name: "oci", kind: runconfig.Image, bases: []string{"https://docker.io", "https://index.docker.io", "https://ghcr.io"},
		idle: []string{"run", "-i", "--interactive", "-t", "--rm", "--init"}, env: []string{"-e", "--env"},
	},
}

// packageKindOf returns the kind of that name, or nil.
func packageKindOf(name string) *packageKind {
	if name == "docker" { // before 2025-09
		name = "oci"
	}
	at := slices.IndexFunc(packageKinds, func(k packageKind) bool { return k.name == name })
	if at < 0 {
		return nil
	}
	return &packageKinds[at]
}

// packageVersion is a version: it has a number in front. What has not is a tag, as
// latest, which is another version each time. Images have tags.
var packageVersion = regexp.MustCompile(`^v?[0-9][0-9A-Za-z.+_!-]{0,126}$`)

// run returns how a package of the registry at base is run, as Entry.Run has it; base is in
// small letters, and may be "". That its name is one, and no option, path or URL, keeps a
// registry from naming something else in its place.
func (k *packageKind) run(name, version, base string) (string, error) {
	if err := k.checkBase(name, base); err != nil {
		return "", err
	}
	s := runconfig.Source{Kind: k.kind, Name: name, Version: version}
	if k.kind == runconfig.Image { // whose registry and tag are of its name
		s.Name, s.Version = imageOf(name, version, base), ""
	}
	if err := checkVersion(s.Version); err != nil {
		return "", err
	}
	if is, err := parseRun(s.String()); err != nil || is.Kind != s.Kind || is.Version != s.Version {
		return "", fmt.Errorf("%.100q is no name of a package of %s", s.Name, k.name)
	}
	return s.String(), nil
}

// checkBase refuses a package of another registry than those that packages are got from, and
// an image whose name has another in front than base, which may be "".
func (k *packageKind) checkBase(name, base string) error {
	host := ""
	if k.kind == runconfig.Image {
		host = imageHost(name)
	}
	switch {
	case base == "", host != "" && host == imageHost(strings.TrimPrefix(base, "https://")+"/"):
		return nil
	case host != "":
		return fmt.Errorf("its package is in %.100q, and its name says %.100q: only one can be right", base, host)
	case !slices.Contains(k.bases, base):
		return fmt.Errorf("its package is in %.100q, and %s packages are got from %s", base, k.name, k.bases[0])
	}
	return nil
}

// imageHost returns the host in front of the name of an image, in small letters, or "". That
// of Docker Hub has two names.
func imageHost(name string) string {
	first, _, path := strings.Cut(strings.ToLower(name), "/")
	switch {
	case !path || first != "localhost" && !strings.ContainsAny(first, ".:"):
		return ""
	case first == "index.docker.io":
		return "docker.io"
	}
	return first
}

// imageOf returns the reference of an image. Before 2025-10-11 its name could stand without
// its registry, which is base then: alone it would be that of an image of Docker Hub, where
// others may have it.
func imageOf(name, version, base string) string {
	if host := strings.TrimPrefix(base, "https://"); host == "ghcr.io" && imageHost(name) == "" {
		name = host + "/" + name
	}
	switch last := name[strings.LastIndexByte(name, '/')+1:]; {
	case version == "" || strings.ContainsAny(last, ":@"):
		return name
	case strings.HasPrefix(version, "sha256:"):
		return name + "@" + version
	}
	return name + ":" + version
}

// hasVersion says whether the reference of an image has the version, if there is one, as its
// tag or its digest.
func hasVersion(reference, version string) bool {
	return version == "" || strings.HasSuffix(reference, "@"+version) || strings.Contains(reference+"@", ":"+version+"@")
}

func checkVersion(version string) error {
	if version != "" && !packageVersion.MatchString(version) {
		return fmt.Errorf("%.60q is no version of a package", version)
	}
	return nil
}

// parseRun reads Entry.Run. What is no package and no URL is an image.
func parseRun(run string) (runconfig.Source, error) {
	s, err := runconfig.ParseSource(run)
	if err != nil {
		return s, err
	}
	return s.AsImage()
}

// checkRun refuses what is neither a package nor an image, by Entry.Run.
func checkRun(run string) error {
	s, err := parseRun(run)
	if err != nil {
		return err
	}
	return checkVersion(s.Version)
}
