package trace

import "strings"

// The limits of a baggage: as much of one as everybody has to pass on.
const (
	maxBaggage = 8192 // bytes
	maxCarried = 64   // members
)

// ValidBaggage says whether s is a baggage (W3C Baggage): members
// key=value;property, with commas between them.
func ValidBaggage(s string) bool {
	if len(s) > maxBaggage || strings.Count(s, ",") >= maxCarried {
		return false
	}
	for m := range strings.SplitSeq(s, ",") {
		for i, part := range strings.Split(m, ";") {
			key, value, ok := strings.Cut(part, "=")
			if !ok && i == 0 || !isToken(strings.Trim(key, " \t")) || !isCarried(strings.Trim(value, " \t")) {
				return false
			}
		}
	}
	return true
}

// isToken says whether s is a token of HTTP.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// isCarried says whether s may be a value in a baggage.
func isCarried(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`",;\`, c) })
}
