package runconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hutch/aggd/rawjson"
	"hutch/mcpd/redact"
	"hutch/profiles/reference"
)

// harmless are the last words of names that name what is about a secret, not one:
// TOKEN_FILE, token_url.
var harmless = []string{
	"count", "enabled", "endpoint", "env", "expires", "expiry", "file", "format", "header", "host", "id", "interval", "length", "lifespan", "limit",
	"max", "method", "min", "mode", "name", "names", "path", "policy", "prefix", "provider", "ref", "required", "size", "strategy", "ttl", "type", "uri", "url", "var",
}

// mayBeSecret tells whether value may be a secret's, by what it looks like or by the
// name of what it is the value of; "" is no name.
func mayBeSecret(name, value string) bool {
	if value == "" || reference.Is(value) || placeholder.MatchString(value) {
		return false
	}
	if _, _, err := reference.ParseTarget(value); err == nil {
		return false
	}
	look := new(redact.Redactor)
	if look.Redact(value) != value {
		return true
	}
	if name == "" || slices.Contains(harmless, lastWord(name)) {
		return false
	}
	said := string(rawjson.Quote(value))
	if _, err := strconv.ParseFloat(value, 64); err == nil || value == "true" || value == "false" {
		said = value // max_tokens
	}
	text := fmt.Sprintf("{%s:%s}", rawjson.Quote(name), said)
	return look.Redact(text) != text
}

// placeholder is what stands for a value that nobody has put there: registries have
// some that no variable is for.
var placeholder = regexp.MustCompile(`^\{[A-Za-z0-9_.-]+\}$`)

// NamesSecret tells whether a text under a name is taken for a secret, whatever its words
// are; a number may not be.
func NamesSecret(name string) bool { return mayBeSecret(name, "value") }

// lastWord returns the last word of a name, in lower case: of TOKEN_FILE, token-file
// and tokenFile file.
func lastWord(name string) string {
	name = name[strings.LastIndexAny(name, "_-.")+1:]
	for i := len(name) - 1; i > 0; i-- {
		if isUpper(name[i]) && !isUpper(name[i-1]) {
			name = name[i:]
			break
		}
	}
	return strings.ToLower(name)
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// unlooked are fields whose texts are looked at by who reads them, or are for
// people and programs and full of words that name secrets.
var unlooked = []string{"authz_config", "cmd_args", "permission_profile", "secrets", "tools_override", "volumes"}

// prose are names of texts like that, wherever they stand.
var prose = []string{"description", "entities_json", "policies"}

// secretf is faultf for a field that holds a secret's value.
func secretf(path, format string, args ...any) *Fault {
	fault := faultf(path, format, args...)
	fault.Secret = true
	return fault
}

// holdsSecret tells whether a text may have a secret's value in it that is no config:
// what is wrong with it may have been found before.
func holdsSecret(text []byte) bool {
	if hideWords(string(text)) != string(text) {
		return true
	}
	isObject := rawjson.Object(text, maxDepth, func([]byte, int, int) error { return nil }) == nil
	return isObject && eachText(nil, "", text, func(_ []string, name, text string) *Fault {
		if !slices.Contains(prose, name) && mayBeSecret(name, text) {
			return secretf(name, "")
		}
		return nil
	}) != nil
}

// hideWords returns a text without words that look like a well-known kind of key, whatever
// their names.
func hideWords(text string) string {
	look := new(redact.Redactor)
	return words.ReplaceAllStringFunc(text, look.Redact)
}

var words = regexp.MustCompile(`[^\s"'\x60,;:={}\[\]\\]+`)

// checkSecrets refuses a field at a path that has a secret's value in it. What has a
// row of its own below is not looked at here.
func checkSecrets(f *field, at []string, value []byte) *Fault {
	switch {
	case slices.Contains(unlooked, at[0]) || f != nil && f.use == parts && value[0] == '{':
		return nil
	case strings.Join(at, ".") == "header_forward.add_headers_from_secret":
		return eachText(at, "", value, func(at []string, _, text string) *Fault {
			if mayBeSecret("", text) {
				return secretf(strings.Join(at, "."), "holds a secret, not its name: %s", howTo(at))
			}
			return nil
		})
	}
	return eachText(at, at[len(at)-1], value, func(at []string, name, text string) *Fault {
		if !slices.Contains(prose, name) && mayBeSecret(name, text) {
			return secretf(strings.Join(at, "."), "holds what looks like a secret: %s", howTo(at))
		}
		return nil
	})
}

// eachText calls f with every text of a value: where it stands and the name of the
// member that it belongs to.
func eachText(at []string, name string, value []byte, f func(at []string, name, text string) *Fault) (fault *Fault) {
	switch value[0] {
	case '"':
		return f(at, name, rawjson.String(value))
	case '[':
		i := -1
		for e := range rawjson.Each(value) {
			i++
			element := slices.Clone(at)
			element[len(at)-1] += fmt.Sprintf("[%d]", i)
			if fault = eachText(element, name, e, f); fault != nil {
				break
			}
		}
	case '{':
		rawjson.Walk(value, func(key []byte, start, end int) {
			if fault == nil {
				fault = eachText(append(at[:len(at):len(at)], string(key)), string(key), value[start:end], f)
			}
		})
	}
	return fault
}

// howTo says what to write in place of a secret at a path.
func howTo(at []string) string {
	name := at[len(at)-1]
	const set = ", and keep it with hutch secret set %[1]s"
	switch path := strings.Join(at, "."); {
	case at[0] == "env_vars":
		return fmt.Sprintf("take it out, write \"%[1]s,target=%[1]s\" in secrets (hutch server run -secret %[1]s,target=%[1]s)"+set, name)
	case at[0] == "header_forward":
		return "write the name of a secret in header_forward.add_headers_from_secret, and keep it with hutch secret set NAME"
	case path == "remote_auth_config.bearer_token":
		return `write "NAME,target=bearer_token", and keep it with hutch secret set NAME`
	case path == "remote_auth_config.client_secret":
		return `write "NAME,target=client_secret", and keep it with hutch secret set NAME`
	case at[0] == "remote_url":
		return "write the name of a secret in header_forward.add_headers_from_secret or in remote_auth_config.bearer_token"
	case at[0] == "cmd_args":
		return "take it out, and have the server read a variable that secrets names"
	}
	return "take it out: nothing here reads it"
}

// checkArgs refuses words of a command that hold a secret's value.
func checkArgs(args []string) *Fault {
	flag := ""
	for i, arg := range args {
		name, value, valued := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		secret := mayBeSecret("", arg)
		switch {
		case strings.HasPrefix(arg, "-") && valued:
			secret = secret && mayBeSecret("", value) || mayBeSecret(name, value)
			flag = ""
		case strings.HasPrefix(arg, "-"):
			flag = name
		default:
			secret = secret || flag != "" && mayBeSecret(flag, arg)
			flag = ""
		}
		if secret {
			return secretf(fmt.Sprintf("cmd_args[%d]", i), "holds what looks like a secret: %s", howTo([]string{"cmd_args"}))
		}
	}
	return nil
}
