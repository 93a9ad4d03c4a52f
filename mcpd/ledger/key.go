package ledger

import (
	"bytes"
	"slices"
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

// A trigram is three letters of five bits each; others than letters fall
// where they may.
const trigrams = 1 << 15

// hints marks the trigrams with which names start, and the words before
// credentials. A word without one is not looked at.
var hints = func() (t [trigrams / 64]uint64) {
	words := append([]string{"bearer", "basic"}, whole...)
	for _, n := range names {
		words = append(words, n.word)
	}
	for _, w := range words {
		h := uint16(w[0]&31)<<10 | uint16(w[1]&31)<<5 | uint16(w[2]&31)
		t[h/64] |= 1 << (h % 64)
	}
	return t
}()

// nameMax is how much of a long key is looked at: its end.
const nameMax = 64

// keySecrecy tells whether a key names a secret. Case, dashes and
// underscores do not count.
func keySecrecy(key []byte) secrecy {
	if len(key) > nameMax {
		key = key[len(key)-nameMax:]
	}
	var room [nameMax]byte
	low := room[:0]
	for _, c := range key {
		if c == '-' || c == '_' {
			continue
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		low = append(low, c)
	}
	if slices.Contains(whole, string(low)) {
		return secret
	}
	for _, n := range names {
		if bytes.Contains(low, []byte(n.word)) && !slices.Contains(harmless, string(low)) {
			return n.is
		}
	}
	return 0
}
