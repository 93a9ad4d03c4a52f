package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"hutch/aggd/guard"
	"hutch/fs"
)

// How much an entry may say. More than that keeps it out.
const (
	maxEntry   = 1 << 20 // bytes of its text
	maxName    = 200     // as the registry has it
	maxTitle   = 200
	maxText    = 4096 // of a description or a value
	maxList    = 1000 // tools, tags
	maxInputs  = 200  // arguments, variables, headers
	maxProfile = 64 << 10
)

// No name has a character that means something to a shell: errors tell how to set
// an input called so.
var (
	entryName    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`)
	inputName    = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,200}$`)
	flagName     = regexp.MustCompile(`^-[A-Za-z0-9_.:=/+@,-]{1,200}$`)
)

// check says why an entry is kept out. Whoever is away from this machine may
// name only servers that are on the public Internet, over https.
func (e *Entry) check(away bool) error {
	if len(e.Name) > maxName || !entryName.MatchString(e.Name) {
		return fmt.Errorf("%.80q is no name of an entry: letters, digits, '_' and, not in front, '.' and '-', and one slash in between", e.Name)
	}
	err := errors.Join(e.checkTexts(), e.checkLists(), e.checkInputs(), e.checkURLs(away))
	if err != nil {
		return fmt.Errorf("%.80q: %w", e.Name, err)
	}
	return nil
}

// checkTexts bounds the texts, and sets what is said shorter.
func (e *Entry) checkTexts() error {
	for _, text := range []*string{&e.Title, &e.Tier, &e.Status, &e.Version} {
		if len(*text) > maxTitle {
			return fmt.Errorf("a text of %d bytes: at most %d", len(*text), maxTitle)
		}
	}
	if e.Status == "" {
		e.Status = "active"
	}
	e.Description = shorten(e.Description)
	if e.Permissions != nil && (len(e.Permissions) > maxProfile || e.Permissions[0] != '{') {
		return errors.New("its permissions are no permission profile")
	}
	if p := e.Provenance; p != nil && p.Attestation != nil && len(p.Attestation.Predicate) > maxProfile {
		p.Attestation.Predicate = nil
		e.Notes = append(e.Notes, "what was attested is longer than is shown")
	}
	return nil
}

// shorten returns a description of which there is not too much.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

func (e *Entry) checkLists() error {
	for what, list := range map[string][]string{"tools": e.Tools, "tags": e.Tags} {
		if len(list) > maxList {
			return fmt.Errorf("%d %s: at most %d", len(list), what, maxList)
		}
		if slices.ContainsFunc(list, func(s string) bool { return len(s) > maxTitle }) {
			return fmt.Errorf("one of its %s is longer than %d bytes", what, maxTitle)
		}
	}
	return nil
}

func (e *Entry) checkInputs() error {
	if n := max(len(e.Args), len(e.Env), len(e.Headers), len(e.Variables)); n > maxInputs {
		return fmt.Errorf("%d inputs of a kind: at most %d", n, maxInputs)
	}
	for i := range e.Args {
		a := &e.Args[i]
		if a.Flag != "" && !flagName.MatchString(a.Flag) {
			return fmt.Errorf("%.60q is no flag", a.Flag)
		}
		switch {
		case a.Flag != "":
			a.Name = a.Flag
		case (a.Name != "" || a.Required) && !inputName.MatchString(a.Name):
			a.Name = fmt.Sprintf("arg%d", i+1)
		}
		if err := a.check("argument"); err != nil {
			return err
		}
	}
	e.Env = slices.DeleteFunc(e.Env, func(in Input) bool {
		drop := !in.Required && !variableName.MatchString(in.Name)
		if drop {
			e.Notes = append(e.Notes, fmt.Sprintf("%.60q is no name of a variable, and is left out", in.Name))
		}
		return drop
	})
	for _, kind := range []struct {
		what string
		list []Input
		name *regexp.Regexp
	}{{"variable", e.Env, variableName}, {"header", e.Headers, inputName}, {"variable", e.Variables, inputName}} {
		seen := map[string]bool{}
		for i := range kind.list {
			in := &kind.list[i]
			if !kind.name.MatchString(in.Name) {
				return fmt.Errorf("%.60q is no name of a %s", in.Name, kind.what)
			}
			if err := in.check(kind.what); err != nil {
				return err
			}
			if seen[in.Name] {
				return fmt.Errorf("%s %s is there twice", kind.what, in.Name)
			}
			seen[in.Name] = true
		}
	}
	return nil
}

// check says what is wrong with an input but for its name.
func (in *Input) check(what string) error {
	if max(len(in.Value), len(in.Default)) > maxText || strings.ContainsRune(in.Value+in.Default, 0) {
		return fmt.Errorf("the value of %s %s is too long, or has a NUL", what, in.Name)
	}
	if len(in.Choices) > maxInputs || len(in.Variables) > maxInputs {
		return fmt.Errorf("%s %s has more choices or variables than %d", what, in.Name, maxInputs)
	}
	in.Description = shorten(in.Description)
	for i := range in.Variables {
		v := &in.Variables[i]
		if !inputName.MatchString(v.Name) {
			return fmt.Errorf("%.60q is no name of a variable", v.Name)
		}
		if err := v.check("variable"); err != nil {
			return err
		}
	}
	return nil
}

// checkURLs checks where a run would connect to.
func (e *Entry) checkURLs(away bool) error {
	if e.Remote() {
		if err := e.checkRemote(away); err != nil {
			return fmt.Errorf("its url: %w", err)
		}
	} else if err := checkRun(e.Run); err != nil {
		return err
	}
	if e.URL != "" {
		host := strings.ToLower(hostOf(e.URL))
		if a, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !a.IsLoopback() && !a.IsUnspecified()) {
			e.Notes = append(e.Notes, fmt.Sprintf("it is said to listen at %.100q, which is not in its sandbox: that is left out", e.URL))
			e.URL = ""
		}
	}
	if o := e.OAuth; o != nil {
		for _, s := range []string{o.Issuer, o.AuthorizeURL, o.TokenURL} {
			if s == "" {
				continue
			}
			if err := checkURL(s, away); err != nil {
				return fmt.Errorf("its oauth_config: %w", err)
			}
		}
	}
	for _, s := range []*string{&e.Repository, &e.Website} { // which are only shown
		if u, err := url.Parse(*s); err != nil || u.Scheme != "https" && u.Scheme != "http" || len(*s) > 1000 {
			*s = ""
		}
	}
	return nil
}

// checkRemote checks the URL of a remote server, also with what the registry puts in the
// place of its variables, or proposes for it.
func (e *Entry) checkRemote(away bool) error {
	all := e.Run
	urls := []string{e.Run}
	for _, v := range e.Variables {
		at := "{" + v.Name + "}"
		for _, text := range append([]string{v.Value, v.Default}, v.Choices...) {
			if text != "" {
				urls = append(urls, strings.ReplaceAll(e.Run, at, text))
			}
		}
		if text := cmp.Or(v.Value, v.Default); text != "" {
			all = strings.ReplaceAll(all, at, text)
		}
	}
	if len(urls) > maxInputs {
		return fmt.Errorf("%d values for its variables: at most %d", len(urls), maxInputs)
	}
	for _, u := range append(urls, all) {
		if err := checkURL(u, away); err != nil {
			return err
		}
	}
	return nil
}

// checkURL refuses a URL that is not one of a server elsewhere. {NAME} in it
// stands for what is not known yet.
func checkURL(text string, away bool) error {
	u, err := url.Parse(placeholder.ReplaceAllString(portOpen.ReplaceAllString(text, ":1"), "x"))
	switch {
	case err != nil || u.Hostname() == "" || len(text) > 2000:
		return fmt.Errorf("%.100q is no URL", text)
	case u.User != nil:
		return errors.New("it has a login in it")
	case u.Scheme != "https" && (away || u.Scheme != "http" || !guard.IsLocal(u.Hostname())):
		return fmt.Errorf("%.100q is not https", text)
	case !away:
		return nil
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return fmt.Errorf("%.100q is this machine", text)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return guard.Public.Check(a)
	}
	if _, err := guard.Host(host); err != nil {
		return err
	}
	return nil
}

// portOpen is a variable in the place of a port.
var portOpen = regexp.MustCompile(":" + placeholder.String())

// hostOf returns the host of a URL whose port may be a variable.
func hostOf(text string) string {
	u, err := url.Parse(placeholder.ReplaceAllString(text, "1"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.Hostname()
}

// plain returns an error of JSON as people read it: what is wrong, and not how Go
// calls the types.
func plain(err error) error {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		return fmt.Errorf("%s is a %s, which it may not be", fs.Shorten(cmp.Or(t.Field, "it")), t.Value)
	}
	return err
}
