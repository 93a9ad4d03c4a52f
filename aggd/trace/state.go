package trace

import "strings"

// The limits of a tracestate.
const (
	maxState   = 512 // bytes, of which the specification has everybody pass on as many
	maxMembers = 32
	maxKey     = 256
	maxValue   = 256
)

// ValidState says whether s is a tracestate: members key=value, with commas
// between them.
func ValidState(s string) bool {
	if s == "" || len(s) > maxState {
		return false
	}
	members := strings.Split(s, ",")
	if len(members) > maxMembers {
		return false
	}
	seen := make(map[string]bool, len(members))
	for _, m := range members {
		if m = strings.Trim(m, " \t"); m == "" {
			continue
		}
		key, value, ok := strings.Cut(m, "=")
		if !ok || seen[key] || !validKey(key) || !validValue(value) {
			return false
		}
		seen[key] = true
	}
	return len(seen) > 0
}

func validKey(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	return s != "" && len(s) <= maxKey && strings.Trim(s[:1], letters) == "" && strings.Trim(s, letters+"_-*/@") == ""
}

func validValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '=' {
			return false
		}
	}
	return s != "" && len(s) <= maxValue
}
