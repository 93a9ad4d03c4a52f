package workspace

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// A Traversal is the error of a path that could lead out of the workspace.
type Traversal struct{ path, how string }

func (t *Traversal) Error() string {
	return fmt.Sprintf("\"..\" is not allowed%s: path %.200q", t.how, t.path)
}

// checkStrict refuses a path with a ".." in it, in whatever form someone behind
// us could take for one, and one that no system takes.
func checkStrict(p string) error {
	if len(p) > lookMax {
		return fmt.Errorf("path of %d bytes: at most %d", len(p), pathMax)
	}
	if how, has := dotDot(p); has {
		return &Traversal{p, how}
	}
	if len(p) > pathMax {
		return fmt.Errorf("path of %d bytes: at most %d", len(p), pathMax)
	}
	return nil
}

// lookMax is the length of the longest path that is looked into.
const lookMax = 64 << 10

// maxEncoded is how often a path may be encoded into itself to be looked into.
const maxEncoded = 8

// overlong are the encodings of "." and of slashes that UTF-8 does not allow
// and careless decoders take.
var overlong = strings.NewReplacer(
	"\xc0\xae", ".", "\xe0\x80\xae", ".", "\xf0\x80\x80\xae", ".",
	"\xc0\xaf", "/", "\xe0\x80\xaf", "/", "\xf0\x80\x80\xaf", "/",
	"\xc1\x9c", "/", "\xe0\x81\x9c", "/",
)

// dotDot tells whether a component of p is "..", or could be taken for it:
// percent-encoded, also more than once, between backslashes, in characters that
// only look otherwise, or in overlong UTF-8. How says which.
func dotDot(p string) (how string, has bool) {
	for n := 0; ; n++ {
		if hasDotDot(p, "/") {
			return how, true
		}
		if hasDotDot(p, `/\`) {
			return how + ", behind a backslash", true
		}
		if plain := norm.NFKC.String(overlong.Replace(p)); hasDotDot(plain, `/\`) {
			return how + ", in other characters", true
		}
		next := unescape(p)
		if next == p {
			return "", false
		}
		if n == maxEncoded {
			return ", nor is what is encoded so often", true
		}
		p, how = next, ", percent-encoded"
	}
}

// hasDotDot tells whether a part of p between separators is "..". Blanks and
// NULs at its end are dropped, as some systems do.
func hasDotDot(p, separators string) bool {
	if !strings.Contains(p, "..") {
		return false
	}
	for part := range strings.FieldsFuncSeq(p, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if strings.TrimRight(part, " \x00") == ".." {
			return true
		}
	}
	return false
}

// unescape decodes the percent-encoded bytes of p once. What is no such byte
// stays as it is.
func unescape(p string) string {
	if !strings.Contains(p, "%") {
		return p
	}
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if p[i] == '%' && i+2 < len(p) {
			if c, err := hex.DecodeString(p[i+1 : i+3]); err == nil {
				b.Write(c)
				i += 2
				continue
			}
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

// A glob is a pattern for paths: * and ? and [a-z] within a part of them, and **
// for any number of parts.
type glob []string

// parseGlob reads a pattern, relative to the workspace or below /workspace.
func parseGlob(pattern string) (glob, error) {
	if pattern == "" {
		return nil, errors.New("pattern is missing")
	}
	t := target{Path: pattern, strict: true}
	if err := t.clean(); err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	parts := strings.Split(t.Path, "/")
	for _, p := range parts {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("pattern %.200q: %w", pattern, err)
		}
	}
	return parts, nil
}

// matches tells whether a path is what the glob says. It looks at each part of
// it once for each part of the pattern, whatever these are.
func (g glob) matches(name string) bool {
	on := make([]bool, len(g)+1) // on[i]: the first i parts of g match what was seen
	on[0] = true
	g.skip(on)
	for part := range strings.SplitSeq(name, "/") {
		next := make([]bool, len(on))
		for i, p := range g {
			if !on[i] {
				continue
			}
			if p == "**" {
				next[i] = true
			} else if ok, _ := path.Match(p, part); ok {
				next[i+1] = true
			}
		}
		on = next
		g.skip(on)
	}
	return on[len(g)]
}

// skip passes over each ** that was reached: it also stands for nothing.
func (g glob) skip(on []bool) {
	for i, p := range g {
		if on[i] && p == "**" {
			on[i+1] = true
		}
	}
}
