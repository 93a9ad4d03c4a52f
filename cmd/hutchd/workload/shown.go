package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/profiles/permission"
	"hutch/profiles/reference"
	"hutch/profiles/runconfig"
)

// shown is a line for each folder of the host that a server sees, and for each file of
// it whose text the server gets, by a reference: who takes a config over from somebody
// else is to know.
func shown(c *runconfig.Server, t permission.Terms) string {
	var b strings.Builder
	if box, err := boxOf(c, t); err == nil && !c.IsRemote() { // else it cannot be started
		for _, m := range box.Mounts {
			may := "rw"
			if m.ReadOnly {
				may = "ro"
			}
			fmt.Fprintf(&b, "folder %s %s %s\n", fs.QuoteLine(m.Host), fs.QuoteLine(m.Guest), may)
		}
	}
	for _, text := range values(c) {
		if ref, ok, err := reference.Parse(text); ok && err == nil && ref.Scheme == reference.File {
			fmt.Fprintf(&b, "file %s\n", fs.QuoteLine(ref.Name))
		}
	}
	return b.String()
}

// values returns the values of a config that may be references, sorted, each once.
func values(c *runconfig.Server) []string {
	values := slices.AppendSeq(slices.Collect(maps.Values(c.Env)), maps.Values(c.Headers))
	for _, s := range c.Secrets {
		values = append(values, s.Reference.String())
	}
	for _, ref := range c.SecretHeaders {
		values = append(values, ref.String())
	}
	if c.Auth != nil {
		values = append(values, c.Auth.Bearer.String(), c.Auth.ClientSecret.String())
	}
	slices.Sort(values)
	return slices.Compact(values)
}
