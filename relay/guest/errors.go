package guest

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"hutch/fs"
)

const maxErrorText = 1000

// explain gives err, which came as a number, the text that the guest keeps
// of its last error, if that is of the same kind.
func explain(err error, text string) error {
	text, _, _ = strings.Cut(text, "\n")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "…"
	}
	if detail, ok := strings.CutPrefix(text, err.Error()+": "); ok {
		return fmt.Errorf("%w: %s", err, detail)
	}
	return err
}

// explain gives the error of a request the text that the guest keeps at path.
func (g *Guest) explain(ctx context.Context, err error, path ...string) error {
	if err == nil || err != fs.Kind(fs.Errno(err)) {
		return err
	}
	text, terr := g.text(ctx, path)
	if terr != nil {
		return err
	}
	return explain(err, text)
}
