// Package mountinfo parses Linux' tables of mounts, /proc/PID/mountinfo.
package mountinfo

import (
	"fmt"
	"os"
	"strings"
)

// A Mount is a line of a table, see proc_pid_mountinfo(5).
type Mount struct {
	ID      string // of the mount, as fdinfo has it, too
	Device  string // major:minor
	Root    string // the folder of the file system that is seen
	Dir     string // where it is seen
	Flags   string // of the mount
	Kind    string // of the file system
	Source  string
	Options string // of the file system
}

// String says what is mounted, and by whom where the table has that.
func (m Mount) String() string {
	who := ""
	for _, o := range strings.Split(m.Options, ",") {
		if id, ok := strings.CutPrefix(o, "user_id="); ok {
			who = " of user " + id
		}
	}
	return fmt.Sprintf("%s (%s)%s", m.Source, m.Kind, who)
}

// Own is the path of the table of this process.
const Own = "/proc/self/mountinfo"

// Read returns the table at path. A later mount is over those before.
func Read(path string) ([]Mount, error) {
	text, err := os.ReadFile(path)
	return Parse(string(text)), err
}

// Parse returns the mounts of a table, without lines that are no such.
func Parse(table string) []Mount {
	var list []Mount
	for line := range strings.Lines(table) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		list = append(list, Mount{
			ID: l[0], Device: l[2], Root: escapes.Replace(l[3]), Dir: escapes.Replace(l[4]), Flags: l[5],
			Kind: r[0], Source: escapes.Replace(r[1]), Options: r[2],
		})
	}
	return list
}

var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")
