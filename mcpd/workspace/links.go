package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxLinks is how many links a path may lead through, as in Linux.
const maxLinks = 40

// resolve returns the path that name means once the links in it are followed,
// the one at its end only if last is so. A name that os.Root does not open, as
// its links lead out of the workspace or in a circle, stays as it is.
func (w *Workspace) resolve(name string, last bool) string {
	todo, done, links := strings.Split(name, "/"), ".", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch {
		case part == "" || part == ".":
			continue
		case part == ".." && done == ".":
			return name
		case part == "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		if len(todo) == 0 && !last {
			return next
		}
		text, err := os.Readlink(filepath.Join(w.dir, next))
		switch {
		case errors.Is(err, fs.ErrNotExist): // nor anything below it
			return path.Join(next, path.Join(todo...))
		case err != nil: // it is no link
			done = next
			continue
		}
		if links++; links > maxLinks || path.IsAbs(text) {
			return name
		}
		todo = append(strings.Split(text, "/"), todo...)
	}
	return done
}
