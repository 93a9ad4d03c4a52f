// Package image keeps the root file systems that VMs start from: folders
// below one folder, made of what registries and archives hold, and the image
// "host", which is made of the machine's own programs. An image is never
// written to by a VM.
//
// On disk:
//
//	NAME/image.json          what the image is
//	NAME/rootfs/             its files: hard links to those of its layers
//	.layers/HEX/             a layer, by the digest of its tar archive; images share them
//	.new-*, .gone-*          what is being made and removed; swept at the next Open
//
// A folder NAME/rootfs without image.json, laid there by hand, is an image too.
package image

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"hutch/fs"
)

// Host is the name of the image that is always there: a read-only view of
// this machine's /usr and the few files of /etc that programs need.
const Host = "host"

// An Image is a root file system.
type Image struct {
	Name   string
	Kind   string   // "host", "folder", or what was imported
	Source string   // where it came from, for people
	Root   string   // the folder that becomes the guest's /
	Binds  []Bind   // folders of this machine that are seen inside it, read-only
	Env    []string // K=V: what the image would have in its commands' environment

	record record
}

// A Bind shows the folder or file Host of this machine at Guest in the image.
type Bind struct{ Host, Guest string }

// Digest returns the digest of the image's manifest, by which it is known
// everywhere; "" of the host's and of folders.
func (i Image) Digest() string { return i.record.Digest }

// Architecture returns what processors the image's programs are for, as Go names
// them.
func (i Image) Architecture() string { return cmp.Or(i.record.Architecture, runtime.GOARCH) }

// Info returns what the image's info file says.
func (i Image) Info() string {
	var b strings.Builder
	line := func(key string, words ...string) {
		if text := strings.Join(words, " "); text != "" {
			fmt.Fprintf(&b, "%s %s\n", key, text)
		}
	}
	r := i.record
	line("name", i.Name)
	line("kind", i.Kind)
	line("source", plain(i.Source))
	line("root", i.Root)
	for _, v := range i.Binds {
		line("view", v.Guest, v.Host)
	}
	line("digest", r.Digest)
	if len(r.Layers) > 0 {
		line("size", strconv.FormatInt(r.Size, 10))
		line("files", strconv.FormatInt(r.Entries, 10))
		line("skipped", strconv.FormatInt(r.Skipped, 10))
		line("layers", strconv.Itoa(len(r.Layers)))
	}
	for _, l := range r.Layers {
		line("layer", "sha256:"+l)
	}
	line("architecture", plain(r.Architecture))
	line("os", plain(r.OS))
	line("entrypoint", quoteAll(r.Entrypoint)...)
	line("cmd", quoteAll(r.Cmd)...)
	for _, kv := range r.Env {
		line("env", quoteAll([]string{kv})...)
	}
	line("user", plain(r.User))
	line("workdir", plain(r.Workdir))
	return b.String()
}

func quoteAll(words []string) []string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fs.QuoteLine(w)
	}
	return quoted
}

// plain returns s with what could end a line, or confuse a terminal, escaped.
func plain(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
