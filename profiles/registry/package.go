package registry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A packageKind is a kind of package that hutch runs.
type packageKind struct {
	name   string   // as server.json has it
	scheme string   // before the package in Entry.Run; "": an image
	bases  []string // URLs of the package registry; the first is the usual one
	valid  *regexp.Regexp
	idle   []string // words for the program that runs it which change nothing here
	env    []string // flags of that program which set a variable of the environment
}

// packageKinds are tried by name. That a package's name is one, and no option,
// path or URL, keeps a registry from naming something else in its place.
var packageKinds = []packageKind{
	{
		name: "npm", scheme: "npx://", bases: []string{"https://registry.npmjs.org"},
		valid: regexp.MustCompile(`^(@[a-z0-9~][a-z0-9._~-]{0,213}/)?[A-Za-z0-9~][A-Za-z0-9._~-]{0,213}$`),
		idle:  []string{"-y", "--yes"},
	},
	{
		name: "pypi", scheme: "uvx://", bases: []string{"https://pypi.org", "https://pypi.org/simple"},
		valid: regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?(\[[A-Za-z0-9,._-]{1,100}\])?$`),
	},
	{
		name: "go", scheme: "go://", bases: []string{"https://proxy.golang.org"},
		valid: regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9-]+)+(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*){1,20}$`),
	},
	{
		name: "oci", bases: []string{"https://docker.io", "https://index.docker.io", "https://ghcr.io"},
		valid: regexp.MustCompile(`^[a-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[a-f0-9]{64})?$`),
		idle:  []string{"run", "-i", "--interactive", "-t", "--rm", "--init"}, env: []string{"-e", "--env"},
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

// A version has a number in front: what has not is a tag, as latest, which is
// another version each time. Images have tags.
var (
	packageVersion = regexp.MustCompile(`^v?[0-9][0-9A-Za-z.+_!-]{0,126}$`)
	imageTag       = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_!-]{0,127}$`)
)

// run returns how a package is run, as Entry.Run has it.
func (k *packageKind) run(name, version string) (string, error) {
	if len(name) > 500 || !k.valid.MatchString(name) {
		return "", fmt.Errorf("%.100q is no name of a package of %s", name, k.name)
	}
	form := packageVersion
	if k.scheme == "" {
		form = imageTag
	}
	switch {
	case version == "":
		return k.scheme + name, nil
	case !form.MatchString(version):
		return "", fmt.Errorf("%.60q is no version of a package", version)
	case k.scheme != "":
		return k.scheme + name + "@" + version, nil
	}
	if rest := name[strings.LastIndexByte(name, '/')+1:]; strings.ContainsAny(rest, ":@") {
		return name, nil // which has its tag
	}
	return name + ":" + version, nil
}

// checkRun refuses what is neither a package nor an image, by Entry.Run.
func checkRun(run string) error {
	for i := range packageKinds {
		k := &packageKinds[i]
		name, ok := strings.CutPrefix(run, k.scheme)
		if !ok || k.scheme == "" && strings.Contains(run, "://") {
			continue
		}
		version := ""
		if at := strings.LastIndexByte(name, '@'); at > 0 && k.scheme != "" {
			name, version = name[:at], name[at+1:]
		}
		_, err := k.run(name, version)
		return err
	}
	return fmt.Errorf("%.100q is neither a package nor an image", run)
}
