package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"hutch/mcpd/dotdot"
)

// workspace is where relative paths start.
const workspace = "/workspace"

// A refusal is why a check refuses something.
type refusal struct {
	code   *Code
	reason string
}

func refuse(code *Code, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// readings returns the absolute paths, clean, that programs may take text for:
// as it stands, with what is percent-encoded decoded, once or several times, and
// with the look-alikes of ASCII characters as those. A check must hold for all
// of them.
func readings(text string) ([]string, *refusal) {
	stages, whole := dotdot.Stages(text)
	if !whole {
		return nil, refuse(PathOutsideBoundary, "path %.200q is percent-encoded too often", text)
	}
	if slices.ContainsFunc(stages, dotdot.In) {
		return nil, refuse(PathTraversalAttempt, "path %.200q has .. in it", text)
	}
	var all []string
	for _, s := range stages {
		if why := unreadable(s); why != "" {
			return nil, refuse(PathOutsideBoundary, "path %.200q %s", text, why)
		}
		for _, form := range []string{s, norm.NFKC.String(s)} {
			if !path.IsAbs(form) {
				form = workspace + "/" + form
			}
			if form = path.Clean(form); !slices.Contains(all, form) {
				all = append(all, form)
			}
		}
	}
	return all, nil
}

// unreadable says why programs will not agree on what a path means.
func unreadable(s string) string {
	switch {
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has a NUL or another control character in it"
	case strings.Contains(s, `\`):
		return "has a backslash in it: write slashes"
	case strings.HasPrefix(s, "~"):
		return "starts with ~, which some take for a home: write it from the root"
	case strings.Contains(s, "://") || strings.HasPrefix(strings.ToLower(s), "file:"):
		return "is a URL: write a path"
	}
	return ""
}

// below tells whether a clean path is dir or below it.
func below(p, dir string) bool {
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// compilePath returns the clean path that a profile says. Its error goes on
// after what says it.
func compilePath(text string) (string, error) {
	if text == "" || strings.ContainsAny(text, "*?[") {
		return "", fmt.Errorf("has %q: write a folder like /workspace, which is what is below it, too", text)
	}
	all, refused := readings(text)
	if refused != nil {
		return "", fmt.Errorf("has %s", refused.reason)
	}
	if len(all) > 1 {
		return "", fmt.Errorf("has %q, which can be read as %q, too: write it plainly", text, all[1])
	}
	return all[0], nil
}

// checkPath refuses a path that may be outside of all dirs.
func checkPath(dirs []string, p named) *refusal {
	all, refused := readings(p.text)
	if refused != nil {
		return refused
	}
	for _, reading := range all {
		if !slices.ContainsFunc(dirs, func(dir string) bool { return below(reading, dir) }) {
			return refuse(PathOutsideBoundary, "path %.200q of %s is outside of %s", reading, p.where, orNothing(dirs))
		}
	}
	return nil
}

// orNothing returns a list for people to read.
func orNothing(list []string) string {
	if len(list) == 0 {
		return "what is allowed, which is nothing"
	}
	return strings.Join(list, ", ")
}
