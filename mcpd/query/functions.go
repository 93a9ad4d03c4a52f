package query

import (
	"bytes"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// replace puts functions in the place of SQLite's own that take the square of
// their arguments' lengths, during which nothing can end them.
func replace(c *sqlite3.Conn) error {
	const flags = sqlite3.DETERMINISTIC | sqlite3.INNOCUOUS
	if err := c.CreateFunction("instr", 2, flags, instr); err != nil {
		return err
	}
	return c.CreateFunction("replace", 3, flags, replaceText)
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

// replaceText returns the first text with the third wherever it has the second.
func replaceText(to sqlite3.Context, args ...sqlite3.Value) {
	for _, a := range args {
		if a.Type() == sqlite3.NULL {
			to.ResultNull()
			return
		}
	}
	text, old, with := []byte(args[0].Text()), []byte(args[1].Text()), []byte(args[2].Text())
	if len(old) == 0 {
		to.ResultRawText(text)
		return
	}
	if len(text)+bytes.Count(text, old)*(len(with)-len(old)) > MaxValue {
		to.ResultError(sqlite3.TOOBIG)
		return
	}
	var err error
	func() {
		defer recovered(&err)
		to.ResultRawText(bytes.ReplaceAll(text, old, with))
	}()
	if err != nil {
		to.ResultError(err)
	}
}
