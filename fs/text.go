package fs

import "strings"

// leadWith returns s with prefix in front, moved there if it stands inside.
func leadWith(prefix, s string) string {
	switch {
	case strings.HasPrefix(s, prefix):
		return s
	case strings.HasSuffix(s, ": "+prefix):
		return prefix + ": " + strings.TrimSuffix(s, ": "+prefix)
	}
	return prefix + ": " + strings.Replace(s, prefix+": ", "", 1)
}

// oneLine returns s with its line ends made into "; ".
func oneLine(s string) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "; ")
}
