package redact

import (
	"slices"
	"strings"
)

// How the value of a key that names a secret is treated.
type secrecy byte

const (
	secret  secrecy = 1 << iota // the value is a secret
	counted                     // unless it is a number in JSON: max_tokens, cookies
	wide                        // and bare it goes to the end of the line: Authorization
)

// names are the words that make a key the name of a secret, wherever in it
// they stand.
var names = []struct {
	word string
	is   secrecy
}{
	{"password", secret},
	{"passwd", secret},
	{"passphrase", secret},
	{"privatekey", secret},
	{"secret", secret},
	{"signingkey", secret},
	{"token", secret | counted},
	{"apikey", secret},
	{"authorization", secret | wide},
	{"accesskey", secret},
	{"accountkey", secret},
	{"credential", secret | counted},
	{"cookie", secret | counted | wide},
	{"encryptionkey", secret},
	{"masterkey", secret},
}

// whole are the words that name a secret only alone.
var whole = []string{"auth", "pwd", "pass", "bearer"}

// harmless are keys that would be taken for names of secrets.
var harmless = []string{"progresstoken", "tokenizer", "tokeniser"}

// nameMax is how much of a long key is looked at: its end.
const nameMax = 64

// keySecrecy tells whether a key names a secret. Case, dashes and
// underscores do not count.
func keySecrecy(key string) secrecy {
	key = key[max(0, len(key)-nameMax):]
	var room [nameMax]byte
	word := room[:0]
	for i := range len(key) {
		c := key[i]
		if c == '-' || c == '_' {
			continue
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		word = append(word, c)
	}
	low := string(word)
	if slices.Contains(whole, low) {
		return secret
	}
	for _, n := range names {
		if strings.Contains(low, n.word) && !slices.Contains(harmless, low) {
			return n.is
		}
	}
	return 0
}
