package query

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// registerOwn puts functions in the place of SQLite's own that take the square of
// their arguments' lengths, during which nothing can end them.
func registerOwn(c *sqlite3.Conn) error {
	const flags = sqlite3.DETERMINISTIC | sqlite3.INNOCUOUS
	err := errors.Join(c.CreateFunction("instr", 2, flags, instr), c.CreateFunction("replace", 3, flags, replace))
	for name, trim := range map[string]func(string, func(rune) bool) string{
		"trim": strings.TrimFunc, "ltrim": strings.TrimLeftFunc, "rtrim": strings.TrimRightFunc,
	} {
		err = errors.Join(err, c.CreateFunction(name, 2, flags, trimmed(trim)))
	}
	return err
}

// trimmed returns the function that takes from the ends of the first text what
// characters the second has.
func trimmed(trim func(string, func(rune) bool) string) sqlite3.ScalarFunction {
	return func(to sqlite3.Context, args ...sqlite3.Value) {
		if args[0].Type() == sqlite3.NULL || args[1].Type() == sqlite3.NULL {
			to.ResultNull()
			return
		}
		set := map[rune]bool{}
		for _, r := range args[1].Text() {
			set[r] = true
		}
		resultText(to, []byte(trim(args[0].Text(), func(r rune) bool { return set[r] })))
	}
}

// resultText gives SQLite a text, for which there may be no memory.
func resultText(to sqlite3.Context, text []byte) {
	var err error
	func() {
		defer recovered(&err)
		to.ResultRawText(text)
	}()
	if err != nil {
		to.ResultError(err)
	}
}

// instr returns where the second text begins in the first, in characters, or in
// bytes of two blobs; 1 is the first, 0 nowhere.
func instr(to sqlite3.Context, args ...sqlite3.Value) {
	if args[0].Type() == sqlite3.NULL || args[1].Type() == sqlite3.NULL {
		to.ResultNull()
		return
	}
	if args[0].Type() == sqlite3.BLOB && args[1].Type() == sqlite3.BLOB {
		within := args[0].Blob(nil)
		to.ResultInt(bytes.Index(within, args[1].RawBlob()) + 1)
		return
	}
	within := []byte(args[0].Text())
	at := bytes.Index(within, args[1].RawText())
	to.ResultInt(utf8.RuneCount(within[:max(at, 0)]) + min(at+1, 1))
}

// replace returns the first text with the third wherever it has the second.
func replace(to sqlite3.Context, args ...sqlite3.Value) {
	for _, a := range args {
		if a.Type() == sqlite3.NULL {
			to.ResultNull()
			return
		}
	}
	text, old, with := []byte(args[0].Text()), []byte(args[1].Text()), []byte(args[2].Text())
	switch {
	case len(old) == 0:
		resultText(to, text)
	case len(text)+bytes.Count(text, old)*(len(with)-len(old)) > MaxValue:
		to.ResultError(sqlite3.TOOBIG)
	default:
		resultText(to, bytes.ReplaceAll(text, old, with))
	}
}
